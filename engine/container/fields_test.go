package container

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

// TestInvalidNamesTheField: who reads an error finds the field that it is about by its name in the API.
func TestInvalidNamesTheField(t *testing.T) {
	for _, tc := range []struct {
		field string
		ask
	}{
		{"Env", ask{config: `{"Env":["=x"]}`}},
		{"Env", ask{config: `{"Env":["A=1",""]}`}},
		{"Env", ask{config: `{"Env":["A=\u0000"]}`}},
		{"Env", ask{config: `{"Env":["A=` + strings.Repeat("x", 32*os.Getpagesize()-2) + `"]}`}},
		{"Cmd", ask{config: `{"Cmd":["a","` + strings.Repeat("x", 32*os.Getpagesize()) + `"]}`}},
		{"WorkingDir", ask{config: `{"WorkingDir":"rel"}`}},
		{"WorkingDir", ask{config: `{"WorkingDir":"/proc/1"}`}},
		{"StopSignal", ask{config: `{"StopSignal":"0"}`}},
		{"StopSignal", ask{config: `{"StopSignal":"BOGUS"}`}},
		{"Volumes", ask{config: `{"Volumes":{"rel":{}}}`}},
		{"User", ask{config: `{"User":"a b"}`}},
		{"ExposedPorts", ask{config: `{"ExposedPorts":{"x":{}}}`}},
		{"Healthcheck", ask{config: `{"Healthcheck":{"Test":["CMD","a"],"Timeout":999999}}`}},
		{"Binds", ask{host: `{"Binds":["/a:/b:bogus"]}`}},
		{"Binds", ask{host: `{"Binds":["/a:b"]}`}},
		{"Binds", ask{host: `{"Binds":["/a:/b","/c:/b"]}`}},
		{"Tmpfs", ask{host: `{"Tmpfs":{"rel":""}}`}},
		{"Tmpfs", ask{host: `{"Binds":["/a:/b"],"Tmpfs":{"/b":""}}`}},
		{"VolumesFrom", ask{host: `{"VolumesFrom":["web:bogus"]}`}},
		{"VolumesFrom", ask{host: `{"VolumesFrom":[""]}`}},
		{"Links", ask{host: `{"Links":["a:b:c"]}`}},
		{"MemorySwappiness", ask{host: `{"MemorySwappiness":101}`}},
		{"OomScoreAdj", ask{host: `{"OomScoreAdj":1001}`}},
		{"CpusetCpus", ask{host: `{"CpusetCpus":"0-"}`}},
		{"CpusetMems", ask{host: `{"CpusetMems":"x"}`}},
		{"PidMode", ask{host: `{"PidMode":"bogus"}`}},
		{"PidMode", ask{host: `{"PidMode":"container:"}`}},
		{"IpcMode", ask{host: `{"IpcMode":"bogus"}`}},
		{"IpcMode", ask{host: `{"IpcMode":"container:"}`}},
		{"UTSMode", ask{host: `{"UTSMode":"bogus"}`}},
		{"NetworkMode", ask{host: `{"NetworkMode":"a/b"}`}},
		{"NetworkMode", ask{host: `{"NetworkMode":"container:"}`}},
		{"UsernsMode", ask{host: `{"UsernsMode":"bogus"}`}},
		{"Isolation", ask{host: `{"Isolation":"bogus"}`}},
		{"Runtime", ask{host: `{"Runtime":"bogus"}`}},
		{"RestartPolicy", ask{host: `{"RestartPolicy":{"Name":"bogus"}}`}},
		{"RestartPolicy", ask{host: `{"RestartPolicy":{"Name":"always","MaximumRetryCount":1}}`}},
		{"LogConfig", ask{host: `{"LogConfig":{"Type":"etwlogs"}}`}},
		{"LogConfig", ask{host: `{"LogConfig":{"Config":{"max-size":"x"}}}`}},
		{"Ulimits", ask{host: `{"Ulimits":[{"Name":"bogus"}]}`}},
		{"Devices", ask{host: `{"Devices":[{"PathOnHost":"/dev/null","CgroupPermissions":"x"}]}`}},
		{"SecurityOpt", ask{host: `{"SecurityOpt":["bogus"]}`}},
		{"SecurityOpt", ask{host: `{"SecurityOpt":["seccomp=x"]}`}},
		{"Sysctls", ask{host: `{"Sysctls":{"kernel.hostname":"x"}}`}},
	} {
		_, _, err := tc.spec(t)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.field) {
			t.Errorf("NewSpec(%.80s %s) error = %v, want fault.Invalid naming %s", tc.config, tc.host, err, tc.field)
		}
	}
}

// TestExposedPortsHaveOneForm: lists and inspect look ports up by number/protocol.
func TestExposedPortsHaveOneForm(t *testing.T) {
	spec, _, err := ask{
		config: `{"ExposedPorts":{"81":{},"82/UDP":{},"90-91/tcp":{}}}`,
		img:    image.Config{ExposedPorts: map[string]struct{}{"81/tcp": {}, "83": {}}},
	}.spec(t)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(spec.Config.ExposedPorts))
	if want := []string{"81/tcp", "82/udp", "83/tcp", "90/tcp", "91/tcp"}; !slices.Equal(got, want) {
		t.Errorf("ExposedPorts = %v, want %v", got, want)
	}
	if spec, _, err := (ask{}).spec(t); err != nil || spec.Config.ExposedPorts != nil {
		t.Errorf("without ports ExposedPorts = %v, %v, want nil", spec.Config.ExposedPorts, err)
	}
}

// TestCommittedRefuses: an image that no container could be made of is not made.
func TestCommittedRefuses(t *testing.T) {
	own := Config{Env: []string{"A=1"}}
	for field, over := range map[string]Config{
		"StopSignal":   {StopSignal: "BOGUS"},
		"ExposedPorts": {ExposedPorts: map[string]struct{}{"x": {}}},
		"Healthcheck":  {Healthcheck: &image.Healthcheck{Test: []string{"BOGUS"}}},
		"Volumes":      {Volumes: map[string]struct{}{"rel": {}}},
		"User":         {User: "a b"},
	} {
		if _, err := own.Committed(&over); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("Committed(%+v) error = %v, want fault.Invalid naming %s", over, err, field)
		}
	}
	got, err := own.Committed(&Config{ExposedPorts: map[string]struct{}{"80": {}}, Env: []string{"B=2"}})
	if _, ok := got.ExposedPorts["80/tcp"]; err != nil || !ok || !slices.Equal(got.Env, []string{"B=2", "A=1"}) {
		t.Errorf("Committed = %+v, %v, want port 80/tcp and both variables, the client's first", got, err)
	}
}
