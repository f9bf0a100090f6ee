package container

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/network"
)

// ask is one request to create a container, as its JSON.
type ask struct {
	name   string
	config string // of Config; empty: {"Cmd":["sh"]}
	host   string // of HostConfig
	nets   string // of the endpoints
	img    image.Config
}

func (a ask) spec(t *testing.T) (Spec, []string, error) {
	t.Helper()
	cfg, host, nets := Config{Cmd: []string{"sh"}}, HostConfig{}, map[string]EndpointConfig(nil)
	for raw, into := range map[string]any{a.config: &cfg, a.host: &host, a.nets: &nets} {
		if raw == "" {
			continue
		}
		if err := json.Unmarshal([]byte(raw), into); err != nil {
			t.Fatalf("%s: %s: %v", a.name, raw, err)
		}
	}
	return NewSpec(cfg, host, nets, a.img)
}

func TestNewSpecInvalid(t *testing.T) {
	for _, tc := range []struct {
		ask
		want string // part of the text
	}{
		{ask{config: `{"Cmd":null}`}, "No command specified"},
		{ask{config: `{"Cmd":[""]}`}, "No command specified"},
		{ask{config: `{"Cmd":["a\u0000b"]}`}, "zero byte"},
		{ask{config: `{"Hostname":"a b"}`}, "invalid hostname format: a b"},
		{ask{config: `{"Hostname":"a\nb"}`}, "invalid hostname format: a\nb"},
		{ask{config: `{"Hostname":"a/b"}`}, "invalid hostname format: a/b"},
		{ask{config: `{"Hostname":"\u00e4"}`}, "invalid hostname format: \u00e4"},
		{ask{config: `{"Hostname":"` + strings.Repeat("a", 65) + `"}`}, "invalid hostname format"},
		{ask{config: `{"Domainname":"x y"}`}, "invalid domainname format"},
		{ask{config: `{"WorkingDir":"rel"}`}, "the working directory 'rel' is invalid, it needs to be an absolute path"},
		{ask{config: `{"WorkingDir":"/proc/self/fd/8"}`}, "under /proc"},
		{ask{config: `{"WorkingDir":"/a/../proc"}`}, "under /proc"},
		{ask{config: `{"Env":["=x"]}`}, "invalid environment variable: =x"},
		{ask{config: `{"Env":["a=\u0000"]}`}, "zero byte"},
		{ask{config: `{"User":"a:b:c"}`}, `invalid User "a:b:c"`},
		{ask{config: `{"User":"4294967295"}`}, "4294967295"},
		{ask{config: `{"StopSignal":"SIGFOO"}`}, "Invalid signal: SIGFOO"},
		{ask{config: `{"StopSignal":"65"}`}, "Invalid signal: 65"},
		{ask{config: `{"StopTimeout":99999999999}`}, "invalid StopTimeout 99999999999"},
		{ask{config: `{"Healthcheck":{"Test":["CMD","x"],"Interval":999999}}`}, "Interval in Healthcheck cannot be less than one millisecond"},
		{ask{config: `{"Healthcheck":{"StartPeriod":-1}}`}, "StartPeriod in Healthcheck"},
		{ask{config: `{"Healthcheck":{"Test":["RUN"]}}`}, `Unknown type "RUN"`},
		{ask{config: `{"Healthcheck":{"Test":["CMD"]}}`}, `no command after CMD`},
		{ask{config: `{"Healthcheck":{"Test":["CMD","a\u0000b"]}}`}, `zero byte`},
		{ask{config: `{"Healthcheck":{"Timeout":1}}`, img: image.Config{Healthcheck: &image.Healthcheck{Timeout: 1e9}}}, "Timeout in Healthcheck"},
		{ask{config: `{"Healthcheck":{"Retries":-1}}`}, "Retries"},
		{ask{config: `{"ExposedPorts":{"http":{}}}`}, `ExposedPorts: "http"`},
		{ask{config: `{"ExposedPorts":{"80/icmp":{}}}`}, "80/icmp"},
		{ask{config: `{"ExposedPorts":{"0/tcp":{}}}`}, "0/tcp"},
		{ask{config: `{"ExposedPorts":{"65536":{}}}`}, "65536"},
		{ask{config: `{"ExposedPorts":{"90-80":{}}}`}, "90-80"},
		{ask{config: `{"MacAddress":"01:02:03:04:05:06"}`}, "invalid MacAddress"},
		{ask{config: `{"MacAddress":"02:02:03:04:05"}`}, "invalid MacAddress"},
		{ask{config: `{"MacAddress":"02:42:03:04:05:06"}`, host: `{"NetworkMode":"host"}`}, "Conflicting options: mac-address"},
		{ask{host: `{"PortBindings":{"80/tcp":[{"HostPort":"x"}]}}`}, `invalid HostPort "x" of port 80/tcp`},
		{ask{host: `{"PortBindings":{"80/tcp":[{"HostPort":"70000"}]}}`}, `invalid HostPort "70000"`},
		{ask{host: `{"PortBindings":{"80-82/tcp":[{"HostPort":"8080-8081"}]}}`}, "differ in length"},
		{ask{host: `{"PortBindings":{"80/tcp":[{"HostIp":"localhost","HostPort":"1"}]}}`}, `invalid HostIp "localhost"`},
		{ask{host: `{"Binds":["rel/x:/y"]}`}, "use an absolute path"},
		{ask{host: `{"Binds":["./x:/y"]}`}, "use an absolute path"},
		{ask{host: `{"Binds":["/x:y"]}`}, "mount path must be absolute"},
		{ask{host: `{"Binds":["/x:/"]}`}, "destination can't be '/'"},
		{ask{host: `{"Binds":["/x:/a/.."]}`}, "destination can't be '/'"},
		{ask{host: `{"Binds":["/x:/proc/self/root"]}`}, "a process's own"},
		{ask{host: `{"Binds":["/proc/thread-self"]}`}, "a process's own"},
		{ask{host: `{"Tmpfs":{"/proc/1":""}}`}, "a process's own"},
		{ask{config: `{"ExposedPorts":{"1-65535/tcp":{}}}`, host: `{"PublishAllPorts":true}`}, "cannot publish 65535 ports: a container can have 16384 at most"},
		{ask{host: `{"Binds":["/x:/y:zz"]}`}, "invalid mode: zz"},
		{ask{host: `{"Binds":["/x:/y:ro,rw"]}`}, "invalid mode: ro,rw"},
		{ask{host: `{"Binds":["/x:/y:rshared,slave"]}`}, "invalid mode"},
		{ask{host: `{"Binds":["/x:/y:ro:z"]}`}, "invalid volume specification"},
		{ask{host: `{"Binds":[""]}`}, "invalid volume specification"},
		{ask{host: `{"Binds":[":/y"]}`}, "invalid volume specification"},
		{ask{host: `{"Binds":["/x:/y","/z:/y/"]}`}, "Duplicate mount point: /y"},
		{ask{host: `{"Binds":["/x:/y"],"Tmpfs":{"/y":""}}`}, "Duplicate mount point: /y"},
		{ask{host: `{"Tmpfs":{"y":""}}`}, "must be absolute"},
		{ask{host: `{"Tmpfs":{"/y":"bogus"}}`}, `invalid tmpfs option "bogus" of /y`},
		{ask{host: `{"Tmpfs":{"/y":"size=x"}}`}, `"size=x"`},
		{ask{host: `{"Tmpfs":{"/y":"mode=9"}}`}, `"mode=9"`},
		{ask{host: `{"Memory":-1}`}, "invalid Memory -1"},
		{ask{host: `{"Memory":4194303}`}, "Minimum memory limit allowed is 4MB"},
		{ask{host: `{"MemoryReservation":1}`}, "invalid MemoryReservation 1"},
		{ask{host: `{"Memory":8388608,"MemoryReservation":8388609}`}, "it should be smaller than Memory 8388608"},
		{ask{host: `{"MemorySwap":8388608}`}, "You should always set the Memory limit"},
		{ask{host: `{"Memory":8388608,"MemorySwap":8388607}`}, "should be larger than memory limit"},
		{ask{host: `{"MemorySwap":-2}`}, "invalid MemorySwap -2"},
		{ask{host: `{"MemorySwappiness":101}`}, "range is 0-100"},
		{ask{host: `{"MemorySwappiness":-2}`}, "range is 0-100"},
		{ask{host: `{"ShmSize":-1}`}, "invalid ShmSize -1"},
		{ask{host: `{"CpuShares":-1}`}, "invalid CpuShares -1"},
		{ask{host: `{"CpuPeriod":999}`}, "invalid CpuPeriod 999"},
		{ask{host: `{"CpuPeriod":1000001}`}, "invalid CpuPeriod 1000001"},
		{ask{host: `{"CpuQuota":999}`}, "invalid CpuQuota 999"},
		{ask{host: `{"NanoCpus":1}`}, "invalid NanoCpus 1"},
		{ask{host: `{"NanoCpus":1000000000,"CpuQuota":5000}`}, "Conflicting options: NanoCpus"},
		{ask{host: `{"CpusetCpus":"1-0"}`}, `invalid CpusetCpus "1-0"`},
		{ask{host: `{"CpusetMems":"x"}`}, `invalid CpusetMems "x"`},
		{ask{host: `{"BlkioWeight":9}`}, "Range of blkio weight is from 10 to 1000"},
		{ask{host: `{"BlkioWeight":1001}`}, "Range of blkio weight is from 10 to 1000"},
		{ask{host: `{"BlkioWeightDevice":[{"Path":"/dev/sda","Weight":5}]}`}, "invalid BlkioWeightDevice /dev/sda 5"},
		{ask{host: `{"BlkioDeviceReadBps":[{"Path":"sda","Rate":5}]}`}, `invalid BlkioDeviceReadBps "sda"`},
		{ask{host: `{"BlkioDeviceWriteIOps":[{"Path":"/dev/sda","Rate":0}]}`}, "invalid BlkioDeviceWriteIOps of /dev/sda: Rate must be greater than 0"},
		{ask{host: `{"PidsLimit":-2}`}, "invalid PidsLimit -2"},
		{ask{host: `{"OomScoreAdj":1001}`}, "range for oom score adj is [-1000, 1000]"},
		{ask{host: `{"UsernsMode":"keep-id:size=9"}`}, `invalid UsernsMode "keep-id:size=9": expected keep-id:uid=UID,gid=GID, one of them or both`},
		{ask{host: `{"UsernsMode":"auto"}`}, `invalid UsernsMode "auto": expected host or keep-id`},
		{ask{host: `{"Isolation":"full"}`}, `invalid Isolation "full": expected default`},
		{ask{host: `{"Runtime":"kata"}`}, `invalid Runtime "kata": expected crun or runc`},
		{ask{host: `{"RestartPolicy":{"Name":"sometimes"}}`}, "invalid restart policy 'sometimes'"},
		{ask{host: `{"RestartPolicy":{"Name":"on-failure","MaximumRetryCount":-1}}`}, "cannot be negative"},
		{ask{host: `{"RestartPolicy":{"Name":"always","MaximumRetryCount":1}}`}, "cannot be used with restart policy 'always'"},
		{ask{host: `{"RestartPolicy":{"MaximumRetryCount":1}}`}, "cannot be used with restart policy 'no'"},
		{ask{host: `{"RestartPolicy":{"Name":"always"},"AutoRemove":true}`}, "can't create 'AutoRemove' container"},
		{ask{host: `{"LogConfig":{"Type":"nosuch"}}`}, "logger: no log driver named 'nosuch' is registered"},
		{ask{host: `{"LogConfig":{"Type":"json-file","Config":{"max-size":"x"}}}`}, "log opt 'max-size'"},
		{ask{host: `{"LogConfig":{"Type":"json-file","Config":{"max-size":"0"}}}`}, "log opt 'max-size'"},
		{ask{host: `{"LogConfig":{"Type":"json-file","Config":{"compress":"true","max-size":"1m"}}}`}, "log opt 'compress'"},
		{ask{host: `{"LogConfig":{"Type":"json-file","Config":{"compress":"perhaps"}}}`}, "log opt 'compress'"},
		{ask{host: `{"LogConfig":{"Type":"json-file","Config":{"mode":"lazy"}}}`}, "log opt 'mode'"},
		{ask{host: `{"LogConfig":{"Type":"json-file","Config":{"max-buffer-size":"1m"}}}`}, "log opt 'max-buffer-size'"},
		{ask{host: `{"LogConfig":{"Type":"json-file","Config":{"tag":"{{.Nope}}"}}}`}, "log opt 'tag'"},
		{ask{host: `{"LogConfig":{"Type":"json-file","Config":{"tag":"{{range .}}"}}}`}, "log opt 'tag'"},
		{ask{host: `{"LogConfig":{"Type":"json-file","Config":{"labels-regex":"("}}}`}, "log opt 'labels-regex'"},
		{ask{host: `{"LogConfig":{"Type":"json-file","Config":{"env-regex":"["}}}`}, "log opt 'env-regex'"},
		{ask{host: `{"LogConfig":{"Type":"json-file","Config":{"nope":"1"}}}`}, "log opt 'nope'"},
		{ask{host: `{"LogConfig":{"Config":{"max-file":"0"}}}`}, "log opt 'max-file'"},
		{ask{host: `{"LogConfig":{"Config":{"colour":"red"}}}`}, "unknown log opt 'colour'"},
		{ask{host: `{"Ulimits":[{"Name":"files","Soft":1,"Hard":1}]}`}, "invalid ulimit type: files"},
		{ask{host: `{"Ulimits":[{"Name":"nofile","Soft":2,"Hard":1}]}`}, "2 > 1"},
		{ask{host: `{"Ulimits":[{"Name":"nofile","Soft":-1,"Hard":1}]}`}, "-1 > 1"},
		{ask{host: `{"Ulimits":[{"Name":"nofile","Soft":-2,"Hard":-2}]}`}, "invalid ulimit nofile"},
		{ask{host: `{"Devices":[{"PathOnHost":"null"}]}`}, "PathOnHost must be an absolute path"},
		{ask{host: `{"Devices":[{"PathOnHost":"/dev/null","PathInContainer":"x"}]}`}, "PathInContainer must be an absolute path"},
		{ask{host: `{"Devices":[{"PathOnHost":"/dev/null","CgroupPermissions":"rx"}]}`}, "invalid device mode: rx"},
		{ask{host: `{"CapAdd":["FLY"]}`}, `invalid CapAdd: unknown capability: "FLY"`},
		{ask{host: `{"CapDrop":["CAP_FLY"]}`}, `invalid CapDrop: unknown capability: "CAP_FLY"`},
		{ask{host: `{"SecurityOpt":["colour=red"]}`}, `invalid --security-opt: "colour=red"`},
		{ask{host: `{"SecurityOpt":["no-new-privileges=maybe"]}`}, "invalid --security-opt"},
		{ask{host: `{"SecurityOpt":["seccomp=/etc/profile.json"]}`}, "invalid seccomp profile"},
		{ask{host: `{"SecurityOpt":["seccomp=null"]}`}, "invalid seccomp profile"},
		{ask{host: `{"MaskedPaths":["proc"]}`}, `invalid MaskedPaths "proc"`},
		{ask{host: `{"Sysctls":{"kernel.hostname":"x"}}`}, "sysctl 'kernel.hostname' is not allowed"},
		{ask{host: `{"Sysctls":{"vm.swappiness":"1"}}`}, "sysctl 'vm.swappiness' is not allowed"},
		{ask{host: `{"Sysctls":{"net.ipv4.ip_forward":"1"},"NetworkMode":"host"}`}, "shares that namespace"},
		{ask{host: `{"Sysctls":{"kernel.shmmax":"1"},"IpcMode":"host"}`}, "shares that namespace"},
		{ask{host: `{"Sysctls":{"net.ipv4/../../kernel.x":"1"}}`}, "invalid sysctl"},
		{ask{host: `{"Sysctls":{"net..x":"1"}}`}, "invalid sysctl"},
		{ask{host: `{"Sysctls":{"net.ipv4.ip_forward":"1\n+x"}}`}, "invalid sysctl"},
		{ask{host: `{"ExtraHosts":["a"]}`}, `invalid ExtraHosts "a"`},
		{ask{host: `{"ExtraHosts":["a:b"]}`}, `"b" is not an IP address`},
		{ask{host: `{"ExtraHosts":["a b:1.2.3.4"]}`}, "expected hostname:IP"},
		{ask{host: `{"ExtraHosts":["a\nb:1.2.3.4"]}`}, "expected hostname:IP"},
		{ask{host: `{"Dns":["dns.example"]}`}, `invalid Dns "dns.example"`},
		{ask{host: `{"DnsSearch":["a b"]}`}, `invalid DnsSearch "a b"`},
		{ask{host: `{"DnsOptions":["x\ny"]}`}, "invalid DnsOptions"},
		{ask{host: `{"GroupAdd":["a:b"]}`}, `invalid GroupAdd "a:b"`},
		{ask{host: `{"PidMode":"mine"}`}, "invalid PID mode: mine"},
		{ask{host: `{"IpcMode":"mine"}`}, "invalid IPC mode: mine"},
		{ask{host: `{"UTSMode":"mine"}`}, "invalid UTS mode: mine"},
		{ask{config: `{"Hostname":"web"}`, host: `{"UTSMode":"host"}`}, "Conflicting options: hostname and the UTS mode"},
		{ask{nets: `{"bridge":{"Aliases":["db"]}}`}, "network-scoped alias"},
		{ask{nets: `{"bridge":{"IPAMConfig":{"IPv4Address":"1.2.3.4"}}}`}, "user specified IP address"},
	} {
		_, _, err := tc.spec(t)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("NewSpec(%s %s %s) error = %v, want fault.Invalid with %q", tc.config, tc.host, tc.nets, err, tc.want)
		}
	}
}

