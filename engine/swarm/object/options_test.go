package object

import (
	"strings"
	"testing"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
	"moss/engine/fault"
)

// requireOptions holds a table against SwarmKit's own names of its values. Names of SwarmKit that clients write otherwise, or
// are not told of, are in but.
func requireOptions[T ~int32](t *testing.T, options []option[T], names map[int32]string, but map[string]string) {
	t.Helper()
	for value, name := range names {
		want, ok := but[name]
		if !ok {
			want = strings.ReplaceAll(strings.ToLower(name), "_", "-")
		}
		if got := newOption(T(value), options); got != want {
			t.Errorf("%s is shown as %q, want %q", name, got, want)
		}
	}
	for _, o := range options {
		for _, text := range []string{o.text, strings.ToUpper(o.text)} {
			got, err := toOption("F", text, options)
			if err != nil || newOption(got, options) != o.text {
				t.Errorf("%q is read as %d, %v", text, got, err)
			}
		}
	}
	if got, err := toOption("F", "", options); err != nil || got != options[0].value {
		t.Errorf("an empty text is read as %d, %v, want %s", got, err, options[0].text)
	}
	for _, wrong := range []string{" ", options[0].text + "x", "\x00"} {
		_, err := toOption("A.B", wrong, options)
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "A.B: ") || !strings.Contains(err.Error(), options[0].text) {
			t.Errorf("%q: %v, want a refusal that names field and values", wrong, err)
		}
	}
}

func TestOptions(t *testing.T) {
	requireOptions(t, failureActions, api.UpdateConfig_FailureAction_name, map[string]string{"ROLLBACK": ""})
	requireOptions(t, updateStates, api.UpdateStatus_UpdateState_name, map[string]string{
		"UNKNOWN": "", "ROLLBACK_STARTED": "updating", "ROLLBACK_PAUSED": "paused", "ROLLBACK_COMPLETED": "completed",
	})
	requireOptions(t, resolutionModes, api.EndpointSpec_ResolutionMode_name, nil)
	requireOptions(t, protocols, api.PortConfig_Protocol_name, nil)
	requireOptions(t, publishModes, api.PortConfig_PublishMode_name, nil)
	requireOptions(t, restartConditions, api.RestartPolicy_RestartCondition_name, nil)
	requireOptions(t, mountTypes, api.Mount_MountType_name, map[string]string{"NPIPE": "", "CLUSTER": ""})
	requireOptions(t, consistencies, api.Mount_MountConsistency_name, nil)
	requireOptions(t, propagations, api.Mount_BindOptions_MountPropagation_name, nil)
	requireOptions(t, availabilities, api.NodeSpec_Availability_name, nil)
	requireOptions(t, roles, api.NodeRole_name, nil)
	requireOptions(t, memberships, api.NodeSpec_Membership_name, nil)
	requireOptions(t, nodeStates, api.NodeStatus_State_name, nil)
	requireOptions(t, reachabilities, api.RaftMemberStatus_Reachability_name, nil)
	requireOptions(t, caProtocols, api.ExternalCA_CAProtocol_name, nil)
}

// TestEmptyIs: the value that a field has which a client leaves empty.
func TestEmptyIs(t *testing.T) {
	s := types.ServiceSpec{
		Annotations:  types.Annotations{Name: "a"},
		TaskTemplate: types.TaskSpec{ContainerSpec: types.ContainerSpec{Image: "i"}},
	}
	made, err := ToServiceSpec(&s)
	if err != nil {
		t.Fatal(err)
	}
	requireSame(t, "a service of a name and an image", made, &api.ServiceSpec{
		Annotations: api.Annotations{Name: "a"},
		Task:        api.TaskSpec{Runtime: &api.TaskSpec_Container{Container: &api.ContainerSpec{Image: "i"}}},
		Mode:        &api.ServiceSpec_Replicated{Replicated: &api.ReplicatedService{Replicas: 1}},
	})
	shown := newServiceSpec(made)
	want := s
	want.Labels, want.Mode = map[string]string{}, types.ServiceMode{Replicated: &types.ReplicatedMode{Replicas: new(uint64(1))}}
	requireSame(t, "what is shown of it", shown, want)

	s.Mode.Replicated = &types.ReplicatedMode{}
	s.UpdateConfig, s.EndpointSpec = &types.UpdateConfig{}, &types.EndpointSpec{}
	s.TaskTemplate.RestartPolicy, s.TaskTemplate.Resources = &types.ServiceRestart{}, &types.ServiceRequirements{}
	s.TaskTemplate.ContainerSpec.Mounts = []types.MountConfig{
		{Source: "/a", Target: "/b", BindOptions: &types.BindOptions{}},
		{Type: "volume", Target: "/v", VolumeOptions: &types.VolumeOptions{}},
		{Type: "tmpfs", Target: "/t", TmpfsOptions: &types.TmpfsOptions{}},
	}
	if made, err = ToServiceSpec(&s); err != nil {
		t.Fatal(err)
	}
	shown = newServiceSpec(made)
	if got := *shown.Mode.Replicated.Replicas; got != 1 {
		t.Errorf("replicas %d, want 1", got)
	}
	requireSame(t, "update", shown.UpdateConfig, &types.UpdateConfig{FailureAction: "pause"})
	requireSame(t, "endpoint", shown.EndpointSpec, &types.EndpointSpec{Mode: "vip"})
	requireSame(t, "restart", shown.TaskTemplate.RestartPolicy, &types.ServiceRestart{Condition: "any", MaxAttempts: new(uint64(0))})
	requireSame(t, "resources", shown.TaskTemplate.Resources, &types.ServiceRequirements{})
	requireSame(t, "mounts", shown.TaskTemplate.ContainerSpec.Mounts, []types.MountConfig{
		{Type: "bind", Source: "/a", Target: "/b", BindOptions: &types.BindOptions{Propagation: "rprivate"}},
		{Type: "volume", Target: "/v", VolumeOptions: &types.VolumeOptions{}},
		{Type: "tmpfs", Target: "/t", TmpfsOptions: &types.TmpfsOptions{}},
	})
}

