package object

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
)

// requireSame compares by the fields: the objects of SwarmKit hold no more than that.
func requireSame(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func TestService(t *testing.T) {
	global, kitGlobal := globalService()
	for _, pair := range []struct {
		name string
		wire types.ServiceSpec
		kit  *api.ServiceSpec
	}{{"replicated", wireService(), kitService()}, {"global", global, kitGlobal}} {
		made, err := ToServiceSpec(&pair.wire)
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, "ToServiceSpec "+pair.name, made, pair.kit)
		requireSame(t, "newServiceSpec "+pair.name, newServiceSpec(pair.kit), pair.wire)
	}
	requireFilled(t, []any{wireService(), global},
		"TaskTemplate.ContainerSpec.Mounts.ImageOptions", "TaskTemplate.ContainerSpec.Mounts.ClusterOptions") // are refused

	shown := NewService(&api.Service{
		ID: "s1", Meta: kitMeta(t, 40), Spec: *kitService(),
		Endpoint: &api.Endpoint{
			Spec:       &api.EndpointSpec{Mode: api.ResolutionModeDNSRoundRobin, Ports: []*api.PortConfig{{Name: "e", TargetPort: 81, PublishedPort: 8081}}},
			Ports:      []*api.PortConfig{{Name: "p", Protocol: api.ProtocolSCTP, TargetPort: 82, PublishedPort: 8082, PublishMode: api.PublishModeHost}},
			VirtualIPs: []*api.Endpoint_VirtualIP{{NetworkID: "n1", Addr: "192.0.2.1/24"}},
		},
		UpdateStatus: &api.UpdateStatus{State: api.UpdateStatus_PAUSED, StartedAt: kitTime(t, 41), CompletedAt: kitTime(t, 42), Message: "held"},
	})
	want := &types.Service{
		ID: "s1", ObjectMeta: wireMeta(40), Spec: wireService(),
		Endpoint: types.ServiceEndpoint{
			Spec:       types.EndpointSpec{Mode: "dnsrr", Ports: []types.ServicePort{{Name: "e", Protocol: "tcp", TargetPort: 81, PublishedPort: 8081, PublishMode: "ingress"}}},
			Ports:      []types.ServicePort{{Name: "p", Protocol: "sctp", TargetPort: 82, PublishedPort: 8082, PublishMode: "host"}},
			VirtualIPs: []types.ServiceVirtualIP{{NetworkID: "n1", Addr: "192.0.2.1/24"}},
		},
		UpdateStatus: &types.UpdateStatus{State: "paused", StartedAt: moment(41), CompletedAt: moment(42), Message: "held"},
	}
	requireSame(t, "NewService", shown, want)
	requireFilled(t, []any{*want}, "Spec.Mode.Global",
		"Spec.TaskTemplate.ContainerSpec.Mounts.ImageOptions", "Spec.TaskTemplate.ContainerSpec.Mounts.ClusterOptions")
}

func TestSwarm(t *testing.T) {
	made, wire := &api.ClusterSpec{}, wireSwarm()
	if err := ChangeSwarm(made, &wire); err != nil {
		t.Fatal(err)
	}
	requireSame(t, "ChangeSwarm", made, kitSwarm())
	shown := NewSwarm(&api.Cluster{
		ID: "c1", Meta: kitMeta(t, 50), Spec: *kitSwarm(),
		RootCA: api.RootCA{CAKey: []byte("secret"), JoinTokens: api.JoinTokens{Worker: "tw", Manager: "tm"}},
	})
	want := &types.Swarm{
		ID: "c1", ObjectMeta: wireMeta(50), Spec: wireSwarm(), JoinTokens: types.SwarmTokens{Worker: "tw", Manager: "tm"},
	}
	requireSame(t, "NewSwarm", shown, want)
	requireFilled(t, []any{*want})
}