func TestNewSpecUnsupported(t *testing.T) {
	for _, tc := range []struct {
		ask
		field string
	}{
		{ask{host: `{"VolumeDriver":"nfs","Binds":["data:/data"]}`}, "VolumeDriver nfs"},
		{ask{host: `{"VolumeDriver":"nfs"}`, config: `{"Volumes":{"/data":{}}}`}, "VolumeDriver nfs"},
		{ask{host: `{"Isolation":"Hyperv"}`}, "Isolation Hyperv"},
		{ask{host: `{"DeviceCgroupRules":["c 1:3 rwm"]}`}, "DeviceCgroupRules"},
		{ask{host: `{"Mounts":[{"Type":"npipe","Source":"a","Target":"/b"}]}`}, "Mounts: Type npipe"},
		{ask{host: `{"Mounts":[{"Type":"volume","Target":"/b","VolumeOptions":{"DriverConfig":{"Name":"x"}}}]}`}, "VolumeOptions.DriverConfig.Name x"},
	} {
		_, _, err := tc.spec(t)
		if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), tc.field) {
			t.Errorf("NewSpec(%s %s %s) error = %v, want fault.Unsupported naming %q", tc.config, tc.host, tc.nets, err, tc.field)
		}
	}
}

// TestNewSpecWithoutEffect takes settings that nothing of the container asks for.
func TestNewSpecWithoutEffect(t *testing.T) {
	for _, tc := range []ask{
		{host: `{"Isolation":"Default"}`},
		{host: `{"Isolation":""}`},
		{host: `{"VolumeDriver":"nfs"}`},
		{host: `{"VolumeDriver":"nfs","Binds":["/tmp:/data"],"Tmpfs":{"/v":""}}`, config: `{"Volumes":{"/v":{}}}`},
		{host: `{"VolumeDriver":"nfs","Mounts":[{"Type":"volume","Source":"data","Target":"/data"}]}`},
	} {
		if _, warnings, err := tc.spec(t); err != nil || len(warnings) > 0 {
			t.Errorf("NewSpec(%s %s) = %q, %v, want neither warnings nor an error", tc.config, tc.host, warnings, err)
		}
	}
}

