package table

// Hosted is what the engine of a node makes true for its swarm.
type Hosted struct {
	Node   string `json:"node"`   // this node's id
	Tunnel string `json:"tunnel"` // the device of the tunnel in the containers' namespace
	MTU    int    `json:"mtu"`    // of the tunnel, in bytes
	Table  *Table `json:"table"`  // this node's view; one without networks: the node has left
}

// Problems is the engine's answer to Hosted.
type Problems struct {
	Problems []string          `json:"problems,omitempty"` // what could not be made true, a sentence each
	Refused  map[string]string `json:"refused,omitempty"`  // why this node cannot have a network, by the network's id
}
