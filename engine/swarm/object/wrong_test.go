package object

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
	"moss/engine/fault"
)

// requireRefused wants the error of a wrong field: of the client, and by the field's name.
func requireRefused(t *testing.T, err error, field, words string) {
	t.Helper()
	if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), field+": ") || !strings.Contains(err.Error(), words) {
		t.Errorf("%v, want a refusal of %s with %q", err, field, words)
	}
}

func TestWrongServices(t *testing.T) {
	type spec = types.ServiceSpec
	type ctr = types.ContainerSpec
	inContainer := func(set func(c *ctr)) func(*spec) { return func(s *spec) { set(&s.TaskTemplate.ContainerSpec) } }
	inMount := func(i int, set func(m *types.MountConfig)) func(*spec) {
		return func(s *spec) { set(&s.TaskTemplate.ContainerSpec.Mounts[i]) }
	}
	negative := new(-time.Second)
	for _, tc := range []struct {
		field, words string
		set          func(s *spec)
	}{
		{"Name", "DNS name component", func(s *spec) { s.Name = "" }},
		{"Name", "DNS name component", func(s *spec) { s.Name = "a.b" }},
		{"Name", "DNS name component", func(s *spec) { s.Name = "-a" }},
		{"Name", "63 characters or fewer", func(s *spec) { s.Name = strings.Repeat("a", 64) }},
		{"Labels", "no key", func(s *spec) { s.Labels = map[string]string{"": "x"} }},
		{"Mode", "either", func(s *spec) { s.Mode.Global = &struct{}{} }},
		{"Mode.Replicated.Replicas", "more than", func(s *spec) { s.Mode.Replicated.Replicas = new(uint64(100_001)) }},
		{"Mode.Replicated.Replicas", "more than", func(s *spec) { s.Mode.Replicated.Replicas = new(uint64(math.MaxUint64)) }},
		{"UpdateConfig.Parallelism", "negative", func(s *spec) { s.UpdateConfig.Parallelism = math.MaxUint64 }},
		{"UpdateConfig.Delay", "negative", func(s *spec) { s.UpdateConfig.Delay = -1 }},
		{"UpdateConfig.FailureAction", "pause, continue", func(s *spec) { s.UpdateConfig.FailureAction = "rollback" }},
		{"Networks[0].Target", "want", func(s *spec) { s.Networks[0].Target = "" }},
		{"EndpointSpec.Mode", "vip, dnsrr", func(s *spec) { s.EndpointSpec.Mode = "x" }},
		{"EndpointSpec.Ports", "vip only", func(s *spec) { s.EndpointSpec.Mode = "dnsrr" }},
		{"EndpointSpec.Ports[1].Protocol", "want tcp, udp", func(s *spec) { s.EndpointSpec.Ports[1].Protocol = "sctp" }},
		{"EndpointSpec.Ports[0].TargetPort", "1 to 65535", func(s *spec) { s.EndpointSpec.Ports[0].TargetPort = 0 }},
		{"EndpointSpec.Ports[0].TargetPort", "1 to 65535", func(s *spec) { s.EndpointSpec.Ports[0].TargetPort = 65536 }},
		{"EndpointSpec.Ports[0].PublishedPort", "0 to 65535", func(s *spec) { s.EndpointSpec.Ports[0].PublishedPort = 65536 }},
		{"EndpointSpec.Ports[0].PublishMode", "ingress, host", func(s *spec) { s.EndpointSpec.Ports[0].PublishMode = "x" }},
		{"EndpointSpec.Ports[1].PublishedPort", "twice", func(s *spec) {
			s.EndpointSpec.Ports[1] = s.EndpointSpec.Ports[0]
		}},

		{"TaskTemplate.Resources.Limits.NanoCPUs", "less than 1000000", func(s *spec) { s.TaskTemplate.Resources.Limits.NanoCPUs = 999_999 }},
		{"TaskTemplate.Resources.Limits.NanoCPUs", "less than", func(s *spec) { s.TaskTemplate.Resources.Limits.NanoCPUs = -1 }},
		{"TaskTemplate.Resources.Limits.MemoryBytes", "4 MiB", func(s *spec) { s.TaskTemplate.Resources.Limits.MemoryBytes = 4<<20 - 1 }},
		{"TaskTemplate.Resources.Reservations.NanoCPUs", "less than", func(s *spec) { s.TaskTemplate.Resources.Reservations.NanoCPUs = 1 }},
		{"TaskTemplate.Resources.Reservations.MemoryBytes", "4 MiB", func(s *spec) { s.TaskTemplate.Resources.Reservations.MemoryBytes = -1 }},
		{"TaskTemplate.RestartPolicy.Condition", "any, none, on-failure", func(s *spec) { s.TaskTemplate.RestartPolicy.Condition = "always" }},
		{"TaskTemplate.RestartPolicy.Delay", "negative", func(s *spec) { s.TaskTemplate.RestartPolicy.Delay = negative }},
		{"TaskTemplate.RestartPolicy.Window", "negative", func(s *spec) { s.TaskTemplate.RestartPolicy.Window = negative }},
		{"TaskTemplate.Placement.Constraints[1]", "operator", func(s *spec) { s.TaskTemplate.Placement.Constraints[1] = "node.role" }},
		{"TaskTemplate.Placement.Constraints[0]", "key", func(s *spec) { s.TaskTemplate.Placement.Constraints[0] = "==" }},
		{"TaskTemplate.LogDriver.Name", "etwlogs", func(s *spec) { s.TaskTemplate.LogDriver.Name = "etwlogs" }},
		{"TaskTemplate.LogDriver.Options", "max-size", func(s *spec) { s.TaskTemplate.LogDriver.Options["max-size"] = "x" }},
		{"TaskTemplate.Networks[0].Target", "want", func(s *spec) { s.TaskTemplate.Networks[0].Target = "" }},

		{"TaskTemplate.ContainerSpec.Image", "must be provided", inContainer(func(c *ctr) { c.Image = "" })},
		{"TaskTemplate.ContainerSpec.Image", "not a valid repository/tag", inContainer(func(c *ctr) { c.Image = "A b" })},
		{"TaskTemplate.ContainerSpec.Labels", "no key", inContainer(func(c *ctr) { c.Labels[""] = "" })},
		{"TaskTemplate.ContainerSpec.Command", "zero byte", inContainer(func(c *ctr) { c.Command[0] = "\x00" })},
		{"TaskTemplate.ContainerSpec.Args", "zero byte", inContainer(func(c *ctr) { c.Args[1] = "\x00" })},
		{"TaskTemplate.ContainerSpec.Hostname", "hostname", inContainer(func(c *ctr) { c.Hostname = "a b" })},
		{"TaskTemplate.ContainerSpec.Env", "variable", inContainer(func(c *ctr) { c.Env[0] = "=a" })},
		{"TaskTemplate.ContainerSpec.Dir", "absolute", inContainer(func(c *ctr) { c.Dir = "srv" })},
		{"TaskTemplate.ContainerSpec.User", "expected user", inContainer(func(c *ctr) { c.User = "a:b:c" })},
		{"TaskTemplate.ContainerSpec.Groups", "group", inContainer(func(c *ctr) { c.Groups[0] = "" })},
		{"TaskTemplate.ContainerSpec.Groups", "group", inContainer(func(c *ctr) { c.Groups[1] = "a:b" })},
		{"TaskTemplate.ContainerSpec.Groups", "group", inContainer(func(c *ctr) { c.Groups[1] = "a b" })},
		{"TaskTemplate.ContainerSpec.StopSignal", "SIGNONE", inContainer(func(c *ctr) { c.StopSignal = "SIGNONE" })},
		{"TaskTemplate.ContainerSpec.StopGracePeriod", "negative", inContainer(func(c *ctr) { c.StopGracePeriod = negative })},
		{"TaskTemplate.ContainerSpec.Healthcheck", "Interval", inContainer(func(c *ctr) { c.Healthcheck.Interval = 1 })},
		{"TaskTemplate.ContainerSpec.Healthcheck", "Timeout", inContainer(func(c *ctr) { c.Healthcheck.Timeout = -1 })},
		{"TaskTemplate.ContainerSpec.Healthcheck", "StartPeriod", inContainer(func(c *ctr) { c.Healthcheck.StartPeriod = 1 })},
		{"TaskTemplate.ContainerSpec.Healthcheck", "Retries", inContainer(func(c *ctr) { c.Healthcheck.Retries = -1 })},
		{"TaskTemplate.ContainerSpec.Healthcheck.Retries", "more than", inContainer(func(c *ctr) { c.Healthcheck.Retries = math.MaxInt32 + 1 })},
		{"TaskTemplate.ContainerSpec.Healthcheck", "Test", inContainer(func(c *ctr) { c.Healthcheck.Test = []string{"probe"} })},
		{"TaskTemplate.ContainerSpec.Hosts", "names", inContainer(func(c *ctr) { c.Hosts[0] = "192.0.2.7" })},
		{"TaskTemplate.ContainerSpec.Hosts", "address", inContainer(func(c *ctr) { c.Hosts[1] = "db:192.0.2.7 x" })},
		{"TaskTemplate.ContainerSpec.Hosts", "address", inContainer(func(c *ctr) { c.Hosts[1] = "192.0.2.7 x\n192.0.2.8 y" })},
		{"TaskTemplate.ContainerSpec.Hosts", "address", inContainer(func(c *ctr) { c.Hosts[1] = "192.0.2.7 #x" })},
		{"TaskTemplate.ContainerSpec.DNSConfig.Nameservers", "IP address", inContainer(func(c *ctr) { c.DNSConfig.Nameservers[0] = "ns" })},
		{"TaskTemplate.ContainerSpec.DNSConfig.Search", "one word", inContainer(func(c *ctr) { c.DNSConfig.Search[0] = "a b" })},
		{"TaskTemplate.ContainerSpec.DNSConfig.Options", "one word", inContainer(func(c *ctr) { c.DNSConfig.Options[0] = "" })},

		{"TaskTemplate.ContainerSpec.Hostname", "template", inContainer(func(c *ctr) { c.Hostname = "{{" })},
		{"TaskTemplate.ContainerSpec.Env[1]", "template", inContainer(func(c *ctr) { c.Env[1] = "B={{.Task.Nothing}}" })},
		{"TaskTemplate.ContainerSpec.Mounts[2].Source", "template", inMount(2, func(m *types.MountConfig) { m.Source = "{{.X}}" })},
		{"TaskTemplate.ContainerSpec.Mounts[2].Target", "template", inMount(2, func(m *types.MountConfig) { m.Target = "/{{nosuch}}" })},
		{"TaskTemplate.ContainerSpec.Mounts[2].VolumeOptions.Labels", "template", inMount(2, func(m *types.MountConfig) {
			m.VolumeOptions.Labels["a"] = "{{"
		})},
		{"TaskTemplate.ContainerSpec.Mounts[2].VolumeOptions.DriverConfig.Options", "template", inMount(2, func(m *types.MountConfig) {
			m.VolumeOptions.DriverConfig.Options["type"] = "{{"
		})},
		{"TaskTemplate.ContainerSpec.Mounts[0].Type", "bind, volume, tmpfs", inMount(0, func(m *types.MountConfig) { m.Type = "npipe" })},
		{"TaskTemplate.ContainerSpec.Mounts[0].Consistency", "cached", inMount(0, func(m *types.MountConfig) { m.Consistency = "x" })},
		{"TaskTemplate.ContainerSpec.Mounts[0]", "Source", inMount(0, func(m *types.MountConfig) { m.Source = "" })},
		{"TaskTemplate.ContainerSpec.Mounts[0]", "absolute", inMount(0, func(m *types.MountConfig) { m.Source = "a" })},
		{"TaskTemplate.ContainerSpec.Mounts[0]", "Target", inMount(0, func(m *types.MountConfig) { m.Target = "" })},
		{"TaskTemplate.ContainerSpec.Mounts[1].Target", "duplicate mount point", inMount(1, func(m *types.MountConfig) { m.Target = "/bind/" })},
		{"TaskTemplate.ContainerSpec.Mounts[0]", "propagation", inMount(0, func(m *types.MountConfig) { m.BindOptions.Propagation = "x" })},
		{"TaskTemplate.ContainerSpec.Mounts[0]", "ForceRecursive", inMount(0, func(m *types.MountConfig) { m.ReadOnly = false })},
		{"TaskTemplate.ContainerSpec.Mounts[1]", "VolumeOptions", inMount(1, func(m *types.MountConfig) { m.VolumeOptions = &types.VolumeOptions{} })},
		{"TaskTemplate.ContainerSpec.Mounts[1]", "ImageOptions", inMount(1, func(m *types.MountConfig) { m.ImageOptions = &types.ImageMountOptions{} })},
		{"TaskTemplate.ContainerSpec.Mounts[1]", "ClusterOptions", inMount(1, func(m *types.MountConfig) { m.ClusterOptions = &struct{}{} })},
		{"TaskTemplate.ContainerSpec.Mounts[2]", "volume name", inMount(2, func(m *types.MountConfig) { m.Source = "a/b" })},
		{"TaskTemplate.ContainerSpec.Mounts[2]", "Subpath", inMount(2, func(m *types.MountConfig) { m.VolumeOptions.Subpath = "../x" })},
		{"TaskTemplate.ContainerSpec.Mounts[2]", "DriverConfig", inMount(2, func(m *types.MountConfig) { m.VolumeOptions.DriverConfig.Name = "nfs" })},
		{"TaskTemplate.ContainerSpec.Mounts[3]", "Source", inMount(3, func(m *types.MountConfig) { m.Source = "a" })},
		{"TaskTemplate.ContainerSpec.Mounts[3]", "SizeBytes", inMount(3, func(m *types.MountConfig) { m.TmpfsOptions.SizeBytes = -1 })},
		{"TaskTemplate.ContainerSpec.Mounts[3]", "Mode", inMount(3, func(m *types.MountConfig) { m.TmpfsOptions.Mode = 0o10000 })},
		{"TaskTemplate.ContainerSpec.Mounts[3]", "Options", inMount(3, func(m *types.MountConfig) { m.TmpfsOptions.Options[0] = nil })},
	} {
		s := wireService()
		tc.set(&s)
		_, err := ToServiceSpec(&s)
		requireRefused(t, err, tc.field, tc.words)
	}
}