func TestNode(t *testing.T) {
	wire := types.NodeSpec{
		Annotations: types.Annotations{Name: "left", Labels: map[string]string{"of": "node"}}, Role: "manager", Availability: "drain",
	}
	kit := api.NodeSpec{
		Annotations: api.Annotations{Name: "left", Labels: map[string]string{"of": "node"}}, DesiredRole: api.NodeRoleManager,
		Availability: api.NodeAvailabilityDrain, Membership: api.NodeMembershipAccepted,
	}
	made := api.NodeSpec{Annotations: api.Annotations{Name: "old", Labels: map[string]string{"a": "b"}}, Membership: api.NodeMembershipAccepted}
	if err := ChangeNode(&made, &wire); err != nil {
		t.Fatal(err)
	}
	requireSame(t, "ChangeNode", made, kit)
	shown := NewNode(&api.Node{
		ID: "n1", Meta: kitMeta(t, 60), Spec: kit,
		Description: &api.NodeDescription{
			Hostname: "host", Platform: &api.Platform{Architecture: "x86_64", OS: "linux"},
			Resources: &api.Resources{NanoCPUs: 61, MemoryBytes: 62},
			Engine: &api.EngineDescription{
				EngineVersion: "1.2", Labels: map[string]string{"of": "engine"}, Plugins: []api.PluginDescription{{Type: "Log", Name: "gelf"}},
			},
		},
		Status:        api.NodeStatus{State: api.NodeStatus_DISCONNECTED, Message: "away", Addr: "192.0.2.2"},
		ManagerStatus: &api.ManagerStatus{Leader: true, Reachability: api.RaftMemberStatus_UNREACHABLE, Addr: "192.0.2.3:2377"},
	})
	want := &types.Node{
		ID: "n1", ObjectMeta: wireMeta(60), Spec: wire,
		Description: types.NodeDescription{
			Hostname: "host", Platform: types.NodePlatform{Architecture: "x86_64", OS: "linux"},
			Resources: types.ServiceResource{NanoCPUs: 61, MemoryBytes: 62},
			Engine: types.NodeEngine{
				EngineVersion: "1.2", Labels: map[string]string{"of": "engine"}, Plugins: []types.NodePlugin{{Type: "Log", Name: "gelf"}},
			},
		},
		Status:        types.NodeStatus{State: "disconnected", Message: "away", Addr: "192.0.2.2"},
		ManagerStatus: &types.NodeManagerStatus{Leader: true, Reachability: "unreachable", Addr: "192.0.2.3:2377"},
	}
	requireSame(t, "NewNode", shown, want)
	requireFilled(t, []any{*want})
	requireSame(t, "NewNode of one that has said nothing", NewNode(&api.Node{ID: "n2"}), &types.Node{
		ID: "n2", Status: types.NodeStatus{State: "unknown"},
		Spec: types.NodeSpec{Annotations: types.Annotations{Labels: map[string]string{}}, Role: "worker", Availability: "active"},
	})
	requireSame(t, "NewNode of one that has said little", NewNode(&api.Node{Description: &api.NodeDescription{Hostname: "h"}}).Description,
		types.NodeDescription{Hostname: "h"})
}

