package object

import (
	"math"
	"regexp"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
)

const (
	// maxName is how many characters the name of a service may have: it is part of the names of its containers.
	maxName = 63
	// maxReplicas bounds the tasks of a service: a manager holds a record of each in memory.
	maxReplicas = 100_000
)

// namePattern is what SwarmKit takes as the name of a service.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9](?:[-_]*[A-Za-z0-9]+)*$`)

var failureActions = []option[api.UpdateConfig_FailureAction]{ //nolint:gochecknoglobals // a constant
	{"pause", api.UpdateConfig_PAUSE},
	{"continue", api.UpdateConfig_CONTINUE},
}

// updateStates are the states of an update. Those of a return to an earlier specification are shown as what they are for a
// client that does not know it: an update.
var updateStates = []option[api.UpdateStatus_UpdateState]{ //nolint:gochecknoglobals // a constant
	{"updating", api.UpdateStatus_UPDATING},
	{"paused", api.UpdateStatus_PAUSED},
	{"completed", api.UpdateStatus_COMPLETED},
	{"updating", api.UpdateStatus_ROLLBACK_STARTED},
	{"paused", api.UpdateStatus_ROLLBACK_PAUSED},
	{"completed", api.UpdateStatus_ROLLBACK_COMPLETED},
}

// ToServiceSpec returns what a service is made or changed with. Errors are fault.Invalid and name the field.
func ToServiceSpec(s *types.ServiceSpec) (*api.ServiceSpec, error) {
	if len(s.Name) > maxName {
		return nil, refuseField("Name", "it has %d characters: name must be %d characters or fewer", len(s.Name), maxName)
	}
	if !namePattern.MatchString(s.Name) {
		return nil, refuseField("Name", "%q: name must be valid as a DNS name component", s.Name)
	}
	if err := checkKeys(s.Labels); err != nil {
		return nil, refuseField("Labels", "%v", err)
	}
	task, err := toTaskSpec(&s.TaskTemplate)
	if err != nil {
		return nil, err
	}
	spec := &api.ServiceSpec{Annotations: api.Annotations{Name: s.Name, Labels: s.Labels}, Task: *task}
	if err := setMode(spec, &s.Mode); err != nil {
		return nil, err
	}
	if spec.Update, err = toUpdate(s.UpdateConfig); err != nil {
		return nil, err
	}
	if spec.Networks, err = toNetworks("Networks", s.Networks); err != nil {
		return nil, err
	}
	if spec.Endpoint, err = toEndpoint(s.EndpointSpec); err != nil {
		return nil, err
	}
	return spec, nil
}

func setMode(spec *api.ServiceSpec, m *types.ServiceMode) error {
	if m.Replicated != nil && m.Global != nil {
		return refuseField("Mode", "a service is either Replicated or Global")
	}
	if m.Global != nil {
		spec.Mode = &api.ServiceSpec_Global{Global: &api.GlobalService{}}
		return nil
	}
	replicas := uint64(1)
	if m.Replicated != nil && m.Replicated.Replicas != nil {
		replicas = *m.Replicated.Replicas
	}
	if replicas > maxReplicas {
		return refuseField("Mode.Replicated.Replicas", "%d is more than %d", replicas, maxReplicas)
	}
	spec.Mode = &api.ServiceSpec_Replicated{Replicated: &api.ReplicatedService{Replicas: replicas}}
	return nil
}

func toUpdate(c *types.UpdateConfig) (*api.UpdateConfig, error) {
	if c == nil {
		return nil, nil
	}
	if c.Parallelism > math.MaxInt64 {
		return nil, refuseField("UpdateConfig.Parallelism", "%d cannot be negative", int64(c.Parallelism))
	}
	if c.Delay < 0 {
		return nil, refuseField("UpdateConfig.Delay", "%s cannot be negative", c.Delay)
	}
	action, err := toOption("UpdateConfig.FailureAction", c.FailureAction, failureActions)
	if err != nil {
		return nil, err
	}
	return &api.UpdateConfig{Parallelism: c.Parallelism, Delay: c.Delay, FailureAction: action}, nil
}

// NewService returns a service as clients see it.
func NewService(s *api.Service) *types.Service {
	return &types.Service{
		ID: s.ID, ObjectMeta: newMeta(&s.Meta), Spec: newServiceSpec(&s.Spec),
		Endpoint: newEndpoint(s), UpdateStatus: newUpdateStatus(s.UpdateStatus),
	}
}

func newServiceSpec(s *api.ServiceSpec) types.ServiceSpec {
	spec := types.ServiceSpec{
		Annotations: newAnnotations(&s.Annotations), TaskTemplate: newTaskSpec(&s.Task), UpdateConfig: newUpdate(s.Update),
		Networks:     newNetworks(s.Networks),
		EndpointSpec: newEndpointSpec(s.Endpoint),
	}
	if replicated := s.GetReplicated(); replicated != nil {
		spec.Mode.Replicated = &types.ReplicatedMode{Replicas: &replicated.Replicas}
	}
	if s.GetGlobal() != nil {
		spec.Mode.Global = &struct{}{}
	}
	return spec
}

func newUpdate(c *api.UpdateConfig) *types.UpdateConfig {
	if c == nil {
		return nil
	}
	return &types.UpdateConfig{
		Parallelism: c.Parallelism, Delay: c.Delay, FailureAction: newOption(c.FailureAction, failureActions),
	}
}

func newUpdateStatus(s *api.UpdateStatus) *types.UpdateStatus {
	if s == nil {
		return nil
	}
	return &types.UpdateStatus{
		State: newOption(s.State, updateStates), Message: s.Message,
		StartedAt: newTime(s.StartedAt), CompletedAt: newTime(s.CompletedAt),
	}
}