// TestHostPorts: ports of one node alone are known, and refused.
func TestHostPorts(t *testing.T) {
	s := wireService()
	s.EndpointSpec.Ports[1].PublishMode = "host"
	_, err := ToServiceSpec(&s)
	if !fault.Is(err, fault.Unsupported) || !strings.HasPrefix(err.Error(), "EndpointSpec.Ports[1].PublishMode: ") {
		t.Errorf("mode host: %v, want unsupported", err)
	}
}

// TestBounds: the last value that is taken.
func TestBounds(t *testing.T) {
	s := wireService()
	s.Name = strings.Repeat("a", 63)
	s.Mode.Replicated.Replicas = new(uint64(100_000))
	s.TaskTemplate.Resources.Limits = &types.ServiceResource{NanoCPUs: 1_000_000, MemoryBytes: 4 << 20}
	s.TaskTemplate.RestartPolicy.Delay, s.TaskTemplate.RestartPolicy.Window = new(time.Duration), new(time.Duration)
	s.TaskTemplate.ContainerSpec.Healthcheck.Retries = math.MaxInt32
	s.EndpointSpec.Ports = []types.ServicePort{
		{TargetPort: 65535, PublishedPort: 65535},
		{Protocol: "udp", TargetPort: 1, PublishedPort: 65535},
		{TargetPort: 80},
		{TargetPort: 81}, // the nodes choose
	}
	made, err := ToServiceSpec(&s)
	if err != nil {
		t.Fatal(err)
	}
	if shown := newServiceSpec(made); *shown.TaskTemplate.RestartPolicy.Delay != 0 || shown.TaskTemplate.ContainerSpec.Healthcheck.Retries != math.MaxInt32 ||
		len(shown.EndpointSpec.Ports) != 4 {
		t.Errorf("shown as %+v", shown)
	}
	swarm := types.SwarmSpec{
		Raft: types.SwarmRaft{HeartbeatTick: 1, ElectionTick: 2}, Dispatcher: types.SwarmDispatcher{HeartbeatPeriod: 100 * time.Millisecond},
		CAConfig: types.SwarmCA{NodeCertExpiry: time.Hour},
	}
	if err := ChangeSwarm(&api.ClusterSpec{}, &swarm); err != nil {
		t.Error(err)
	}
}