func TestTask(t *testing.T) {
	ipam := func(name string) *api.IPAMOptions {
		return &api.IPAMOptions{
			Driver:  &api.Driver{Name: name, Options: map[string]string{"of": name}},
			Configs: []*api.IPAMConfig{{Subnet: "192.0.2.0/24", Range: "192.0.2.0/25", Gateway: "192.0.2.1"}},
		}
	}
	set := func(name string) *types.SwarmNetworkIPAMSet {
		return &types.SwarmNetworkIPAMSet{
			Driver:  types.SwarmNetworkDriver{Name: name, Options: map[string]string{"of": name}},
			Configs: []types.SwarmNetworkPool{{Subnet: "192.0.2.0/24", Range: "192.0.2.0/25", Gateway: "192.0.2.1"}},
		}
	}
	task := &api.Task{
		ID: "t1", Meta: kitMeta(t, 70), Annotations: api.Annotations{Name: "web.1.t1", Labels: map[string]string{"of": "task"}},
		Spec: kitTask(), ServiceID: "s1", Slot: 71, NodeID: "n1", DesiredState: api.TaskStateRunning,
		Status: api.TaskStatus{
			Timestamp: kitTime(t, 72), State: api.TaskStateFailed, Message: "started", Err: "exit 3",
			RuntimeStatus: &api.TaskStatus_Container{Container: &api.ContainerStatus{ContainerID: "c1", PID: 73, ExitCode: 3}},
		},
		Networks: []*api.NetworkAttachment{{
			Network: &api.Network{
				ID: "n9", Meta: kitMeta(t, 74), DriverState: &api.Driver{Name: "state", Options: map[string]string{"a": "b"}}, IPAM: ipam("live"),
				Spec: api.NetworkSpec{
					Annotations:  api.Annotations{Name: "net", Labels: map[string]string{"of": "net"}},
					DriverConfig: &api.Driver{Name: "overlay", Options: map[string]string{"c": "d"}}, Ipv6Enabled: true, Internal: true, IPAM: ipam("asked"),
				},
			},
			Addresses: []string{"192.0.2.9/24"},
		}},
	}
	want := &types.Task{
		ID: "t1", ObjectMeta: wireMeta(70), Annotations: types.Annotations{Name: "web.1.t1", Labels: map[string]string{"of": "task"}},
		Spec: wireTask(), ServiceID: "s1", Slot: 71, NodeID: "n1", DesiredState: "running",
		Status: types.TaskStatus{
			Timestamp: moment(72), State: "failed", Message: "started", Err: "exit 3",
			ContainerStatus: &types.TaskContainerStatus{ContainerID: "c1", PID: 73, ExitCode: 3},
		},
		NetworksAttachments: []types.NetworkAttachment{{
			Network: types.SwarmNetwork{
				ID: "n9", ObjectMeta: wireMeta(74), DriverState: types.SwarmNetworkDriver{Name: "state", Options: map[string]string{"a": "b"}},
				IPAMOptions: set("live"),
				Spec: types.SwarmNetworkSpec{
					Annotations:         types.Annotations{Name: "net", Labels: map[string]string{"of": "net"}},
					DriverConfiguration: &types.SwarmNetworkDriver{Name: "overlay", Options: map[string]string{"c": "d"}},
					IPv6Enabled:         true, Internal: true, IPAMOptions: set("asked"),
				},
			},
			Addresses: []string{"192.0.2.9/24"},
		}},
	}
	requireSame(t, "NewTask", NewTask(task), want)
	requireFilled(t, []any{*want}, "Spec.ContainerSpec.Mounts.ImageOptions", "Spec.ContainerSpec.Mounts.ClusterOptions")
	requireSame(t, "NewTask of one without a container",
		NewTask(&api.Task{ID: "t2", Networks: []*api.NetworkAttachment{{}}}),
		&types.Task{
			ID: "t2", Annotations: types.Annotations{Labels: map[string]string{}}, Status: types.TaskStatus{State: "new"}, DesiredState: "new",
			NetworksAttachments: []types.NetworkAttachment{{}},
		})
}

// requireFilled fails for a field that has a value in none of the samples: its conversion would not be tested. Those in but have
// none.
func requireFilled(t *testing.T, samples []any, but ...string) {
	t.Helper()
	filled := map[string]bool{}
	for _, sample := range samples {
		markFilled(reflect.ValueOf(sample), "", filled)
	}
	for _, path := range pathsOf(reflect.TypeOf(samples[0]), "") {
		left := slices.ContainsFunc(but, func(out string) bool { return path == out || strings.HasPrefix(path, out+".") })
		if filled[path] == left {
			t.Errorf("%T: %s has a value in a sample: %t", samples[0], path, filled[path])
		}
	}
}

func markFilled(v reflect.Value, path string, filled map[string]bool) {
	if !v.IsZero() {
		filled[path] = true
	}
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		markFilled(v.Elem(), path, filled)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			markFilled(v.Index(i), path, filled)
		}
	case v.Kind() == reflect.Struct && v.Type().PkgPath() != "time":
		for f, value := range v.Fields() {
			markFilled(value, joinPath(path, f), filled)
		}
	}
}

// pathsOf lists the fields of a type and those below.
func pathsOf(of reflect.Type, path string) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of.PkgPath() == "time" {
		return nil
	}
	var paths []string
	for f := range of.Fields() {
		below := joinPath(path, f)
		if below != path {
			paths = append(paths, below)
		}
		paths = append(paths, pathsOf(f.Type, below)...)
	}
	return paths
}

func joinPath(path string, f reflect.StructField) string {
	if f.Anonymous {
		return path
	}
	return strings.TrimPrefix(path+"."+f.Name, ".")
}
