package types

import (
	"encoding/json"
	"reflect"
	"time"
)

// Service is a service (document 1, 2.10).
type Service struct {
	ID string
	ObjectMeta
	Spec         ServiceSpec
	Endpoint     ServiceEndpoint
	UpdateStatus *UpdateStatus `json:",omitempty"` // of the last update; nil: there was none
}

// ServiceCreated is the answer to services/create.
type ServiceCreated struct {
	ID string
}

// ServiceUpdated is the answer to services/{id}/update. The document has an empty one, of which clients of later versions make an
// error.
type ServiceUpdated struct {
	Warnings []string `json:",omitempty"`
}

// ServiceSpec is the body of services/create and services/{id}/update (document 1, 2.10).
type ServiceSpec struct {
	Annotations
	TaskTemplate TaskSpec         `json:",omitzero"`
	Mode         ServiceMode      `json:",omitzero"`
	UpdateConfig *UpdateConfig    `json:",omitempty"`
	Networks     []ServiceNetwork `json:",omitempty"`
	EndpointSpec *EndpointSpec    `json:",omitempty"`
}

// ServiceMode is one of two: so many tasks, or one on each node. Neither: one task.
type ServiceMode struct {
	Replicated *ReplicatedMode `json:",omitempty"`
	Global     *struct{}       `json:",omitempty"`
}

// ReplicatedMode is a number of tasks.
type ReplicatedMode struct {
	Replicas *uint64 `json:",omitempty"` // nil: 1
}

// UpdateConfig says how tasks are replaced after a change.
type UpdateConfig struct {
	Parallelism   uint64        // tasks at once; 0: all
	Delay         time.Duration `json:",omitempty"` // nanoseconds between them
	FailureAction string        `json:",omitempty"` // pause or continue; empty: pause
}

// UpdateStatus is how an update goes.
type UpdateStatus struct {
	State       string    `json:",omitempty"` // updating, paused or completed
	StartedAt   time.Time `json:",omitzero"`
	CompletedAt time.Time `json:",omitzero"`
	Message     string    `json:",omitempty"`
}

// ServiceNetwork is a network that a service's tasks are in. Clients may also write its name or id as a string.
type ServiceNetwork struct {
	Target  string   `json:",omitempty"`
	Aliases []string `json:",omitempty"`
}

// UnmarshalJSON takes an object or a string.
func (n *ServiceNetwork) UnmarshalJSON(raw []byte) error {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		*n = ServiceNetwork{Target: name}
		return nil
	}
	type plain ServiceNetwork
	if err := json.Unmarshal(raw, (*plain)(n)); err != nil {
		return &json.UnmarshalTypeError{Value: nameKind(raw), Type: reflect.TypeFor[ServiceNetwork]()}
	}
	return nil
}

// EndpointSpec says how a service is reached.
type EndpointSpec struct {
	Mode  string        `json:",omitempty"` // vip or dnsrr; empty: vip
	Ports []ServicePort `json:",omitempty"` // with vip only
}

// ServicePort is a port of the nodes that leads to a port of the tasks.
type ServicePort struct {
	Name          string `json:",omitempty"`
	Protocol      string `json:",omitempty"` // tcp or udp; empty: tcp
	TargetPort    uint32 `json:",omitempty"`
	PublishedPort uint32 `json:",omitempty"` // 0: chosen
	PublishMode   string `json:",omitempty"` // ingress; of 1.32, and read by clients of 1.24
}

// ServiceEndpoint is how a service is reached at present.
type ServiceEndpoint struct {
	Spec       EndpointSpec
	Ports      []ServicePort      `json:",omitempty"`
	VirtualIPs []ServiceVirtualIP `json:",omitempty"`
}

// ServiceVirtualIP is an address of a service in one of its networks.
type ServiceVirtualIP struct {
	NetworkID string `json:",omitempty"`
	Addr      string `json:",omitempty"` // with the length of its prefix
}
