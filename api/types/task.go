package types

import (
	"cmp"
	"encoding/json"
	"time"
)

// Task is one container of a service, from its planning to its end (document 1, 2.10).
type Task struct {
	ID string
	ObjectMeta
	Annotations
	Spec                TaskSpec
	ServiceID           string `json:",omitempty"`
	Slot                int    `json:",omitempty"` // of replicated services, from 1
	NodeID              string `json:",omitempty"`
	Status              TaskStatus
	DesiredState        string              `json:",omitempty"`
	NetworksAttachments []NetworkAttachment `json:",omitempty"`
}

// TaskSpec says what a task runs and where (document 1, 2.10, TaskTemplate). ForceUpdate is of 1.25 and read and shown at every
// version: a change of the number replaces all tasks.
type TaskSpec struct {
	ContainerSpec ContainerSpec        `json:",omitzero"`
	Resources     *ServiceRequirements `json:",omitempty"`
	RestartPolicy *ServiceRestart      `json:",omitempty"`
	Placement     *Placement           `json:",omitempty"`
	Networks      []ServiceNetwork     `json:",omitempty"`
	LogDriver     *LogDriver           `json:",omitempty"` // nil: the swarm's default, otherwise the node's
	ForceUpdate   uint64               `json:",omitempty"`
}

// ContainerSpec says what a task's container runs. Healthcheck, Hostname, Groups, StopSignal, TTY, OpenStdin, ReadOnly, Hosts and
// DNSConfig are of later versions and read and shown at every one.
type ContainerSpec struct {
	Image           string            `json:",omitempty"`
	Labels          map[string]string `json:",omitempty"`
	Command         []string          `json:",omitempty"` // replaces the image's entry point
	Args            []string          `json:",omitempty"` // replaces the image's command
	Hostname        string            `json:",omitempty"`
	Env             []string          `json:",omitempty"`
	Dir             string            `json:",omitempty"`
	User            string            `json:",omitempty"`
	Groups          []string          `json:",omitempty"`
	StopSignal      string            `json:",omitempty"`
	TTY             bool              `json:",omitempty"`
	OpenStdin       bool              `json:",omitempty"`
	ReadOnly        bool              `json:",omitempty"`
	Mounts          []MountConfig     `json:",omitempty"`
	StopGracePeriod *time.Duration    `json:",omitempty"` // nanoseconds; nil: 10 s
	Healthcheck     *Healthcheck      `json:",omitempty"`
	Hosts           []string          `json:",omitempty"` // lines of /etc/hosts: "address name..."
	DNSConfig       *ServiceDNS       `json:",omitempty"`
}

// ServiceDNS are the resolver's settings of a task's container.
type ServiceDNS struct {
	Nameservers []string `json:",omitempty"`
	Search      []string `json:",omitempty"`
	Options     []string `json:",omitempty"`
}

// ServiceRequirements bound a task's container, and reserve a part of its node for it.
type ServiceRequirements struct {
	Limits       *ServiceResource `json:",omitempty"`
	Reservations *ServiceResource `json:",omitempty"`
}

// ServiceResource is an amount of processor time and memory. Clients may also call them CPU and Memory, as the description of
// a service's update does (document 1, 2.10).
type ServiceResource struct {
	NanoCPUs    int64 `json:",omitempty"` // 1e-9 of a processor
	MemoryBytes int64 `json:",omitempty"`
}

// UnmarshalJSON takes either name. Where both have a value, that of NanoCPUs and MemoryBytes counts.
func (r *ServiceResource) UnmarshalJSON(raw []byte) error {
	var read struct{ NanoCPUs, CPU, MemoryBytes, Memory int64 }
	if err := json.Unmarshal(raw, &read); err != nil {
		return err
	}
	*r = ServiceResource{NanoCPUs: cmp.Or(read.NanoCPUs, read.CPU), MemoryBytes: cmp.Or(read.MemoryBytes, read.Memory)}
	return nil
}

// ServiceRestart says when a task that ended is replaced.
type ServiceRestart struct {
	Condition   string         `json:",omitempty"` // none, on-failure or any; empty: any
	Delay       *time.Duration `json:",omitempty"` // nanoseconds; nil: 5 s
	MaxAttempts *uint64        `json:",omitempty"` // within Window; 0 or nil: no bound
	Window      *time.Duration `json:",omitempty"` // nanoseconds; 0 or nil: no bound
}

// Placement says which nodes may run a task.
type Placement struct {
	Constraints []string `json:",omitempty"` // such as node.role==manager
}

// TaskStatus is what a node reports of a task.
type TaskStatus struct {
	Timestamp time.Time `json:",omitzero"`
	// State is new, allocated, pending, assigned, accepted, preparing, ready, starting, running, complete, shutdown, failed or
	// rejected.
	State           string               `json:",omitempty"`
	Message         string               `json:",omitempty"`
	Err             string               `json:",omitempty"`
	ContainerStatus *TaskContainerStatus `json:",omitempty"` // of a task that has a container
}

// TaskContainerStatus is what a node reports of a task's container.
type TaskContainerStatus struct {
	ContainerID string `json:",omitempty"`
	PID         int    `json:",omitempty"`
	ExitCode    int    `json:",omitempty"`
}

// NetworkAttachment is a task's place in a network.
type NetworkAttachment struct {
	Network   SwarmNetwork `json:",omitzero"`
	Addresses []string     `json:",omitempty"` // with the length of their prefixes
}

// SwarmNetwork is a network of the swarm as tasks show it.
type SwarmNetwork struct {
	ID string
	ObjectMeta
	Spec        SwarmNetworkSpec     `json:",omitzero"`
	DriverState SwarmNetworkDriver   `json:",omitzero"`
	IPAMOptions *SwarmNetworkIPAMSet `json:",omitempty"`
}

// SwarmNetworkSpec is what a network of the swarm was made with.
type SwarmNetworkSpec struct {
	Annotations
	DriverConfiguration *SwarmNetworkDriver  `json:",omitempty"`
	IPv6Enabled         bool                 `json:",omitempty"`
	Internal            bool                 `json:",omitempty"`
	IPAMOptions         *SwarmNetworkIPAMSet `json:",omitempty"`
}

// SwarmNetworkDriver is a driver with its options.
type SwarmNetworkDriver struct {
	Name    string            `json:",omitempty"`
	Options map[string]string `json:",omitempty"`
}

// SwarmNetworkIPAMSet are the addresses of a network of the swarm.
type SwarmNetworkIPAMSet struct {
	Driver  SwarmNetworkDriver `json:",omitzero"`
	Configs []SwarmNetworkPool `json:",omitempty"`
}

// SwarmNetworkPool is one subnet of a network of the swarm.
type SwarmNetworkPool struct {
	Subnet  string `json:",omitempty"`
	Range   string `json:",omitempty"`
	Gateway string `json:",omitempty"`
}
