package object

import (
	"strings"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/manager/constraint"

	"moss/api/types"
	"moss/engine/container"
	"moss/engine/logdriver"
)

// The least that a task may ask for. SwarmKit refuses less.
const (
	minNanoCPUs = 1e6     // a thousandth of a processor
	minMemory   = 4 << 20 // bytes
)

// taskField is the place of a task's specification in the body of a service.
const taskField = "TaskTemplate."

var restartConditions = []option[api.RestartPolicy_RestartCondition]{ //nolint:gochecknoglobals // a constant
	{"any", api.RestartOnAny},
	{"none", api.RestartOnNone},
	{"on-failure", api.RestartOnFailure},
}

func toTaskSpec(s *types.TaskSpec) (*api.TaskSpec, error) {
	ctr, err := toContainerSpec(&s.ContainerSpec)
	if err != nil {
		return nil, err
	}
	spec := &api.TaskSpec{Runtime: &api.TaskSpec_Container{Container: ctr}, ForceUpdate: s.ForceUpdate}
	if spec.Resources, err = toRequirements(s.Resources); err != nil {
		return nil, err
	}
	if spec.Restart, err = toRestart(s.RestartPolicy); err != nil {
		return nil, err
	}
	if spec.Placement, err = toPlacement(s.Placement); err != nil {
		return nil, err
	}
	if spec.LogDriver, err = toLogDriver(taskField+"LogDriver", s.LogDriver); err != nil {
		return nil, err
	}
	spec.Networks, err = toNetworks(taskField+"Networks", s.Networks)
	return spec, err
}

func toRequirements(r *types.ServiceRequirements) (*api.ResourceRequirements, error) {
	if r == nil {
		return nil, nil
	}
	limits, err := toResources(taskField+"Resources.Limits", r.Limits)
	if err != nil {
		return nil, err
	}
	reservations, err := toResources(taskField+"Resources.Reservations", r.Reservations)
	if err != nil {
		return nil, err
	}
	return &api.ResourceRequirements{Limits: limits, Reservations: reservations}, nil
}

func toResources(field string, r *types.ServiceResource) (*api.Resources, error) {
	switch {
	case r == nil:
		return nil, nil
	case r.NanoCPUs != 0 && r.NanoCPUs < minNanoCPUs:
		return nil, refuseField(field+".NanoCPUs", "%d is less than %d, which are 0.001 processors", r.NanoCPUs, int64(minNanoCPUs))
	case r.MemoryBytes != 0 && r.MemoryBytes < minMemory:
		return nil, refuseField(field+".MemoryBytes", "%d is less than %d, which are 4 MiB", r.MemoryBytes, minMemory)
	}
	return &api.Resources{NanoCPUs: r.NanoCPUs, MemoryBytes: r.MemoryBytes}, nil
}

func toRestart(p *types.ServiceRestart) (*api.RestartPolicy, error) {
	if p == nil {
		return nil, nil
	}
	const field = taskField + "RestartPolicy."
	condition, err := toOption(field+"Condition", p.Condition, restartConditions)
	if err != nil {
		return nil, err
	}
	policy := &api.RestartPolicy{Condition: condition}
	if policy.Delay, err = toDuration(field+"Delay", p.Delay); err != nil {
		return nil, err
	}
	if policy.Window, err = toDuration(field+"Window", p.Window); err != nil {
		return nil, err
	}
	if p.MaxAttempts != nil {
		policy.MaxAttempts = *p.MaxAttempts
	}
	return policy, nil
}

func toPlacement(p *types.Placement) (*api.Placement, error) {
	if p == nil {
		return nil, nil
	}
	for i, text := range p.Constraints {
		if _, err := constraint.Parse([]string{text}); err != nil {
			return nil, refuseField(indexField(taskField+"Placement.Constraints", i), "%q: %v", text, err)
		}
	}
	return &api.Placement{Constraints: p.Constraints}, nil
}

// toLogDriver checks the driver as each node does that makes the container.
func toLogDriver(field string, d *types.LogDriver) (*api.Driver, error) {
	if d == nil {
		return nil, nil
	}
	if _, err := logdriver.Find(d.Name); err != nil {
		return nil, refuseField(field+".Name", "%v", err)
	}
	if err := container.CheckLogConfig(container.LogConfig{Type: d.Name, Config: d.Options}); err != nil {
		return nil, refuseField(field+".Options", "%v", err)
	}
	return &api.Driver{Name: d.Name, Options: d.Options}, nil
}

// NewTask returns a task as clients see it.
func NewTask(t *api.Task) *types.Task {
	return &types.Task{
		ID: t.ID, ObjectMeta: newMeta(&t.Meta), Annotations: newAnnotations(&t.Annotations), Spec: newTaskSpec(&t.Spec),
		ServiceID: t.ServiceID, Slot: int(t.Slot),
		NodeID: t.NodeID, Status: newTaskStatus(&t.Status), DesiredState: newTaskState(t.DesiredState),
		NetworksAttachments: convertList(t.Networks, func(a **api.NetworkAttachment) types.NetworkAttachment {
			return newAttachment(*a)
		}),
	}
}

func newTaskStatus(s *api.TaskStatus) types.TaskStatus {
	status := types.TaskStatus{
		Timestamp: newTime(s.Timestamp), State: newTaskState(s.State), Message: s.Message, Err: s.Err,
	}
	if ctr := s.GetContainer(); ctr != nil {
		status.ContainerStatus = &types.TaskContainerStatus{
			ContainerID: ctr.ContainerID, PID: int(ctr.PID), ExitCode: int(ctr.ExitCode),
		}
	}
	return status
}

func newTaskState(s api.TaskState) string { return strings.ToLower(s.String()) }

// ToTaskState reads the state of a task in any case.
func ToTaskState(text string) (state api.TaskState, ok bool) {
	number, ok := api.TaskState_value[strings.ToUpper(text)]
	return api.TaskState(number), ok
}

func newTaskSpec(s *api.TaskSpec) types.TaskSpec {
	spec := types.TaskSpec{
		Resources: newRequirements(s.Resources), RestartPolicy: newRestart(s.Restart), Networks: newNetworks(s.Networks),
		LogDriver: newLogDriver(s.LogDriver), ForceUpdate: s.ForceUpdate,
	}
	if ctr := s.GetContainer(); ctr != nil {
		spec.ContainerSpec = NewContainerSpec(ctr)
	}
	if s.Placement != nil {
		spec.Placement = &types.Placement{Constraints: s.Placement.Constraints}
	}
	return spec
}

func newRequirements(r *api.ResourceRequirements) *types.ServiceRequirements {
	if r == nil {
		return nil
	}
	return &types.ServiceRequirements{Limits: newResources(r.Limits), Reservations: newResources(r.Reservations)}
}

func newResources(r *api.Resources) *types.ServiceResource {
	if r == nil {
		return nil
	}
	return &types.ServiceResource{NanoCPUs: r.NanoCPUs, MemoryBytes: r.MemoryBytes}
}

func newRestart(p *api.RestartPolicy) *types.ServiceRestart {
	if p == nil {
		return nil
	}
	attempts := p.MaxAttempts
	return &types.ServiceRestart{
		Condition: newOption(p.Condition, restartConditions), Delay: newDuration(p.Delay),
		MaxAttempts: &attempts, Window: newDuration(p.Window),
	}
}

func newLogDriver(d *api.Driver) *types.LogDriver {
	if d == nil {
		return nil
	}
	return &types.LogDriver{Name: d.Name, Options: d.Options}
}