func TestNewSpecWarnings(t *testing.T) {
	for _, tc := range []struct {
		ask
		want []string // the first words of each
	}{
		{ask{}, nil},
		{ask{host: `{"KernelMemory":1000}`}, []string{"KernelMemory has no effect"}},
		{ask{host: `{"Init":true}`}, nil},
		{ask{host: `{"Init":true,"PidMode":"host"}`}, []string{"Init has no effect"}},
		{ask{host: `{"Init":false}`}, nil},
		{ask{host: `{"CpuPercent":10,"CpuCount":2}`}, []string{"CpuPercent has no effect", "CpuCount has no effect"}},
		{ask{host: `{"IOMaximumIOps":1,"IOMaximumBandwidth":1}`}, []string{"IOMaximumIOps has", "IOMaximumBandwidth has"}},
		{ask{host: `{"LxcConf":[{"Key":"a","Value":"b"}]}`}, []string{"LxcConf has no effect"}},
		{ask{host: `{"SecurityOpt":["apparmor=mine","label:type:x","label=disable","apparmor=unconfined"]}`}, []string{
			"SecurityOpt apparmor=mine has no effect: the container runs without AppArmor",
			"SecurityOpt label:type:x has no effect: the container runs without SELinux",
		}},
		{ask{host: `{"Devices":[{"PathOnHost":"/dev/fuse","CgroupPermissions":"r"}]}`}, []string{"CgroupPermissions r of device /dev/fuse"}},
		{ask{host: `{"Devices":[{"PathOnHost":"/dev/fuse","CgroupPermissions":"mrw"}]}`}, nil},
		{ask{host: `{"NetworkMode":"host","PortBindings":{"80/tcp":[{}]}}`}, []string{"Published ports are discarded when using host"}},
		{ask{host: `{"OomScoreAdj":-5}`}, []string{"OomScoreAdj -5"}},
		{ask{host: `{"Ulimits":[{"Name":"fsize","Soft":10,"Hard":20}]}`}, []string{"Ulimits: fsize=10:20 is too small"}},
		{ask{host: `{"Ulimits":[{"Name":"fsize","Soft":32768,"Hard":32768}]}`}, nil},
		{ask{host: `{"Ulimits":[{"Name":"fsize","Soft":-1,"Hard":-1}]}`}, nil},
		{ask{host: `{"Ulimits":[{"Name":"nofile","Soft":10,"Hard":20}]}`}, []string{
			"Ulimits: nofile=10:20 is too small for the runtime, which opens files under it: 48 is used",
		}},
		{ask{host: `{"Ulimits":[{"Name":"nofile","Soft":48,"Hard":48}]}`}, nil},
		{ask{host: `{"Ulimits":[{"Name":"nofile","Soft":-1,"Hard":-1}]}`}, nil},
		{ask{host: `{"Ulimits":[{"Name":"nofile","Soft":51,"Hard":64}],"Binds":["/a:/a","v:/v"],"Tmpfs":{"/t":""},"Mounts":[{"Type":"image","Source":"i","Target":"/i"}]}`}, []string{
			"Ulimits: nofile=51:64 is too small for the runtime, which opens files under it: 52 is used",
		}},
		{ask{host: `{"Ulimits":[{"Name":"core","Soft":0,"Hard":0},{"Name":"nproc","Soft":1,"Hard":1}]}`}, nil},
		{ask{host: `{"ShmSize":1048576}`}, nil},
		{ask{host: `{"ShmSize":1048576,"IpcMode":"shareable"}`}, nil},
		{ask{host: `{"ShmSize":0,"IpcMode":"host"}`}, nil},
		{ask{host: `{"ShmSize":1048576,"IpcMode":"host"}`}, []string{"ShmSize has no effect: with IpcMode host"}},
		{ask{host: `{"ShmSize":1048576,"IpcMode":"none"}`}, []string{"ShmSize has no effect: with IpcMode none"}},
		{ask{host: `{"ShmSize":1048576,"IpcMode":"container:web"}`}, []string{"ShmSize has no effect: with IpcMode container:web"}},
		{ask{img: image.Config{Healthcheck: &image.Healthcheck{Test: []string{"CMD", "x"}}}}, nil},
		{ask{img: image.Config{Healthcheck: &image.Healthcheck{Test: []string{"RUN"}}}}, []string{"The image's health check is left out"}},
		{ask{img: image.Config{Healthcheck: &image.Healthcheck{Test: []string{"CMD", "x"}, Timeout: 5}}}, []string{"The image's health check has a wrong Timeout"}},
		{ask{img: image.Config{Healthcheck: &image.Healthcheck{Test: []string{"NONE"}}}}, nil},
		{ask{config: `{"Healthcheck":{"Test":["NONE"]}}`, img: image.Config{Healthcheck: &image.Healthcheck{Test: []string{"CMD", "x"}}}}, nil},
		{ask{img: image.Config{Volumes: map[string]struct{}{"/data": {}}}}, nil},
		{ask{img: image.Config{Volumes: map[string]struct{}{"/a/..": {}}}}, []string{`The image asks for a volume at "/a/.."`}},
		{ask{host: `{"Binds":["/x:/data"]}`, img: image.Config{Volumes: map[string]struct{}{"/data": {}}}}, nil},
		{ask{config: `{"Volumes":{"/data":{}}}`, host: `{"Binds":["/x:/data"]}`}, nil},
		{ask{img: image.Config{ExposedPorts: map[string]struct{}{"web": {}}}}, []string{`The image exposes port "web"`}},
	} {
		_, warnings, err := tc.spec(t)
		if err != nil {
			t.Errorf("NewSpec(%s %s) error = %v", tc.config, tc.host, err)
			continue
		}
		ok := slices.EqualFunc(warnings, tc.want, strings.HasPrefix)
		if !ok {
			t.Errorf("NewSpec(%s %s) warnings = %q, want %q", tc.config, tc.host, warnings, tc.want)
		}
	}
}

