package container

import (
	"encoding/json"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/logdriver"
)

func TestParseBind(t *testing.T) {
	for s, want := range map[string]Bind{
		"/a:/b":               {"/a", "/b", false, "rprivate", "", "", BindTerms{}},
		"/a/../c//:/b/":       {"/c", "/b", false, "rprivate", "", "", BindTerms{}},
		"/a:/b:ro":            {"/a", "/b", true, "rprivate", "ro", "", BindTerms{}},
		"/a:/b:rw,z,rslave":   {"/a", "/b", false, "rslave", "rw,z,rslave", "", BindTerms{}},
		"/a b:/c,d:cached,ro": {"/a b", "/c,d", true, "rprivate", "cached,ro", "", BindTerms{}},
		"/:/host:ro,shared":   {"/", "/host", true, "shared", "ro,shared", "", BindTerms{}},
	} {
		if got, volume, err := ParseBind(s); err != nil || got != want || !reflect.DeepEqual(volume, VolumeMount{}) {
			t.Errorf("ParseBind(%q) = %+v, %+v, %v, want %+v", s, got, volume, err, want)
		}
	}
}

func FuzzParseBind(f *testing.F) {
	for _, s := range []string{"/a:/b", "/a:/b:ro,z", "data:/x", "/x", "::", "/a:/../..:rw"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, v, err := ParseBind(s)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("ParseBind(%q) error %v is not fault.Invalid", s, err)
			}
			return
		}
		isVolume := !reflect.DeepEqual(v, VolumeMount{})
		if isVolume == (b != Bind{}) || !isVolume && !path.IsAbs(b.Source) || isVolume && (v.Name == "") != v.Anonymous {
			t.Errorf("ParseBind(%q) = %+v, %+v, want one of them", s, b, v)
		}
		if dst := b.Destination + v.Destination; !path.IsAbs(dst) || dst == "/" || dst != path.Clean(dst) {
			t.Errorf("ParseBind(%q) gives the destination %q", s, dst)
		}
	})
}

func TestTmpfs(t *testing.T) {
	for options, want := range map[string]string{
		"":                               "noexec,nosuid,nodev",
		"size=64m,mode=1777":             "noexec,nosuid,nodev,size=64m,mode=1777",
		"exec":                           "nosuid,nodev,exec",
		"rw,ro":                          "noexec,nosuid,nodev,ro",
		"size=1,size=2":                  "noexec,nosuid,nodev,size=2",
		"dev,suid,uid=1000,gid=10":       "noexec,dev,suid,uid=1000,gid=10",
		"noexec,,nosuid,nodev,size=50%,": "noexec,nosuid,nodev,size=50%",
	} {
		got, err := parseTmpfs("/x/", options)
		if err != nil || strings.Join(got.Options, ",") != want || got.Destination != "/x" {
			t.Errorf("parseTmpfs(%q) = %+v, %v, want %s", options, got, err, want)
		}
	}
}

func TestPublish(t *testing.T) {
	for _, tc := range []struct {
		config, host string
		want         []Publish
		exposed      int
	}{
		{"", `{"PortBindings":{"80/tcp":[{"HostPort":"8080"}]}}`, []Publish{{"tcp", 80, "", 8080, 8080}}, 1},
		{"", `{"PortBindings":{"80":[{"HostIp":"0.0.0.0","HostPort":"8080"}]}}`, []Publish{{"tcp", 80, "0.0.0.0", 8080, 8080}}, 1},
		{"", `{"PortBindings":{"53/UDP":[{"HostIp":"127.0.0.1"}]}}`, []Publish{{"udp", 53, "127.0.0.1", 0, 0}}, 1},
		{"", `{"PortBindings":{"80/tcp":[{"HostIp":"[::1]","HostPort":"0"}]}}`, []Publish{{"tcp", 80, "::1", 0, 0}}, 1},
		{"", `{"PortBindings":{"80/tcp":[{"HostPort":"8000-8010"}]}}`, []Publish{{"tcp", 80, "", 8000, 8010}}, 1},
		{"", `{"PortBindings":{"80-81/tcp":[{"HostPort":"8000-8001"}]}}`, []Publish{{"tcp", 80, "", 8000, 8000}, {"tcp", 81, "", 8001, 8001}}, 2},
		{"", `{"PortBindings":{"80-81/tcp":[{}]}}`, []Publish{{"tcp", 80, "", 0, 0}, {"tcp", 81, "", 0, 0}}, 2},
		{"", `{"PortBindings":{"65535/tcp":[{"HostPort":"65535"}]}}`, []Publish{{"tcp", 65535, "", 65535, 65535}}, 1},
		{"", `{"PortBindings":{"80/tcp":null,"81/tcp":[]}}`, nil, 2},
		{"", `{"PortBindings":{"80/tcp":[{"HostPort":"1"},{"HostPort":"1"}]}}`, []Publish{{"tcp", 80, "", 1, 1}}, 1},
		{
			`{"ExposedPorts":{"80/tcp":{},"90-91/udp":{}}}`, `{"PublishAllPorts":true,"PortBindings":{"80":[{"HostPort":"8080"}]}}`,
			[]Publish{{"tcp", 80, "", 8080, 8080}, {"udp", 90, "", 0, 0}, {"udp", 91, "", 0, 0}},
			3,
		},
		{"", `{"NetworkMode":"none","PortBindings":{"80/tcp":[{"HostPort":"8080"}]}}`, nil, 1},
	} {
		spec, _, err := ask{config: tc.config, host: tc.host}.spec(t)
		if err != nil || !slices.Equal(spec.Publish, tc.want) || len(spec.Exposed) != tc.exposed {
			t.Errorf("ports of %s %s = %v, %d exposed, %v, want %v, %d exposed", tc.config, tc.host, spec.Publish, len(spec.Exposed), err, tc.want, tc.exposed)
		}
	}
}

