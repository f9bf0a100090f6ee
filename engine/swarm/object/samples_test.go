package object

import (
	"testing"
	"time"

	gogotypes "github.com/gogo/protobuf/types"
	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
)

// The samples below stand in pairs: what clients see, and what SwarmKit has. No two values of a kind are the same.

func wireContainer() types.ContainerSpec {
	return types.ContainerSpec{
		Image: "reg.test:5000/a/web:v1", Labels: map[string]string{"of": "container"}, Command: []string{"/entry", "-c"},
		Args: []string{"one", "two"}, Hostname: "{{.Node.Hostname}}", Env: []string{"A=1", "B={{.Task.Slot}}"}, Dir: "/srv", User: "app:staff",
		Groups: []string{"audio", "1000"}, StopSignal: "SIGQUIT", TTY: true, OpenStdin: true, ReadOnly: true,
		Mounts: []types.MountConfig{
			{
				Type: "bind", Source: "/data", Target: "/bind", ReadOnly: true, Consistency: "cached",
				BindOptions: &types.BindOptions{Propagation: "rslave", CreateMountpoint: true, ReadOnlyForceRecursive: true},
			},
			{
				Type: "bind", Source: "/data2", Target: "/bind2", ReadOnly: true,
				BindOptions: &types.BindOptions{Propagation: "rprivate", NonRecursive: true, ReadOnlyNonRecursive: true},
			},
			{
				Type: "volume", Source: "store-{{.Task.Slot}}", Target: "/volume",
				VolumeOptions: &types.VolumeOptions{
					NoCopy: true, Labels: map[string]string{"of": "volume"}, Subpath: "sub",
					DriverConfig: &types.DriverConfig{Name: "local", Options: map[string]string{"type": "tmpfs"}},
				},
			},
			{
				Type: "tmpfs", Target: "/tmpfs",
				TmpfsOptions: &types.TmpfsOptions{SizeBytes: 1 << 20, Mode: 0o1770, Options: [][]string{{"noexec"}, {"nr_inodes", "10"}}},
			},
		},
		StopGracePeriod: new(7 * time.Second),
		Healthcheck: &types.Healthcheck{
			Test: []string{"CMD", "probe"}, Interval: 2 * time.Second, Timeout: 3 * time.Second, StartPeriod: 4 * time.Second,
			StartInterval: time.Second, Retries: 5,
		},
		Hosts:     []string{"192.0.2.7 db database", "host-gateway gate"},
		DNSConfig: &types.ServiceDNS{Nameservers: []string{"192.0.2.53"}, Search: []string{"a.test"}, Options: []string{"ndots:2"}},
	}
}

func kitContainer() *api.ContainerSpec {
	return &api.ContainerSpec{
		Image: "reg.test:5000/a/web:v1", Labels: map[string]string{"of": "container"}, Command: []string{"/entry", "-c"},
		Args: []string{"one", "two"}, Hostname: "{{.Node.Hostname}}", Env: []string{"A=1", "B={{.Task.Slot}}"}, Dir: "/srv", User: "app:staff",
		Groups: []string{"audio", "1000"}, StopSignal: "SIGQUIT", TTY: true, OpenStdin: true, ReadOnly: true,
		Mounts: []api.Mount{
			{
				Type: api.MountTypeBind, Source: "/data", Target: "/bind", ReadOnly: true, Consistency: api.MountConsistencyCached,
				BindOptions: &api.Mount_BindOptions{
					Propagation: api.MountPropagationRSlave, CreateMountpoint: true, ReadOnlyForceRecursive: true,
				},
			},
			{
				Type: api.MountTypeBind, Source: "/data2", Target: "/bind2", ReadOnly: true,
				BindOptions: &api.Mount_BindOptions{NonRecursive: true, ReadOnlyNonRecursive: true},
			},
			{
				Type: api.MountTypeVolume, Source: "store-{{.Task.Slot}}", Target: "/volume",
				VolumeOptions: &api.Mount_VolumeOptions{
					NoCopy: true, Labels: map[string]string{"of": "volume"}, Subpath: "sub",
					DriverConfig: &api.Driver{Name: "local", Options: map[string]string{"type": "tmpfs"}},
				},
			},
			{
				Type: api.MountTypeTmpfs, Target: "/tmpfs",
				TmpfsOptions: &api.Mount_TmpfsOptions{SizeBytes: 1 << 20, Mode: 0o1770, Options: `[["noexec"],["nr_inodes","10"]]`},
			},
		},
		StopGracePeriod: gogotypes.DurationProto(7 * time.Second),
		Healthcheck: &api.HealthConfig{
			Test: []string{"CMD", "probe"}, Interval: gogotypes.DurationProto(2 * time.Second),
			Timeout: gogotypes.DurationProto(3 * time.Second), StartPeriod: gogotypes.DurationProto(4 * time.Second),
			StartInterval: gogotypes.DurationProto(time.Second), Retries: 5,
		},
		Hosts:     []string{"192.0.2.7 db database", "host-gateway gate"},
		DNSConfig: &api.ContainerSpec_DNSConfig{Nameservers: []string{"192.0.2.53"}, Search: []string{"a.test"}, Options: []string{"ndots:2"}},
	}
}