func TestMergeCommand(t *testing.T) {
	img := image.Config{Entrypoint: []string{"entry"}, Cmd: []string{"cmd"}}
	for _, tc := range []struct {
		config string
		img    image.Config
		want   []string
	}{
		{`{"Cmd":null}`, img, []string{"entry", "cmd"}},
		{`{"Cmd":["x"]}`, img, []string{"entry", "x"}},
		{`{"Cmd":["x y"]}`, img, []string{"entry", "x y"}},
		{`{"Cmd":null,"Entrypoint":["e"]}`, img, []string{"e"}},
		{`{"Cmd":["x"],"Entrypoint":["e"]}`, img, []string{"e", "x"}},
		{`{"Cmd":["x"],"Entrypoint":[""]}`, img, []string{"x"}},
		{`{"Cmd":["x"],"Entrypoint":[]}`, img, []string{"x"}},
		{`{"Cmd":null,"Entrypoint":[]}`, img, []string{"cmd"}},
	} {
		spec, _, err := ask{config: tc.config, img: tc.img}.spec(t)
		if err != nil || !slices.Equal(spec.Args, tc.want) {
			t.Errorf("args of %s = %q, %v, want %q", tc.config, spec.Args, err, tc.want)
		}
	}
}

func TestMergeImage(t *testing.T) {
	img := image.Config{
		User: "web", WorkingDir: "srv/", StopSignal: "SIGQUIT", Labels: map[string]string{"a": "image", "b": "image"},
		Env:          []string{"PATH=/bin", "A=1", "SECRET", "=x", "B=2"},
		ExposedPorts: map[string]struct{}{"80/tcp": {}},
	}
	spec, _, err := ask{
		config: `{"Cmd":["x"],"Env":["A=3","B","C=4=5","C=6","D"],"Labels":{"b":"mine"},"ExposedPorts":{"81":{}}}`, img: img,
	}.spec(t)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"PATH=/bin", "A=3", "B", "C=6", "D"}; !slices.Equal(spec.Env, want) {
		t.Errorf("Env = %q, want %q", spec.Env, want)
	}
	if want := (map[string]string{"a": "image", "b": "mine"}); !reflect.DeepEqual(spec.Config.Labels, want) {
		t.Errorf("Labels = %v, want %v", spec.Config.Labels, want)
	}
	if spec.User.Name != "web" || spec.Config.WorkingDir != "/srv" || spec.StopSignal != 3 || spec.StopTimeout != 10*time.Second {
		t.Errorf("user %v, folder %s, signal %d, timeout %s", spec.User, spec.Config.WorkingDir, spec.StopSignal, spec.StopTimeout)
	}
	if want := []network.Port{{Proto: "tcp", ContainerPort: 80}, {Proto: "tcp", ContainerPort: 81}}; !slices.Equal(spec.Exposed, want) {
		t.Errorf("Exposed = %v, want %v", spec.Exposed, want)
	}
	if len(img.Env) != 5 || img.Labels["b"] != "image" || len(img.ExposedPorts) != 1 {
		t.Errorf("the image's configuration was changed: %+v", img)
	}
}