func FuzzParseBinding(f *testing.F) {
	f.Add("80/tcp", "127.0.0.1", "8080")
	f.Add("1-65535/udp", "", "1-65535")
	f.Add("80-81", "::1", "0")
	f.Fuzz(func(t *testing.T, key, ip, port string) {
		ports, err := parseBinding(key, PortBinding{HostIP: ip, HostPort: port})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("parseBinding(%q, %q, %q) error %v is not fault.Invalid", key, ip, port, err)
			}
			return
		}
		for _, p := range ports {
			if p.ContainerPort == 0 || p.HostLow > p.HostHigh || p.HostLow == 0 && p.HostHigh != 0 {
				t.Fatalf("parseBinding(%q, %q, %q) gave %+v", key, ip, port, p)
			}
		}
	})
}

func TestNormalised(t *testing.T) {
	spec, _, err := ask{
		config: `{"Cmd":["x"],"StopTimeout":-5,"MacAddress":"02-42-AC-11-00-02"}`,
		host: `{"CapAdd":["net_admin","CAP_SYS_TIME","all"],"CapDrop":["mknod"],"PidsLimit":-1,"MemorySwappiness":-1,
			"Ulimits":[{"Name":"nofile","Soft":101,"Hard":102},{"Name":"NOFILE","Soft":103,"Hard":-1}],
			"Devices":[{"PathOnHost":"/dev/fuse"}],"SecurityOpt":["no-new-privileges","seccomp:unconfined"],
			"ExtraHosts":["db:10.0.0.1","six:::1","seven:[::2]"],"IpcMode":"none","PidMode":"host",
			"LogConfig":{"Type":"json-file","Config":{"max-size":"10m","max-file":"3"}},"NetworkMode":"default",
			"RestartPolicy":{"Name":"on-failure","MaximumRetryCount":5},"Memory":8388608,"MemorySwap":8388608}`,
		nets: `{"default":{}}`,
	}.spec(t)
	if err != nil {
		t.Fatal(err)
	}
	jsonFile, err := logdriver.Find(logdriver.Default)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what      string
		got, want any
	}{
		{"capabilities", spec.Caps, Caps{Add: []string{"CAP_NET_ADMIN", "CAP_SYS_TIME", "ALL"}, Drop: []string{"CAP_MKNOD"}}},
		{"pids limit", *spec.Host.PidsLimit, int64(-1)},
		{"swappiness", spec.Host.MemorySwappiness, (*int64)(nil)},
		{"ulimits", spec.Ulimits, []Ulimit{{"nofile", 103, -1}}},
		{"devices", spec.Devices, []Device{{"/dev/fuse", "/dev/fuse", "rwm"}}},
		{"no new privileges", spec.Security.NoNewPrivileges, true},
		{"seccomp", spec.Security.Seccomp, SeccompUnconfined},
		{"hosts", spec.Hosts, []HostIP{
			{"db", netip.MustParseAddr("10.0.0.1")}, {"six", netip.MustParseAddr("::1")}, {"seven", netip.MustParseAddr("::2")},
		}},
		{"ipc", spec.Ipc, IpcNone},
		{"pid", spec.PidHost, true},
		{"log", spec.Log, Log{Driver: jsonFile, MaxSize: 10000000, MaxFiles: 3}},
		{"restart", spec.Restart, Restart{RestartOnFailure, 5}},
		{"network", spec.Network, NetworkBridge},
		{"mac", spec.Config.MacAddress, "02:42:ac:11:00:02"},
		{"shm", spec.Host.ShmSize, int64(64 << 20)},
		{"stop timeout is for ever", spec.StopTimeout < 0, true},
	} {
		if !reflect.DeepEqual(tc.got, tc.want) {
			t.Errorf("%s = %+v, want %+v", tc.what, tc.got, tc.want)
		}
	}
}