// TestEndpointWithoutAddresses: a service without ports and networks has the endpoint that it asks for.
func TestEndpointWithoutAddresses(t *testing.T) {
	shown := NewService(&api.Service{Spec: api.ServiceSpec{Endpoint: &api.EndpointSpec{Mode: api.ResolutionModeDNSRoundRobin}}})
	requireSame(t, "endpoint", shown.Endpoint, types.ServiceEndpoint{Spec: types.EndpointSpec{Mode: "dnsrr"}})
}

// TestEmptyLeavesASwarmAsItIs: a part that a client does not send is not changed, but whether managers are locked is.
func TestEmptyLeavesASwarmAsItIs(t *testing.T) {
	for _, asked := range []types.SwarmSpec{{}, {Annotations: types.Annotations{Name: "default"}}} {
		spec := kitSwarm()
		if err := ChangeSwarm(spec, &asked); err != nil {
			t.Fatal(err)
		}
		want := kitSwarm()
		want.EncryptionConfig.AutoLockManagers = false
		requireSame(t, "ChangeSwarm with nothing", spec, want)
	}
	spec := kitSwarm()
	err := ChangeSwarm(spec, &types.SwarmSpec{
		Annotations:   types.Annotations{Labels: map[string]string{}},
		Orchestration: types.SwarmOrchestration{TaskHistoryRetentionLimit: new(int64(-1))},
		Raft:          types.SwarmRaft{KeepOldSnapshots: new(uint64(0)), ElectionTick: 99},
		CAConfig:      types.SwarmCA{ExternalCAs: []types.SwarmExternalCA{}},
		TaskDefaults:  types.SwarmTaskDefaults{LogDriver: &types.LogDriver{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := kitSwarm()
	want.Annotations.Labels, want.Orchestration.TaskHistoryRetentionLimit = map[string]string{}, -1
	want.Raft.KeepOldSnapshots, want.Raft.ElectionTick = 0, 99
	want.CAConfig.ExternalCAs, want.TaskDefaults.LogDriver = []*api.ExternalCA{}, nil
	want.EncryptionConfig.AutoLockManagers = false
	requireSame(t, "ChangeSwarm to nothing", spec, want)
}

func TestTaskStates(t *testing.T) {
	for name, value := range api.TaskState_value {
		text := newTaskState(api.TaskState(value))
		if back, ok := ToTaskState(text); !ok || int32(back) != value || text != strings.ToLower(name) {
			t.Errorf("%s is shown as %q and read as %d", name, text, back)
		}
	}
	for _, wrong := range []string{"", "gone", "new "} {
		if _, ok := ToTaskState(wrong); ok {
			t.Errorf("%q is read as a state", wrong)
		}
	}
}

// TestTimesThatCannotBe: what a node has sent may be no time at all.
func TestTimesThatCannotBe(t *testing.T) {
	status := newTaskStatus(&api.TaskStatus{Timestamp: kitTime(t, 1)})
	if status.Timestamp.IsZero() {
		t.Error("a moment is shown as none")
	}
	broken := kitTime(t, 1)
	broken.Nanos = -1
	if status = newTaskStatus(&api.TaskStatus{Timestamp: broken}); !status.Timestamp.IsZero() {
		t.Errorf("a broken moment is shown as %s", status.Timestamp)
	}
	spec := kitContainer()
	spec.StopGracePeriod.Nanos, spec.Healthcheck.Interval.Nanos = -1, -1
	shown := NewContainerSpec(spec)
	if shown.StopGracePeriod != nil || shown.Healthcheck.Interval != 0 {
		t.Errorf("broken lengths are shown as %s and %s", shown.StopGracePeriod, shown.Healthcheck.Interval)
	}
	spec.Mounts[3].TmpfsOptions.Options = "{"
	if got := NewContainerSpec(spec).Mounts[3].TmpfsOptions.Options; got != nil {
		t.Errorf("broken options are shown as %q", got)
	}
}