func TestSpecOfRepeatsNewSpec(t *testing.T) {
	first, _, err := ask{
		config: `{"Cmd":["x"],"Entrypoint":[],"Env":["A=1"],"Hostname":"web"}`,
		host:   `{"Binds":["/x:/y:ro"],"PortBindings":{"80/tcp":[{"HostPort":"8080"}]},"PidsLimit":5,"Memory":8388608}`,
		img: image.Config{
			Entrypoint: []string{"e"}, Cmd: []string{"c"}, Env: []string{"B=2"}, Volumes: map[string]struct{}{"/v": {}},
			Healthcheck: &image.Healthcheck{Test: []string{"CMD", "x"}}, ExposedPorts: map[string]struct{}{"90/udp": {}},
		},
	}.spec(t)
	if err != nil {
		t.Fatal(err)
	}
	first.Volumes[0].Name, first.Volumes[0].Source = "v1", "/volumes/v1/_data"
	raw, err := json.Marshal(&Record{Config: first.Config, Host: first.Host, Endpoints: first.Endpoints, Mounts: first.Mounts()})
	if err != nil {
		t.Fatal(err)
	}
	var record Record
	if err := json.Unmarshal(raw, &record); err != nil {
		t.Fatal(err)
	}
	again, err := SpecOf(&record)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]any{
		{first.Args, again.Args},
		{first.Env, again.Env},
		{first.Binds, again.Binds},
		{first.Mounts(), again.Mounts()},
		{first.Publish, again.Publish},
		{first.Exposed, again.Exposed},
		{first.Log, again.Log},
		{first.Restart, again.Restart},
		{first.Host.ShmSize, again.Host.ShmSize},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("after a restart %+v is %+v", pair[0], pair[1])
		}
	}
}

