package executor

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	gogo "github.com/gogo/protobuf/types"
	"github.com/moby/swarmkit/v2/api"
)

// newTask returns the least task that can run, after change.
func newTask(change func(t *api.Task, c *api.ContainerSpec)) *api.Task {
	c := &api.ContainerSpec{Image: "busybox"}
	t := &api.Task{
		ID: "taskid", ServiceID: "serviceid", NodeID: "nodeid", Slot: 2,
		ServiceAnnotations: api.Annotations{Name: "web", Labels: map[string]string{"tier": "front"}},
		Spec:               api.TaskSpec{Runtime: &api.TaskSpec_Container{Container: c}},
	}
	if change != nil {
		change(t, c)
	}
	return t
}

func testNode() *api.NodeDescription {
	return &api.NodeDescription{Hostname: "alpha", Platform: &api.Platform{Architecture: "x86_64", OS: "linux"}}
}

const taskLabels = `{"com.docker.swarm.node.id":"nodeid","com.docker.swarm.service.id":"serviceid",` +
	`"com.docker.swarm.service.name":"web","com.docker.swarm.task":"","com.docker.swarm.task.id":"taskid",` +
	`"com.docker.swarm.task.name":"web.2.taskid"`

// TestCreateFields has a row for each field of a task that its container gets: the members of the create call that it adds to, or
// changes in, those of the least task. Members are compared as the engine reads them.
func TestCreateFields(t *testing.T) {
	dir := t.TempDir()
	seconds := func(n int64, nanos int32) *gogo.Duration { return &gogo.Duration{Seconds: n, Nanos: nanos} }
	resources := func(t *api.Task, r api.ResourceRequirements) { t.Spec.Resources = &r }
	type change = func(*api.Task, *api.ContainerSpec)
	for _, tc := range []struct {
		name   string
		change change
		want   string // members beside those of the least task; HostConfig's are prefixed by "host."
	}{
		{"least", nil, `{}`},
		{"Image", func(_ *api.Task, c *api.ContainerSpec) { c.Image = "reg.example/a:b" }, `{"Image":"reg.example/a:b"}`},
		{"Command", func(_ *api.Task, c *api.ContainerSpec) { c.Command = []string{"a", "b"} }, `{"Entrypoint":["a","b"]}`},
		{"Args", func(_ *api.Task, c *api.ContainerSpec) { c.Args = []string{"a", "b"} }, `{"Cmd":["a","b"]}`},
		{"Env", func(_ *api.Task, c *api.ContainerSpec) {
			c.Env = []string{"A=1", "T={{.Task.Name}}", "N={{.Node.Hostname}}", "P={{.Node.Platform.OS}}"}
		}, `{"Env":["A=1","T=web.2.taskid","N=alpha","P=linux"]}`},
		{"Dir", func(_ *api.Task, c *api.ContainerSpec) { c.Dir = "/srv" }, `{"WorkingDir":"/srv"}`},
		{"User", func(_ *api.Task, c *api.ContainerSpec) { c.User = "1:2" }, `{"User":"1:2"}`},
		{"Hostname", func(_ *api.Task, c *api.ContainerSpec) { c.Hostname = "h{{.Task.Slot}}" }, `{"Hostname":"h2"}`},
		{
			"Labels", func(_ *api.Task, c *api.ContainerSpec) { c.Labels = map[string]string{"a": "b", labelTaskID: "other"} },
			`{"Labels":` + taskLabels + `,"a":"b"}}`,
		},
		{
			"labels of the task", func(t *api.Task, c *api.ContainerSpec) {
				c.Labels = map[string]string{"a": "b"}
				t.Annotations.Labels = map[string]string{"a": "c", labelNodeID: "other"}
			}, `{"Labels":` + taskLabels + `,"a":"c"}}`,
		},
		{"Groups", func(_ *api.Task, c *api.ContainerSpec) { c.Groups = []string{"g"} }, `{"host.GroupAdd":["g"]}`},
		{"StopSignal", func(_ *api.Task, c *api.ContainerSpec) { c.StopSignal = "INT" }, `{"StopSignal":"INT"}`},
		{"StopGracePeriod", func(_ *api.Task, c *api.ContainerSpec) { c.StopGracePeriod = seconds(3, 1) }, `{"StopTimeout":4}`},
		{"no StopGracePeriod", func(_ *api.Task, c *api.ContainerSpec) { c.StopGracePeriod = seconds(0, 0) }, `{"StopTimeout":0}`},
		{"negative StopGracePeriod", func(_ *api.Task, c *api.ContainerSpec) { c.StopGracePeriod = seconds(-5, 0) }, `{"StopTimeout":0}`},
		{"TTY", func(_ *api.Task, c *api.ContainerSpec) { c.TTY = true }, `{"Tty":true}`},
		{"OpenStdin", func(_ *api.Task, c *api.ContainerSpec) { c.OpenStdin = true }, `{"OpenStdin":true}`},
		{"ReadOnly", func(_ *api.Task, c *api.ContainerSpec) { c.ReadOnly = true }, `{"host.ReadonlyRootfs":true}`},
		{"Healthcheck", func(_ *api.Task, c *api.ContainerSpec) {
			c.Healthcheck = &api.HealthConfig{
				Test: []string{"CMD", "ok"}, Interval: seconds(1, 0), Timeout: seconds(2, 0), StartPeriod: seconds(3, 0), Retries: 4,
			}
		}, `{"Healthcheck":{"Test":["CMD","ok"],"Interval":1000000000,"Timeout":2000000000,"StartPeriod":3000000000,"Retries":4}}`},
		{
			"Hosts", func(_ *api.Task, c *api.ContainerSpec) {
				c.Hosts = []string{"10.0.0.1 db cache", "::1 six", "10.0.0.2"}
			},
			`{"host.ExtraHosts":["db:10.0.0.1","cache:10.0.0.1","six:::1"]}`,
		},
		{"DNSConfig", func(_ *api.Task, c *api.ContainerSpec) {
			c.DNSConfig = &api.ContainerSpec_DNSConfig{
				Nameservers: []string{"10.0.0.3"}, Search: []string{"example"}, Options: []string{"ndots:1"},
			}
		}, `{"host.Dns":["10.0.0.3"],"host.DnsSearch":["example"],"host.DnsOptions":["ndots:1"]}`},
		{"Init", func(_ *api.Task, c *api.ContainerSpec) { c.Init = &gogo.BoolValue{Value: true} }, `{"host.Init":true}`},
		{"no Init", func(_ *api.Task, c *api.ContainerSpec) { c.Init = &gogo.BoolValue{} }, `{"host.Init":false}`},
		{"PidsLimit", func(_ *api.Task, c *api.ContainerSpec) { c.PidsLimit = 9 }, `{"host.PidsLimit":9}`},
		{"Sysctls", func(_ *api.Task, c *api.ContainerSpec) { c.Sysctls = map[string]string{"a": "1"} }, `{"host.Sysctls":{"a":"1"}}`},
		{"CapabilityAdd", func(_ *api.Task, c *api.ContainerSpec) { c.CapabilityAdd = []string{"NET_RAW"} }, `{"host.CapAdd":["NET_RAW"]}`},
		{"CapabilityDrop", func(_ *api.Task, c *api.ContainerSpec) { c.CapabilityDrop = []string{"ALL"} }, `{"host.CapDrop":["ALL"]}`},
		{"OomScoreAdj", func(_ *api.Task, c *api.ContainerSpec) { c.OomScoreAdj = 5 }, `{"host.OomScoreAdj":5}`},
		{"Ulimits", func(_ *api.Task, c *api.ContainerSpec) {
			c.Ulimits = []*api.ContainerSpec_Ulimit{{Name: "nofile", Soft: 1, Hard: 2}}
		}, `{"host.Ulimits":[{"Name":"nofile","Soft":1,"Hard":2}]}`},
		{
			"NoNewPrivileges", func(_ *api.Task, c *api.ContainerSpec) { c.Privileges = &api.Privileges{NoNewPrivileges: true} },
			`{"host.SecurityOpt":["no-new-privileges"]}`,
		},
		{"privileges as they are anyway", func(_ *api.Task, c *api.ContainerSpec) {
			c.Privileges = &api.Privileges{
				SELinuxContext: &api.Privileges_SELinuxContext{Disable: true},
				Seccomp:        &api.Privileges_SeccompOpts{}, Apparmor: &api.Privileges_AppArmorOpts{},
			}
		}, `{}`},
		{"LogDriver", func(t *api.Task, _ *api.ContainerSpec) {
			t.Spec.LogDriver = &api.Driver{Name: "syslog", Options: map[string]string{"a": "b"}}
		}, `{"host.LogConfig":{"Type":"syslog","Config":{"a":"b"}}}`},
		{"chosen LogDriver", func(t *api.Task, _ *api.ContainerSpec) {
			t.Spec.LogDriver, t.LogDriver = &api.Driver{Name: "syslog"}, &api.Driver{Name: "none"}
		}, `{"host.LogConfig":{"Type":"none"}}`},
		{"memory limit", func(t *api.Task, _ *api.ContainerSpec) {
			resources(t, api.ResourceRequirements{Limits: &api.Resources{MemoryBytes: 64 << 20}})
		}, `{"host.Memory":67108864}`},
		{"processor limit", func(t *api.Task, _ *api.ContainerSpec) {
			resources(t, api.ResourceRequirements{Limits: &api.Resources{NanoCPUs: 15e8}})
		}, `{"host.CpuPeriod":100000,"host.CpuQuota":150000}`},
		{"small processor limit", func(t *api.Task, _ *api.ContainerSpec) {
			resources(t, api.ResourceRequirements{Limits: &api.Resources{NanoCPUs: 5e6}})
		}, `{"host.CpuPeriod":1000000,"host.CpuQuota":5000}`},
		{"smallest processor limit", func(t *api.Task, _ *api.ContainerSpec) {
			resources(t, api.ResourceRequirements{Limits: &api.Resources{NanoCPUs: 1}})
		}, `{"host.CpuPeriod":1000000,"host.CpuQuota":1000}`},
		{"greatest processor limit", func(t *api.Task, _ *api.ContainerSpec) {
			resources(t, api.ResourceRequirements{Limits: &api.Resources{NanoCPUs: 1 << 62}})
		}, `{"host.CpuPeriod":100000,"host.CpuQuota":461168601842738}`},
		{"reservations", func(t *api.Task, _ *api.ContainerSpec) {
			resources(t, api.ResourceRequirements{Reservations: &api.Resources{NanoCPUs: 1e9, MemoryBytes: 1 << 30}})
		}, `{}`},
		{"swap", func(t *api.Task, _ *api.ContainerSpec) {
			resources(t, api.ResourceRequirements{
				Limits: &api.Resources{MemoryBytes: 64 << 20}, SwapBytes: &gogo.Int64Value{Value: 1 << 20},
				MemorySwappiness: &gogo.Int64Value{Value: 7},
			})
		}, `{"host.Memory":67108864,"host.MemorySwap":68157440,"host.MemorySwappiness":7}`},
		{"endless swap", func(t *api.Task, _ *api.ContainerSpec) {
			resources(t, api.ResourceRequirements{Limits: &api.Resources{MemoryBytes: 64 << 20}, SwapBytes: &gogo.Int64Value{Value: -1}})
		}, `{"host.Memory":67108864,"host.MemorySwap":-1}`},
		{"bind", func(_ *api.Task, c *api.ContainerSpec) {
			c.Mounts = []api.Mount{{
				Type: api.MountTypeBind, Source: dir, Target: "/{{.Service.Name}}", ReadOnly: true,
				Consistency: api.MountConsistencyCached, BindOptions: &api.Mount_BindOptions{
					Propagation: api.MountPropagationRSlave, NonRecursive: true, CreateMountpoint: true, ReadOnlyNonRecursive: true,
					ReadOnlyForceRecursive: true,
				},
			}}
		}, `{"host.Mounts":[{"Type":"bind","Source":"` + dir + `","Target":"/web","ReadOnly":true,"Consistency":"cached","BindOptions":{
			"Propagation":"rslave","NonRecursive":true,"CreateMountpoint":true,"ReadOnlyNonRecursive":true,"ReadOnlyForceRecursive":true}}]}`},
		{"volume", func(_ *api.Task, c *api.ContainerSpec) {
			c.Mounts = []api.Mount{{
				Type: api.MountTypeVolume, Source: "data-{{.Task.Slot}}", Target: "/d", Consistency: api.MountConsistencyFull,
				VolumeOptions: &api.Mount_VolumeOptions{
					NoCopy: true, Labels: map[string]string{"l": "{{.Service.Labels.tier}}"}, Subpath: "sub",
					DriverConfig: &api.Driver{Name: "local", Options: map[string]string{"type": "tmpfs", "device": "/any"}},
				},
			}}
		}, `{"host.Mounts":[{"Type":"volume","Source":"data-2","Target":"/d","Consistency":"consistent","VolumeOptions":{"NoCopy":true,
			"Labels":{"l":"front"},"Subpath":"sub","DriverConfig":{"Name":"local","Options":{"type":"tmpfs","device":"/any"}}}}]}`},
		{"bind below a folder", func(_ *api.Task, c *api.ContainerSpec) {
			c.Mounts = []api.Mount{{
				Type: api.MountTypeBind, Source: dir + "/a/./b", Target: "/d", ReadOnly: true, Consistency: api.MountConsistencyCached,
				BindOptions: &api.Mount_BindOptions{CreateMountpoint: true},
			}}
		}, `{"host.Mounts":[{"Type":"volume","Source":"` + volumeOf(dir) + `","Target":"/d","ReadOnly":true,"Consistency":"cached",
			"VolumeOptions":{"NoCopy":true,"Subpath":"a/b","DriverConfig":{"Name":"local","Options":{"type":"none","o":"bind",
			"device":"` + dir + `"}}}}]}`},
		{"tmpfs", func(_ *api.Task, c *api.ContainerSpec) {
			c.Mounts = []api.Mount{{
				Type: api.MountTypeTmpfs, Target: "/t", Consistency: api.MountConsistencyDelegated,
				TmpfsOptions: &api.Mount_TmpfsOptions{SizeBytes: 9, Mode: 0o1777, Options: "noexec,uid=1"},
			}}
		}, `{"host.Mounts":[{"Type":"tmpfs","Target":"/t","Consistency":"delegated","TmpfsOptions":{"SizeBytes":9,"Mode":1023,
			"Options":[["noexec"],["uid","1"]]}}]}`},
		{"tmpfs of a newer manager", func(_ *api.Task, c *api.ContainerSpec) {
			c.Mounts = []api.Mount{{
				Type: api.MountTypeTmpfs, Target: "/t",
				TmpfsOptions: &api.Mount_TmpfsOptions{Options: `[["noexec"],["uid","1"]]`},
			}}
		}, `{"host.Mounts":[{"Type":"tmpfs","Target":"/t","TmpfsOptions":{"Options":[["noexec"],["uid","1"]]}}]}`},
		{"mounts without options", func(_ *api.Task, c *api.ContainerSpec) {
			c.Mounts = []api.Mount{
				{Type: api.MountTypeVolume, Target: "/a"},
				{Type: api.MountTypeTmpfs, Target: "/b"},
				{Type: api.MountTypeBind, Source: dir, Target: "/c"},
			}
		}, `{"host.Mounts":[{"Type":"volume","Target":"/a"},{"Type":"tmpfs","Target":"/b"},
			{"Type":"bind","Source":"` + dir + `","Target":"/c"}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := map[string]any{}
			for _, part := range []string{`{"Image":"busybox","Labels":` + taskLabels + `},"host.NetworkMode":"bridge",
				"host.RestartPolicy":{"Name":"no"}}`, tc.want} {
				if err := json.Unmarshal([]byte(part), &want); err != nil {
					t.Fatalf("the row's members: %v", err)
				}
			}
			body, err := newCreate(newTask(tc.change), testNode(), hostFolders{dir}, true)
			if err != nil {
				t.Fatalf("newCreate: %v", err)
			}
			if got, want := encode(t, flatten(t, body)), encode(t, want); got != want {
				t.Errorf("newCreate:\n got %s\nwant %s", got, want)
			}
		})
	}
}

// TestEachPropagation and each consistency have their word.
func TestEachPropagation(t *testing.T) {
	for value, name := range api.Mount_BindOptions_MountPropagation_name {
		options, err := newBindOptions(&api.Mount_BindOptions{Propagation: api.Mount_BindOptions_MountPropagation(value)})
		if err != nil || options.Propagation != strings.ToLower(name) {
			t.Errorf("propagation %s = %v, %v, want its name", name, options, err)
		}
	}
	if _, err := newBindOptions(&api.Mount_BindOptions{Propagation: 99}); err == nil {
		t.Errorf("propagation 99 is taken")
	}
	if _, err := consistencyWord(99); err == nil {
		t.Errorf("consistency 99 is taken")
	}
}

// TestRefusedTasks has what this node cannot give a task. The error names the field.
func TestRefusedTasks(t *testing.T) {
	mount := func(c *api.ContainerSpec, m api.Mount) { c.Mounts = []api.Mount{m} }
	for _, tc := range []struct {
		want   string
		change func(t *api.Task, c *api.ContainerSpec)
	}{
		{"ContainerSpec.Image", func(_ *api.Task, c *api.ContainerSpec) { c.Image = "" }},
		{"Networks", func(t *api.Task, _ *api.ContainerSpec) { t.Networks = []*api.NetworkAttachment{{}} }},
		{"EndpointSpec.Ports.PublishMode", func(t *api.Task, _ *api.ContainerSpec) {
			t.Endpoint = &api.Endpoint{Ports: []*api.PortConfig{{TargetPort: 80}, {TargetPort: 81, PublishMode: api.PublishModeHost}}}
		}},
		{"cluster volumes", func(t *api.Task, _ *api.ContainerSpec) { t.Volumes = []*api.VolumeAttachment{{}} }},
		{"GenericResources", func(t *api.Task, _ *api.ContainerSpec) { t.AssignedGenericResources = []*api.GenericResource{{}} }},
		{"ContainerSpec.Secrets", func(_ *api.Task, c *api.ContainerSpec) { c.Secrets = []*api.SecretReference{{}} }},
		{"ContainerSpec.Configs", func(_ *api.Task, c *api.ContainerSpec) { c.Configs = []*api.ConfigReference{{}} }},
		{"ContainerSpec.Isolation", func(_ *api.Task, c *api.ContainerSpec) { c.Isolation = api.ContainerIsolationHyperV }},
		{"Privileges.CredentialSpec", func(_ *api.Task, c *api.ContainerSpec) {
			c.Privileges = &api.Privileges{CredentialSpec: &api.Privileges_CredentialSpec{}}
		}},
		{"Privileges.SELinuxContext", func(_ *api.Task, c *api.ContainerSpec) {
			c.Privileges = &api.Privileges{SELinuxContext: &api.Privileges_SELinuxContext{User: "u"}}
		}},
		{"Privileges.Seccomp", func(_ *api.Task, c *api.ContainerSpec) {
			c.Privileges = &api.Privileges{Seccomp: &api.Privileges_SeccompOpts{Mode: api.Privileges_SeccompOpts_UNCONFINED}}
		}},
		{"Privileges.AppArmor", func(_ *api.Task, c *api.ContainerSpec) {
			c.Privileges = &api.Privileges{Apparmor: &api.Privileges_AppArmorOpts{Mode: api.Privileges_AppArmorOpts_DISABLED}}
		}},
		{"expanding env", func(_ *api.Task, c *api.ContainerSpec) { c.Env = []string{"A={{.Nothing}}"} }},
		{"type cluster", func(_ *api.Task, c *api.ContainerSpec) { mount(c, api.Mount{Type: api.MountTypeCluster, Target: "/x"}) }},
		{"type npipe", func(_ *api.Task, c *api.ContainerSpec) {
			mount(c, api.Mount{Type: api.MountTypeNamedPipe, Target: "/x"})
		}},
		{"mount at /x: unknown Consistency", func(_ *api.Task, c *api.ContainerSpec) {
			mount(c, api.Mount{Type: api.MountTypeTmpfs, Target: "/x", Consistency: 9})
		}},
		{"TmpfsOptions.Options", func(_ *api.Task, c *api.ContainerSpec) {
			mount(c, api.Mount{Type: api.MountTypeTmpfs, TmpfsOptions: &api.Mount_TmpfsOptions{Options: "[1]"}})
		}},
		{"swarm-host-folder names none", func(_ *api.Task, c *api.ContainerSpec) {
			mount(c, api.Mount{Type: api.MountTypeBind, Source: "/etc", Target: "/x"})
		}},
		{"BindOptions: what lies below", func(_ *api.Task, c *api.ContainerSpec) {
			mount(c, api.Mount{
				Type: api.MountTypeBind, Source: "/tmp/.", Target: "/x", BindOptions: &api.Mount_BindOptions{NonRecursive: true},
			})
		}},
		{"volumes of this name are for this node alone", func(_ *api.Task, c *api.ContainerSpec) {
			mount(c, api.Mount{Type: api.MountTypeVolume, Source: volumeOf("/srv"), Target: "/x"})
		}},
		{"use the type bind", func(_ *api.Task, c *api.ContainerSpec) {
			mount(c, api.Mount{Type: api.MountTypeVolume, Source: "v", Target: "/x", VolumeOptions: &api.Mount_VolumeOptions{
				DriverConfig: &api.Driver{Options: map[string]string{"type": "none", "o": "bind", "device": "/etc"}},
			}})
		}},
	} {
		t.Run(tc.want, func(t *testing.T) {
			var folders hostFolders
			if strings.HasPrefix(tc.want, "BindOptions") {
				folders = hostFolders{"/"}
			}
			if _, err := newCreate(newTask(tc.change), testNode(), folders, false); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("newCreate = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestNameOfGlobalTask is without a slot.
func TestNameOfGlobalTask(t *testing.T) {
	body, err := newCreate(newTask(func(t *api.Task, _ *api.ContainerSpec) { t.Slot = 0 }), nil, nil, false)
	if got, want := body.Labels[labelTaskName], "web.nodeid.taskid"; err != nil || got != want {
		t.Errorf("task's name = %q, %v, want %q", got, err, want)
	}
}

func TestDurations(t *testing.T) {
	for _, tc := range []struct {
		in   *gogo.Duration
		want time.Duration
	}{
		{nil, 0},
		{&gogo.Duration{Seconds: 1, Nanos: 5}, time.Second + 5},
		{&gogo.Duration{Seconds: -2}, -2 * time.Second},
		{&gogo.Duration{Seconds: 1 << 62}, math.MaxInt64},
	} {
		if got := durationOf(tc.in); got/time.Minute != tc.want/time.Minute || tc.want < time.Hour && got != tc.want {
			t.Errorf("durationOf(%v) = %v, want about %v", tc.in, got, tc.want)
		}
	}
}

// flatten returns the members of a create call as the engine reads them, those of HostConfig with "host." before their names.
func flatten(t *testing.T, body any) map[string]any {
	t.Helper()
	flat := map[string]any{}
	if err := json.Unmarshal([]byte(encode(t, body)), &flat); err != nil {
		t.Fatal(err)
	}
	host, _ := flat["HostConfig"].(map[string]any)
	delete(flat, "HostConfig")
	for key, value := range host {
		flat["host."+key] = value
	}
	for key, value := range flat {
		if list, ok := value.([]any); value == nil || ok && len(list) == 0 {
			delete(flat, key)
		}
	}
	return flat
}

func encode(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