// TestTemplatesAreLeft: what a node makes of a template is checked by that node.
func TestTemplatesAreLeft(t *testing.T) {
	s := wireService()
	s.TaskTemplate.ContainerSpec.Hostname = "{{ .Task.Name }}"
	s.TaskTemplate.ContainerSpec.Mounts = []types.MountConfig{
		{Type: "bind", Source: "{{.Node.Hostname}}", Target: "{{.Task.Slot}}"}, {Type: "volume", Source: "{{.Service.Name}}", Target: "/b"},
	}
	if _, err := ToServiceSpec(&s); err != nil {
		t.Errorf("%v", err)
	}
	s.TaskTemplate.ContainerSpec.Mounts[1].VolumeOptions = &types.VolumeOptions{Subpath: "/x"}
	_, err := ToServiceSpec(&s)
	requireRefused(t, err, "TaskTemplate.ContainerSpec.Mounts[1]", "Subpath")
}

func TestWrongSwarms(t *testing.T) {
	type spec = types.SwarmSpec
	for _, tc := range []struct {
		field, words string
		set          func(s *spec)
	}{
		{"Name", "default", func(s *spec) { s.Name = "mine" }},
		{"Labels", "no key", func(s *spec) { s.Labels[""] = "" }},
		{"Raft.HeartbeatTick", "1 to", func(s *spec) { s.Raft.HeartbeatTick = -1 }},
		{"Raft.HeartbeatTick", "1 to", func(s *spec) { s.Raft.HeartbeatTick = math.MaxInt32 + 1 }},
		{"Raft.ElectionTick", "1 to", func(s *spec) { s.Raft.ElectionTick = -1 }},
		{"Raft.ElectionTick", "not more than", func(s *spec) { s.Raft.ElectionTick = s.Raft.HeartbeatTick }},
		{"Raft.ElectionTick", "not more than HeartbeatTick, 10", func(s *spec) { s.Raft.HeartbeatTick, s.Raft.ElectionTick = 10, 0 }},
		{"Dispatcher.HeartbeatPeriod", "nanoseconds", func(s *spec) { s.Dispatcher.HeartbeatPeriod = 5 }},
		{"Dispatcher.HeartbeatPeriod", "less than", func(s *spec) { s.Dispatcher.HeartbeatPeriod = -time.Second }},
		{"CAConfig.NodeCertExpiry", "minimum certificate expiry time is: 1h", func(s *spec) { s.CAConfig.NodeCertExpiry = time.Minute }},
		{"CAConfig.ExternalCAs[0].Protocol", "cfssl", func(s *spec) { s.CAConfig.ExternalCAs[0].Protocol = "acme" }},
		{"CAConfig.ExternalCAs[0].URL", "https://", func(s *spec) { s.CAConfig.ExternalCAs[0].URL = "" }},
		{"CAConfig.ExternalCAs[0].URL", "https://", func(s *spec) { s.CAConfig.ExternalCAs[0].URL = "http://ca.test" }},
		{"CAConfig.ExternalCAs[0].URL", "https://", func(s *spec) { s.CAConfig.ExternalCAs[0].URL = "https://" }},
		{"CAConfig.ExternalCAs[0].URL", "https://", func(s *spec) { s.CAConfig.ExternalCAs[0].URL = ":" }},
		{"TaskDefaults.LogDriver.Options", "nosuch", func(s *spec) { s.TaskDefaults.LogDriver.Options["nosuch"] = "x" }},
		{"TaskDefaults.LogDriver.Name", "nosuch", func(s *spec) { s.TaskDefaults.LogDriver.Name = "nosuch" }},
	} {
		s := wireSwarm()
		tc.set(&s)
		requireRefused(t, ChangeSwarm(&api.ClusterSpec{Raft: api.RaftConfig{HeartbeatTick: 1, ElectionTick: 10}}, &s), tc.field, tc.words)
	}
}