func TestParseLogSize(t *testing.T) {
	for s, want := range map[string]int64{"1": 1, "10k": 10000, "10M": 10000000, "1.5m": 1500000, "1g": 1000000000, "2 kb": 2000, "-1": 0} {
		if got, err := parseLogSize(s, 1000); err != nil || got != want {
			t.Errorf("parseLogSize(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "-2", "m", "NaN", "inf", "1e30", "10x", "10 kk", "1k1"} {
		if got, err := parseLogSize(s, 1000); err == nil {
			t.Errorf("parseLogSize(%q) = %d, want an error", s, got)
		}
	}
	if got, err := parseLogSize("1.5M", 1024); err != nil || got != 3<<19 {
		t.Errorf("parseLogSize(1.5M) in powers of 1024 = %d, %v, want %d", got, err, 3<<19)
	}
}

func TestLogConfig(t *testing.T) {
	for _, tc := range []struct {
		name string
		c    LogConfig
		want Log // but for the driver and the attributes
	}{
		{"json-file", LogConfig{Type: "json-file"}, Log{MaxFiles: 1}},
		{"local has bounds of its own", LogConfig{Type: "local"}, Log{MaxSize: 20e6, MaxFiles: 5, Compress: true}},
		{"local, other bounds", LogConfig{Type: "local", Config: map[string]string{"max-size": "1k", "compress": "0"}}, Log{MaxSize: 1000, MaxFiles: 5}},
		{"local, one file packs nothing", LogConfig{Type: "local", Config: map[string]string{"max-file": "1"}}, Log{MaxSize: 20e6, MaxFiles: 1}},
		{"blocking", LogConfig{Config: map[string]string{"mode": "blocking"}}, Log{MaxFiles: 1}},
		{"non-blocking", LogConfig{Config: map[string]string{"mode": "non-blocking"}}, Log{MaxFiles: 1, Buffer: 1 << 20}},
		{
			"non-blocking, its size",
			LogConfig{Type: "journald", Config: map[string]string{"mode": "non-blocking", "max-buffer-size": "4k"}},
			Log{MaxFiles: 1, Buffer: 4096},
		},
		{
			"a receiver's driver knows the tag that was asked for",
			LogConfig{Type: "syslog", Config: map[string]string{"tag": "x", "labels": "y"}},
			Log{MaxSize: 20e6, MaxFiles: 5, Compress: true, Options: map[string]string{"tag": "x"}},
		},
		{
			"an empty tag is not none",
			LogConfig{Type: "syslog", Config: map[string]string{"tag": ""}},
			Log{MaxSize: 20e6, MaxFiles: 5, Compress: true, Options: map[string]string{"tag": ""}},
		},
	} {
		l, err := newLog(tc.c)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		l.Driver, l.Attrs = logdriver.Driver{}, LogAttrs{}
		if !reflect.DeepEqual(l, tc.want) {
			t.Errorf("%s: %+v, want %+v", tc.name, l, tc.want)
		}
	}
	for _, tc := range []struct {
		c    LogConfig
		want string
	}{
		{LogConfig{Type: "etwlogs"}, "etwlogs"},
		{LogConfig{Type: "journald", Config: map[string]string{"max-size": "1m"}}, "max-size"},
		{LogConfig{Config: map[string]string{"mode": "fast"}}, "mode"},
		{LogConfig{Config: map[string]string{"max-buffer-size": "1m"}}, "mode=non-blocking"},
		{LogConfig{Config: map[string]string{"mode": "blocking", "max-buffer-size": "1m"}}, "mode=non-blocking"},
		{LogConfig{Config: map[string]string{"mode": "non-blocking", "max-buffer-size": "0"}}, "max-buffer-size"},
		{LogConfig{Config: map[string]string{"mode": "non-blocking", "max-buffer-size": "-1"}}, "max-buffer-size"},
		{LogConfig{Config: map[string]string{"mode": "non-blocking", "max-buffer-size": "2g"}}, "max-buffer-size"},
		{LogConfig{Type: "local", Config: map[string]string{"max-file": "1", "compress": "true"}}, "compress"},
	} {
		if err := CheckLogConfig(tc.c); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("CheckLogConfig(%+v) = %v, want fault.Invalid with %s", tc.c, err, tc.want)
		}
	}
}

func TestLogDefaults(t *testing.T) {
	defaults := LogConfig{Type: "local", Config: map[string]string{"max-size": "1m", "tag": "x"}}
	for _, tc := range []struct{ asked, want LogConfig }{
		{LogConfig{}, defaults},
		{LogConfig{Type: "local", Config: map[string]string{"tag": "y"}}, LogConfig{Type: "local", Config: map[string]string{"max-size": "1m", "tag": "y"}}},
		{LogConfig{Config: map[string]string{"max-file": "2"}}, LogConfig{Type: "local", Config: map[string]string{"max-size": "1m", "max-file": "2", "tag": "x"}}},
		{LogConfig{Type: "none"}, LogConfig{Type: "none"}},
	} {
		if got := tc.asked.WithDefaults(defaults); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%+v with defaults = %+v, want %+v", tc.asked, got, tc.want)
		}
	}
	if len(defaults.Config) != 2 {
		t.Errorf("the defaults have changed: %+v", defaults)
	}
}

