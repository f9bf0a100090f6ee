package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"moss/api/client/clienttest"
	"moss/api/types"
)

// bodyOf builds the create body of a command line, through the real command.
func bodyOf(t *testing.T, command string, args ...string) (types.ContainerCreate, error) {
	t.Helper()
	env := map[string]string{"HANDED": "mine", "http_proxy": "p", "HTTPS_PROXY": "s", "SSL_CERT_FILE": "/dev/null"}
	a := &app{lookup: func(name string) (string, bool) { value, set := env[name]; return value, set }}
	var flags createFlags
	cmd := a.createCommand()
	if command == "run" {
		cmd = a.runCommand()
	}
	cmd.ResetFlags()
	cmd.Flags().SetInterspersed(false)
	flags.registerFlags(cmd.Flags())
	if err := cmd.ParseFlags(args); err != nil {
		return types.ContainerCreate{}, err
	}
	return a.bodyFromFlags(cmd, &flags, cmd.Flags().Args())
}

func TestCreateBody(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "seccomp.json")
	if err := os.WriteFile(profile, []byte("{ \"defaultAction\" :\n \"SCMP_ACT_ALLOW\" }"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string // split at blanks
		want string // JSON that the body must hold, beside that of a bare IMAGE
	}{
		{"", `{"Image":"box","AttachStdout":true,"AttachStderr":true,"HostConfig":{"NetworkMode":"default","RestartPolicy":{"Name":"no"}}}`},
		{"-i -t", `{"Tty":true,"OpenStdin":true,"StdinOnce":true,"AttachStdin":true}`},
		{"-it", `{"Tty":true,"OpenStdin":true,"StdinOnce":true,"AttachStdin":true}`},
		{"-a stdin -a stderr", `{"OpenStdin":true,"StdinOnce":true,"AttachStdin":true,"AttachStdout":false}`},
		{"-e A=1 -e HANDED -e MISSING", `{"Env":["A=1","HANDED=mine"]}`},
		{"--http-proxy -e A=1", `{"Env":["http_proxy=p","HTTPS_PROXY=s","A=1"]}`},
		{"--http-proxy -e HTTP_PROXY=x", `{"Env":["HTTPS_PROXY=s","HTTP_PROXY=x"]}`},
		{"--host-ca -e SSL_CERT_FILE=x", `{"Env":["SSL_CERT_FILE=/run/host-ca.pem","CURL_CA_BUNDLE=/run/host-ca.pem","REQUESTS_CA_BUNDLE=/run/host-ca.pem","NODE_EXTRA_CA_CERTS=/run/host-ca.pem","GIT_SSL_CAINFO=/run/host-ca.pem","SSL_CERT_FILE=x"],"HostConfig":{"Mounts":[{"Type":"bind","Source":"/dev/null","Target":"/run/host-ca.pem","ReadOnly":true}]}}`},
		{"-l a=1 --label b", `{"Labels":{"a":"1","b":""}}`},
		{"-u 1:2 -w /x -h name --domainname d --stop-signal INT --mac-address 02:00:00:00:00:01", `{"User":"1:2","WorkingDir":"/x","Hostname":"name","Domainname":"d","StopSignal":"INT","MacAddress":"02:00:00:00:00:01"}`},
		{"--entrypoint /bin/sh", `{"Entrypoint":["/bin/sh"]}`},
		{"--entrypoint=", `{"Entrypoint":[""]}`},
		{"-v /a:/b:ro -v ./c:/d -v /anon -v vol:/e", `{"Volumes":{"/anon":{}},"HostConfig":{"Binds":["/a:/b:ro","` + dir + `/c:/d","vol:/e"]}}`},
		{"-p 127.0.0.1:80:8080 -P --expose 53/udp", `{"ExposedPorts":{"8080/tcp":{},"53/udp":{}},"HostConfig":{"PublishAllPorts":true,"PortBindings":{"8080/tcp":[{"HostIp":"127.0.0.1","HostPort":"80"}]}}}`},
		{"--network host --add-host a:1.2.3.4 --dns 9.9.9.9 --dns-search x --dns-option y", `{"HostConfig":{"NetworkMode":"host","ExtraHosts":["a:1.2.3.4"],"Dns":["9.9.9.9"],"DnsSearch":["x"],"DnsOptions":["y"]}}`},
		{"--net mine --ip 10.0.0.9 --network-alias db", `{"NetworkingConfig":{"EndpointsConfig":{"mine":{"IPAMConfig":{"IPv4Address":"10.0.0.9"},"Aliases":["db"]}}}}`},
		{"--network mine --network other", `{"HostConfig":{"NetworkMode":"mine"},"NetworkingConfig":{"EndpointsConfig":{"mine":{},"other":{}}}}`},
		{"--net mine --network bridge --ip 10.0.0.9", `{"HostConfig":{"NetworkMode":"mine"},"NetworkingConfig":{"EndpointsConfig":{"mine":{"IPAMConfig":{"IPv4Address":"10.0.0.9"}},"bridge":{}}}}`},
		{"--network default --network mine", `{"HostConfig":{"NetworkMode":"bridge"},"NetworkingConfig":{"EndpointsConfig":{"bridge":{},"mine":{}}}}`},
		{"--network name=mine,alias=a,ip=10.0.0.9,alias=b,mac-address=02:00:00:00:00:01 --network-alias c", `{"MacAddress":"02:00:00:00:00:01","HostConfig":{"NetworkMode":"mine"},"NetworkingConfig":{"EndpointsConfig":{"mine":{"IPAMConfig":{"IPv4Address":"10.0.0.9"},"Aliases":["a","b","c"]}}}}`},
		{"--network mine --network name=other,ip6=fd00::2,link-local-ip=169.254.0.2,mac-address=02:00:00:00:00:02", `{"MacAddress":false,"NetworkingConfig":{"EndpointsConfig":{"other":{"IPAMConfig":{"IPv6Address":"fd00::2","LinkLocalIPs":["169.254.0.2"]},"MacAddress":"02:00:00:00:00:02"}}}}`},
		{"--network name=bridge,mac-address=02:00:00:00:00:01", `{"MacAddress":"02:00:00:00:00:01","NetworkingConfig":false,"HostConfig":{"NetworkMode":"bridge"}}`},
		{"--network mine --link db:www", `{"HostConfig":{"Links":["db:www"]},"NetworkingConfig":{"EndpointsConfig":{"mine":{"Links":["db:www"]}}}}`},
		{"--network-alias a --net-alias b --net mine", `{"NetworkingConfig":{"EndpointsConfig":{"mine":{"Aliases":["a","b"]}}}}`},
		{"--dns-opt a --dns-option b --dns-opt c", `{"HostConfig":{"DnsOptions":["a","b","c"]}}`},
		{"--add-host a:host-gateway --add-host b=fd00::1 --add-host c:[fd00::2]", `{"HostConfig":{"ExtraHosts":["a:host-gateway","b:fd00::1","c:fd00::2"]}}`},
		{"-p 8000-8001:80-81 -p 53:53/udp --expose 90-91/udp", `{"ExposedPorts":{"80/tcp":{},"81/tcp":{},"53/udp":{},"90/udp":{},"91/udp":{}},"HostConfig":{"PortBindings":{"80/tcp":[{"HostPort":"8000"}],"81/tcp":[{"HostPort":"8001"}],"53/udp":[{"HostPort":"53"}]}}}`},
		{"--init", `{"HostConfig":{"Init":true}}`},
		{"--cap-add NET_RAW --cap-drop ALL --privileged --read-only --group-add g", `{"HostConfig":{"CapAdd":["NET_RAW"],"CapDrop":["ALL"],"Privileged":true,"ReadonlyRootfs":true,"GroupAdd":["g"]}}`},
		{"--mount type=bind,src=/home/me/x,dst=/x,ro --mount type=tmpfs,dst=/t,tmpfs-size=1m", `{"HostConfig":{"Mounts":[{"Type":"bind","Source":"/home/me/x","Target":"/x","ReadOnly":true},{"Type":"tmpfs","Target":"/t","TmpfsOptions":{"SizeBytes":1048576}}]}}`},
		{"--tmpfs /run:size=1m --shm-size 1m --device /dev/fuse", `{"HostConfig":{"Tmpfs":{"/run":"size=1m"},"ShmSize":1048576,"Devices":[{"PathOnHost":"/dev/fuse","PathInContainer":"/dev/fuse","CgroupPermissions":"rwm"}]}}`},
		{"--ulimit nofile=1:2 --sysctl net.x=1 --pids-limit -1 --oom-score-adj 5", `{"HostConfig":{"Ulimits":[{"Name":"nofile","Soft":1,"Hard":2}],"Sysctls":{"net.x":"1"},"PidsLimit":-1,"OomScoreAdj":5}}`},
		{"-m 64m --memory-swap -1 --memory-reservation 1m --memory-swappiness 0", `{"HostConfig":{"Memory":67108864,"MemorySwap":-1,"MemoryReservation":1048576,"MemorySwappiness":0}}`},
		{"--cpus 1.5 -c 512 --cpuset-cpus 0-1", `{"HostConfig":{"NanoCpus":1500000000,"CpuShares":512,"CpusetCpus":"0-1"}}`},
		{"--security-opt no-new-privileges --security-opt seccomp=" + profile, `{"HostConfig":{"SecurityOpt":["no-new-privileges","seccomp={\"defaultAction\":\"SCMP_ACT_ALLOW\"}"]}}`},
		{"--restart on-failure:3 --log-driver json-file --log-opt max-size=1m", `{"HostConfig":{"RestartPolicy":{"Name":"on-failure","MaximumRetryCount":3},"LogConfig":{"Type":"json-file","Config":{"max-size":"1m"}}}}`},
		{"--link db --link web:www", `{"HostConfig":{"Links":["db:db","web:www"]}}`},
		{"--net mine --link db --net-alias x --ip6 fd00::2 --link-local-ip 169.254.1.1", `{"NetworkingConfig":{"EndpointsConfig":{"mine":{"IPAMConfig":{"IPv6Address":"fd00::2","LinkLocalIPs":["169.254.1.1"]},"Links":["db:db"],"Aliases":["x"]}}}}`},
		{"--volumes-from a:ro --volume-driver local --storage-opt size=1g --runtime crun --isolation default", `{"HostConfig":{"VolumesFrom":["a:ro"],"VolumeDriver":"local","StorageOpt":{"size":"1g"},"Runtime":"crun","Isolation":"default"}}`},
		{"--health-cmd true --health-interval 1s --health-timeout 2s --health-start-period 3s --health-start-interval 5s --health-retries 4", `{"Healthcheck":{"Test":["CMD-SHELL","true"],"Interval":1000000000,"Timeout":2000000000,"StartPeriod":3000000000,"StartInterval":5000000000,"Retries":4}}`},
		{"--health-retries 4", `{"Healthcheck":{"Retries":4}}`},
		{"--no-healthcheck", `{"Healthcheck":{"Test":["NONE"]}}`},
		{"--blkio-weight 300 --blkio-weight-device /dev/sda:200", `{"HostConfig":{"BlkioWeight":300,"BlkioWeightDevice":[{"Path":"/dev/sda","Weight":200}]}}`},
		{"--device-read-bps /dev/sda:1mb --device-write-bps /dev/sda:2k --device-read-iops /dev/sda:3 --device-write-iops /dev/sda:4", `{"HostConfig":{"BlkioDeviceReadBps":[{"Path":"/dev/sda","Rate":1048576}],"BlkioDeviceWriteBps":[{"Path":"/dev/sda","Rate":2048}],"BlkioDeviceReadIOps":[{"Path":"/dev/sda","Rate":3}],"BlkioDeviceWriteIOps":[{"Path":"/dev/sda","Rate":4}]}}`},
		{"--kernel-memory 4m --oom-kill-disable --cpuset-mems 0 --cpu-period 1000 --cpu-quota 500", `{"HostConfig":{"KernelMemory":4194304,"OomKillDisable":true,"CpusetMems":"0","CpuPeriod":1000,"CpuQuota":500}}`},
		{"--cpu-count 2 --cpu-percent 5 --io-maxbandwidth 1k --io-maxiops 7", `{"HostConfig":{"CpuCount":2,"CpuPercent":5,"IOMaximumBandwidth":1024,"IOMaximumIOps":7}}`},
		{"--stop-timeout 0", `{"StopTimeout":0}`},
		{"--device-cgroup-rule c\t1:3\tmr --device-cgroup-rule a\t*:*\trwm", `{"HostConfig":{"DeviceCgroupRules":["c 1:3 mr","a *:* rwm"]}}`},
		{
			"--device aa.com/gpu=0 --device /dev/null --gpus 2 --device aa.com/gpu=b:1 --gpus all",
			`{"HostConfig":{"Devices":[{"PathOnHost":"/dev/null","PathInContainer":"/dev/null","CgroupPermissions":"rwm"}],"DeviceRequests":[
				{"Driver":"","Count":2,"DeviceIDs":null,"Capabilities":[["gpu"]],"Options":{}},
				{"Driver":"","Count":-1,"DeviceIDs":null,"Capabilities":[["gpu"]],"Options":{}},
				{"Driver":"cdi","Count":0,"DeviceIDs":["aa.com/gpu=0","aa.com/gpu=b:1"],"Capabilities":null,"Options":null}]}}`,
		},
		{"--security-opt systempaths=unconfined --security-opt label=disable", `{"HostConfig":{"SecurityOpt":["label=disable"],"MaskedPaths":[],"ReadonlyPaths":[]}}`},
		{"--userns keep-id --pid container:a --ipc container:b --net container:c", `{"HostConfig":{"UsernsMode":"keep-id","PidMode":"container:a","IpcMode":"container:b","NetworkMode":"container:c"}}`},
		{"--pid host --ipc host --uts host --userns host --cgroupns host --cgroup-parent /p --annotation a=b", `{"HostConfig":{"PidMode":"host","IpcMode":"host","UTSMode":"host","UsernsMode":"host","CgroupnsMode":"host","Annotations":{"a":"b"},"CgroupParent":"/p"}}`},
	} {
		t.Run(tc.args, func(t *testing.T) {
			body, err := bodyOf(t, "run", append(splitFields(tc.args), "box")...)
			if err != nil {
				t.Fatalf("%s: %v", tc.args, err)
			}
			raw, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			var got, want map[string]any
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			contains(t, tc.args, got, want)
		})
	}
}

