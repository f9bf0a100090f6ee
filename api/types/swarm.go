package types

import "time"

// ObjectVersion counts the changes of an object of the swarm. A change names the version that it is made from.
type ObjectVersion struct {
	Index uint64
}

// ObjectMeta is what all objects of the swarm have.
type ObjectMeta struct {
	Version   ObjectVersion
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Annotations are the name and the labels of an object of the swarm.
type Annotations struct {
	Name   string            `json:",omitempty"`
	Labels map[string]string `json:",omitzero"`
}

// SwarmInit is the body of swarm/init. The answer is the node's id as a JSON string. DataPathAddr, AutoLockManagers and
// Availability are of later versions and read at every one.
type SwarmInit struct {
	ListenAddr       string // "address:port" or an interface's name; empty: 0.0.0.0:2377
	AdvertiseAddr    string // what other nodes dial; empty: chosen
	DataPathAddr     string `json:",omitempty"`
	ForceNewCluster  bool
	AutoLockManagers bool   `json:",omitempty"`
	Availability     string `json:",omitempty"` // active, pause or drain; empty: active
	Spec             SwarmSpec
}

// SwarmJoin is the body of swarm/join.
type SwarmJoin struct {
	ListenAddr    string
	AdvertiseAddr string
	DataPathAddr  string `json:",omitempty"`
	RemoteAddrs   []string
	JoinToken     string // a secret
	Availability  string `json:",omitempty"`
}

// SwarmUnlock is the body of swarm/unlock.
type SwarmUnlock struct {
	UnlockKey string // a secret
}

// SwarmUnlockKey is the answer to swarm/unlockkey. The key is empty if managers are not locked.
type SwarmUnlockKey struct {
	UnlockKey string
}

// Swarm is the swarm as a manager sees it (document 1, 2.10).
type Swarm struct {
	ID string
	ObjectMeta
	Spec       SwarmSpec
	JoinTokens SwarmTokens
}

// SwarmTokens let other nodes join. They are secrets.
type SwarmTokens struct {
	Worker  string
	Manager string
}

// SwarmSpec is what a user sets for a swarm. A nil part of a request leaves the part as it is; at swarm/init it is the default.
type SwarmSpec struct {
	Annotations
	Orchestration    SwarmOrchestration `json:",omitzero"`
	Raft             SwarmRaft          `json:",omitzero"`
	Dispatcher       SwarmDispatcher    `json:",omitzero"`
	CAConfig         SwarmCA            `json:",omitzero"`
	TaskDefaults     SwarmTaskDefaults  `json:",omitzero"`
	EncryptionConfig SwarmEncryption    `json:",omitzero"` // of 1.25, read and shown at every version
}

// SwarmOrchestration bounds the history of tasks.
type SwarmOrchestration struct {
	TaskHistoryRetentionLimit *int64 `json:",omitempty"` // of a slot; nil: 5
}

// SwarmRaft are the settings of the managers' log.
type SwarmRaft struct {
	SnapshotInterval           uint64  `json:",omitempty"` // entries
	KeepOldSnapshots           *uint64 `json:",omitempty"`
	LogEntriesForSlowFollowers uint64  `json:",omitempty"`
	HeartbeatTick              int     // seconds
	ElectionTick               int     // seconds
}

// SwarmDispatcher is how often nodes report.
type SwarmDispatcher struct {
	HeartbeatPeriod time.Duration `json:",omitempty"` // nanoseconds
}

// SwarmCA are the settings of the swarm's certificates.
type SwarmCA struct {
	NodeCertExpiry time.Duration     `json:",omitempty"` // nanoseconds
	ExternalCAs    []SwarmExternalCA `json:",omitempty"`
}

// SwarmExternalCA signs certificates in place of the managers.
type SwarmExternalCA struct {
	Protocol string // cfssl
	URL      string
	Options  map[string]string `json:",omitempty"`
}

// SwarmTaskDefaults are for services that say nothing of their own.
type SwarmTaskDefaults struct {
	LogDriver *LogDriver `json:",omitempty"`
}

// SwarmEncryption says whether a restarted manager waits for swarm/unlock.
type SwarmEncryption struct {
	AutoLockManagers bool
}

// LogDriver is the log driver of a service's containers.
type LogDriver struct {
	Name    string            `json:",omitempty"`
	Options map[string]string `json:",omitempty"`
}

// Node is a machine of the swarm.
type Node struct {
	ID string
	ObjectMeta
	Spec          NodeSpec
	Description   NodeDescription
	Status        NodeStatus
	ManagerStatus *NodeManagerStatus `json:",omitempty"` // of managers
}

// NodeSpec is what a user sets for a node, and the body of nodes/{id}/update.
type NodeSpec struct {
	Annotations
	Role         string `json:",omitempty"` // worker or manager
	Availability string `json:",omitempty"` // active, pause or drain
}

// NodeDescription is what a node says of itself.
type NodeDescription struct {
	Hostname  string          `json:",omitempty"`
	Platform  NodePlatform    `json:",omitzero"`
	Resources ServiceResource `json:",omitzero"`
	Engine    NodeEngine      `json:",omitzero"`
}

// NodePlatform is the machine's architecture and system.
type NodePlatform struct {
	Architecture string `json:",omitempty"`
	OS           string `json:",omitempty"`
}

// NodeEngine is the engine of a node.
type NodeEngine struct {
	EngineVersion string            `json:",omitempty"`
	Labels        map[string]string `json:",omitempty"`
	Plugins       []NodePlugin      `json:",omitempty"`
}

// NodePlugin is something that the engine has built in: Log, Network or Volume.
type NodePlugin struct {
	Type string `json:",omitempty"`
	Name string `json:",omitempty"`
}

// NodeStatus is what managers know of a node.
type NodeStatus struct {
	State   string `json:",omitempty"` // unknown, down, ready or disconnected
	Message string `json:",omitempty"`
	Addr    string `json:",omitempty"` // of 1.25, shown at every version
}

// NodeManagerStatus is what managers know of a manager.
type NodeManagerStatus struct {
	Leader       bool   `json:",omitempty"`
	Reachability string `json:",omitempty"` // unknown, unreachable or reachable
	Addr         string `json:",omitempty"`
}