func wireTask() types.TaskSpec {
	return types.TaskSpec{
		ContainerSpec: wireContainer(),
		Resources: &types.ServiceRequirements{
			Limits:       &types.ServiceResource{NanoCPUs: 2e9, MemoryBytes: 64 << 20},
			Reservations: &types.ServiceResource{NanoCPUs: 1e9, MemoryBytes: 32 << 20},
		},
		RestartPolicy: &types.ServiceRestart{
			Condition: "on-failure", Delay: new(11 * time.Second), MaxAttempts: new(uint64(12)), Window: new(13 * time.Second),
		},
		Placement:   &types.Placement{Constraints: []string{"node.role == manager", "node.labels.disk!=slow"}},
		Networks:    []types.ServiceNetwork{{Target: "inner", Aliases: []string{"in"}}},
		LogDriver:   &types.LogDriver{Name: "json-file", Options: map[string]string{"max-size": "1m"}},
		ForceUpdate: 14,
	}
}

func kitTask() api.TaskSpec {
	return api.TaskSpec{
		Runtime: &api.TaskSpec_Container{Container: kitContainer()},
		Resources: &api.ResourceRequirements{
			Limits:       &api.Resources{NanoCPUs: 2e9, MemoryBytes: 64 << 20},
			Reservations: &api.Resources{NanoCPUs: 1e9, MemoryBytes: 32 << 20},
		},
		Restart: &api.RestartPolicy{
			Condition: api.RestartOnFailure, Delay: gogotypes.DurationProto(11 * time.Second), MaxAttempts: 12,
			Window: gogotypes.DurationProto(13 * time.Second),
		},
		Placement:   &api.Placement{Constraints: []string{"node.role == manager", "node.labels.disk!=slow"}},
		Networks:    []*api.NetworkAttachmentConfig{{Target: "inner", Aliases: []string{"in"}}},
		LogDriver:   &api.Driver{Name: "json-file", Options: map[string]string{"max-size": "1m"}},
		ForceUpdate: 14,
	}
}

func wireService() types.ServiceSpec {
	return types.ServiceSpec{
		Annotations:  types.Annotations{Name: "web", Labels: map[string]string{"of": "service"}},
		TaskTemplate: wireTask(),
		Mode:         types.ServiceMode{Replicated: &types.ReplicatedMode{Replicas: new(uint64(21))}},
		UpdateConfig: &types.UpdateConfig{Parallelism: 22, Delay: 23 * time.Second, FailureAction: "continue"},
		Networks:     []types.ServiceNetwork{{Target: "outer", Aliases: []string{"out"}}},
		EndpointSpec: &types.EndpointSpec{Mode: "vip", Ports: []types.ServicePort{
			{Name: "http", Protocol: "tcp", TargetPort: 80, PublishedPort: 8080, PublishMode: "ingress"},
			{Protocol: "udp", TargetPort: 53, PublishedPort: 5353, PublishMode: "ingress"},
		}},
	}
}