// splitFields splits at blanks. A tab stands for a blank inside a value.
func splitFields(text string) []string {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' })
	for i := range fields {
		fields[i] = strings.ReplaceAll(fields[i], "\t", " ")
	}
	return fields
}

// contains checks that got holds all of want; false stands for a field that is left out.
func contains(t *testing.T, path string, got, want map[string]any) {
	t.Helper()
	for key, value := range want {
		inner, isMap := value.(map[string]any)
		held, ok := got[key].(map[string]any)
		switch {
		case isMap && ok && len(inner) > 0:
			contains(t, path+"."+key, held, inner)
		case value == false && got[key] == nil:
		case !reflect.DeepEqual(got[key], value):
			t.Errorf("%s: %s = %v, want %v", path, key, got[key], value)
		}
	}
}

func TestBareBodyIsSmall(t *testing.T) {
	body, err := bodyOf(t, "create", "box", "echo", "-n", "hi")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(body)
	want := `{"AttachStdout":true,"AttachStderr":true,"Cmd":["echo","-n","hi"],"Image":"box",` +
		`"HostConfig":{"NetworkMode":"default","RestartPolicy":{"Name":"no"}}}`
	if err != nil || string(raw) != want {
		t.Errorf("body %s, %v, want %s", raw, err, want)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range []string{
		"run -p x box", "run -v a box", "run -m x box", "run --cpus 0 box", "run --cpus 1 --cpu-quota 5 box",
		"run --restart often box", "run --rm --restart always box", "run -d -a stdout box", "run --detach-keys F1 box",
		"run --ip 10.0.0.1 box", "run --network bridge --network-alias x box", "run --network host --ip6 fd00::1 box",
		"run --network container:x --link-local-ip 169.254.0.1 box", "run --net mine --ip fd00::1 box", "run --net mine --ip6 10.0.0.1 box",
		"run --net mine --link-local-ip x box", "run --mac-address 1:2 box", "run --network= box", "run --network a,b box",
		"run --network mine --network host box", "run --network none --network mine box", "run --network a --network name=a box",
		"run --network alias=x box", "run --network name=a,nonsense=x box", "run --network name=a,ip=x box", "run --network name=a,ip=1.2.3.4 --ip 1.2.3.5 box",
		"run --network name=a,mac-address=02:00:00:00:00:01 --mac-address 02:00:00:00:00:02 box", "run --network name=bridge,alias=x box",
		"run --add-host x:[::1 box", "run --net mine --link :x box", "run --expose x box", "port web x", "port web 80/icmp",
		"network create", "network create --subnet x n", "network create --gateway 10.0.0.1 n", "network create -o x n", "network connect n",
		"network connect --ip x n c", "run --gpus x box", "run --device a.com/b box", "run --device-cgroup-rule x box",
		"run --stop-timeout x box", "network disconnect n", "network rm", "network ls --filter x", "network ls extra", "network bogus",
		"run --dns x box", "run --add-host x box", "run --ulimit x box", "run --pull often box",
		"run --log-opt x box", "run --sysctl x box", "run -a stdlog box", "run --nonsense box", "run", "create",
		"run --security-opt seccomp=/none box", "run --env-file /none box", "ps extra", "rename one", "ps --filter x",
		"inspect --type task x", "events --since never", "logs --since never x", "start -a one two", "attach --detach-keys F1 x",
	} {
		stdout, stderr, code := moss(t, clienttest.New(t), "", strings.Fields(args)...)
		if code != exitEngine || stdout != "" || !strings.HasPrefix(stderr, "moss: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("moss %s: exit code %d, stdout %q, stderr %q, want 125 and one line", args, code, stdout, stderr)
		}
	}
}
