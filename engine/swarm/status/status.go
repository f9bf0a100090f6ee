// Package status is what moss-swarm tells the engine of the node, and the paths below which it does, beside the endpoints of the
// swarm. It knows how neither of them works.
package status

// The paths of moss-swarm's socket that are the engine's.
const (
	NodePath  = "/moss/node"  // GET: a Node as JSON
	WatchPath = "/moss/watch" // GET: an answer without an end; moss-swarm ends only while nobody reads one, unless it is told to
	EndPath   = "/moss/end"   // POST: moss-swarm ends and keeps the node's place in its swarm
)

// ViewPath is a path of the engine's private socket that is moss-swarm's. PUT: a table.Hosted, which the engine makes true
// before it answers with table.Problems.
const ViewPath = "/moss/swarm/view"

// The states of a node.
const (
	Inactive = "inactive" // in no swarm
	Pending  = "pending"  // on its way in, or back
	Active   = "active"
	Failed   = "error"
	Locked   = "locked" // waits for its key
)

// Node is this node's part in a swarm.
type Node struct {
	ID               string
	Addr             string // without a port
	State            string // one of the constants
	Error            string
	ControlAvailable bool // this node is a manager that answers
	Managers         []Manager
	Cluster          *Cluster // of a manager whose swarm has a leader
}

// Manager is a manager of the swarm.
type Manager struct {
	NodeID string
	Addr   string // with the port
}

// Cluster counts the nodes of a swarm.
type Cluster struct {
	ID              string
	Nodes, Managers int
}