func kitService() *api.ServiceSpec {
	return &api.ServiceSpec{
		Annotations: api.Annotations{Name: "web", Labels: map[string]string{"of": "service"}},
		Task:        kitTask(),
		Mode:        &api.ServiceSpec_Replicated{Replicated: &api.ReplicatedService{Replicas: 21}},
		Update:      &api.UpdateConfig{Parallelism: 22, Delay: 23 * time.Second, FailureAction: api.UpdateConfig_CONTINUE},
		Networks:    []*api.NetworkAttachmentConfig{{Target: "outer", Aliases: []string{"out"}}},
		Endpoint: &api.EndpointSpec{Ports: []*api.PortConfig{
			{Name: "http", TargetPort: 80, PublishedPort: 8080},
			{Protocol: api.ProtocolUDP, TargetPort: 53, PublishedPort: 5353},
		}},
	}
}

// globalService is the mode that a sample cannot have beside the other.
func globalService() (types.ServiceSpec, *api.ServiceSpec) {
	wire, kit := wireService(), kitService()
	wire.Mode = types.ServiceMode{Global: &struct{}{}}
	kit.Mode = &api.ServiceSpec_Global{Global: &api.GlobalService{}}
	return wire, kit
}

func wireSwarm() types.SwarmSpec {
	return types.SwarmSpec{
		Annotations:   types.Annotations{Name: "default", Labels: map[string]string{"of": "swarm"}},
		Orchestration: types.SwarmOrchestration{TaskHistoryRetentionLimit: new(int64(31))},
		Raft: types.SwarmRaft{
			SnapshotInterval: 32, KeepOldSnapshots: new(uint64(33)), LogEntriesForSlowFollowers: 34, HeartbeatTick: 35, ElectionTick: 36,
		},
		Dispatcher: types.SwarmDispatcher{HeartbeatPeriod: 37 * time.Second},
		CAConfig: types.SwarmCA{NodeCertExpiry: 38 * time.Hour, ExternalCAs: []types.SwarmExternalCA{
			{Protocol: "cfssl", URL: "https://ca.test/sign", Options: map[string]string{"of": "ca"}},
		}},
		TaskDefaults:     types.SwarmTaskDefaults{LogDriver: &types.LogDriver{Name: "journald", Options: map[string]string{"tag": "t"}}},
		EncryptionConfig: types.SwarmEncryption{AutoLockManagers: true},
	}
}

func kitSwarm() *api.ClusterSpec {
	return &api.ClusterSpec{
		Annotations:   api.Annotations{Name: "default", Labels: map[string]string{"of": "swarm"}},
		Orchestration: api.OrchestrationConfig{TaskHistoryRetentionLimit: 31},
		Raft: api.RaftConfig{
			SnapshotInterval: 32, KeepOldSnapshots: 33, LogEntriesForSlowFollowers: 34, HeartbeatTick: 35, ElectionTick: 36,
		},
		Dispatcher: api.DispatcherConfig{HeartbeatPeriod: gogotypes.DurationProto(37 * time.Second)},
		CAConfig: api.CAConfig{NodeCertExpiry: gogotypes.DurationProto(38 * time.Hour), ExternalCAs: []*api.ExternalCA{
			{URL: "https://ca.test/sign", Options: map[string]string{"of": "ca"}},
		}},
		TaskDefaults:     api.TaskDefaults{LogDriver: &api.Driver{Name: "journald", Options: map[string]string{"tag": "t"}}},
		EncryptionConfig: api.EncryptionConfig{AutoLockManagers: true},
	}
}

// kitMeta and wireMeta tell objects apart by n.
func kitMeta(t *testing.T, n uint64) api.Meta {
	t.Helper()
	return api.Meta{
		Version:   api.Version{Index: n},
		CreatedAt: kitTime(t, int(n)), UpdatedAt: kitTime(t, int(n)+1),
	}
}

func wireMeta(n uint64) types.ObjectMeta {
	return types.ObjectMeta{Version: types.ObjectVersion{Index: n}, CreatedAt: moment(int(n)), UpdatedAt: moment(int(n) + 1)}
}

func moment(n int) time.Time { return time.Date(2026, 1, 2, 3, 4, 0, n, time.UTC) }

func kitTime(t *testing.T, n int) *gogotypes.Timestamp {
	t.Helper()
	at, err := gogotypes.TimestampProto(moment(n))
	if err != nil {
		t.Fatal(err)
	}
	return at
}