func TestLimitWarnings(t *testing.T) {
	all := Controllers{Memory: true, Swap: true, CPU: true, Cpuset: true, Pids: true, Blkio: true, BlkioWeight: true, BlkioWeightDevice: true}
	unified := all
	unified.Unified = true
	noSwap := all
	noSwap.Swap = false
	noWeights := all
	noWeights.BlkioWeight, noWeights.BlkioWeightDevice = false, false
	const everything = `{"Memory":8388608,"MemorySwap":-1,"MemoryReservation":5000000,"MemorySwappiness":5,"OomKillDisable":true,
		"CpuShares":5,"CpuPeriod":5000,"CpuQuota":5000,"CpusetCpus":"0","CpusetMems":"0","PidsLimit":5,"BlkioWeight":10,
		"BlkioWeightDevice":[{"Path":"/dev/x","Weight":10}],"BlkioDeviceReadBps":[{"Path":"/dev/x","Rate":1}],
		"BlkioDeviceWriteBps":[{"Path":"/dev/x","Rate":1}],"BlkioDeviceReadIOps":[{"Path":"/dev/x","Rate":1}],
		"BlkioDeviceWriteIOps":[{"Path":"/dev/x","Rate":1}]}`
	for _, tc := range []struct {
		name string
		host string
		have Controllers
		want int
	}{
		{"nothing asked", `{}`, Controllers{}, 0},
		{"all asked, all there", everything, all, 0},
		{"all asked, none there", everything, Controllers{}, 16},
		{"v2 has no swappiness and no OomKillDisable", everything, unified, 2},
		{"no swap accounting", everything, noSwap, 1},
		{"rates without weights", everything, noWeights, 2},
		{"OomKillDisable without a limit", `{"OomKillDisable":true}`, all, 1},
		{"a parent for the cgroup", `{"CgroupParent":"a"}`, all, 1},
		{"an absolute parent", `{"CgroupParent":"/a"}`, all, 1},
		{"CPUs", `{"NanoCpus":500000000}`, Controllers{}, 1},
		{"unlimited pids", `{"PidsLimit":-1}`, Controllers{}, 0},
	} {
		var host HostConfig
		if err := json.Unmarshal([]byte(tc.host), &host); err != nil {
			t.Fatal(err)
		}
		got := LimitWarnings(host, tc.have)
		if len(got) != tc.want {
			t.Errorf("%s: %d warnings %q, want %d", tc.name, len(got), got, tc.want)
		}
		for _, w := range got {
			if !strings.HasSuffix(w, "or the cgroup is not delegated. Limitation discarded.") && !strings.HasPrefix(w, "OOM killer is disabled") &&
				!strings.HasPrefix(w, "CgroupParent") {
				t.Errorf("%s: warning %q", tc.name, w)
			}
		}
	}
}