// TestSpecOfSharedName starts a container that shares the host's name: its record shows that name without having asked
// for it.
func TestSpecOfSharedName(t *testing.T) {
	first, _, err := ask{config: `{"Cmd":["x"]}`, host: `{"UTSMode":"host"}`}.spec(t)
	if err != nil {
		t.Fatal(err)
	}
	record := Record{Config: first.Config, Host: first.Host}
	record.Config.Hostname = first.Hostname("0123456789abcdef", "machine")
	again, err := SpecOf(&record)
	if err != nil || !again.UTSHost || again.Hostname("0123456789abcdef", "machine") != "machine" {
		t.Errorf("SpecOf = %+v, %v, want the host's name", again, err)
	}
	if record.Config.Hostname != "machine" {
		t.Errorf("SpecOf changed the record: %q", record.Config.Hostname)
	}
}

func TestHostname(t *testing.T) {
	const id = "0123456789abcdef"
	for _, tc := range []struct{ config, host, want string }{
		{"", "", "0123456789ab"},
		{`{"Hostname":"web.example"}`, "", "web.example"},
		{"", `{"NetworkMode":"host"}`, "machine"},
		{`{"Hostname":"web"}`, `{"NetworkMode":"host"}`, "web"},
		{"", `{"UTSMode":"host"}`, "machine"},
	} {
		spec, _, err := ask{config: tc.config, host: tc.host}.spec(t)
		if err != nil {
			t.Fatal(err)
		}
		if got := spec.Hostname(id, "machine"); got != tc.want {
			t.Errorf("Hostname(%s %s) = %q, want %q", tc.config, tc.host, got, tc.want)
		}
	}
}