func TestWrongNodes(t *testing.T) {
	for _, tc := range []struct {
		field, words string
		asked        types.NodeSpec
	}{
		{"Role", "worker or manager", types.NodeSpec{Availability: "active"}},
		{"Role", "worker, manager", types.NodeSpec{Role: "leader", Availability: "active"}},
		{"Availability", "active, pause or drain", types.NodeSpec{Role: "worker"}},
		{"Availability", "active, pause, drain", types.NodeSpec{Role: "worker", Availability: "gone"}},
		{"Labels", "no key", types.NodeSpec{Role: "worker", Availability: "active", Annotations: types.Annotations{Labels: map[string]string{"": ""}}}},
	} {
		requireRefused(t, ChangeNode(&api.NodeSpec{}, &tc.asked), tc.field, tc.words)
	}
}

// FuzzServiceSpec: whatever is taken is shown as it is taken again, and what is not names a field.
func FuzzServiceSpec(f *testing.F) {
	global, _ := globalService()
	for _, s := range []types.ServiceSpec{wireService(), global, {}} {
		raw, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s types.ServiceSpec
		if json.Unmarshal(raw, &s) != nil {
			return
		}
		made, err := ToServiceSpec(&s)
		if err != nil {
			if field, _, _ := strings.Cut(err.Error(), ":"); !fault.Is(err, fault.Invalid) || strings.Contains(field, " ") {
				t.Fatalf("%v names no field", err)
			}
			return
		}
		shown := newServiceSpec(made)
		again, err := ToServiceSpec(&shown)
		if err != nil {
			t.Fatalf("what is shown is refused: %v", err)
		}
		if second := newServiceSpec(again); !reflect.DeepEqual(second, shown) {
			t.Fatalf("shown %+v, then %+v", shown, second)
		}
	})
}
