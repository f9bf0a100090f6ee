// Package network holds what the engine means by a network, and what it asks of whatever builds one.
package network

// Driver names of the built-in networks (API document 1, 2.9), and the mode of a container that uses another's network.
const (
	Bridge    = "bridge"
	Host      = "host"
	None      = "none"
	Container = "container"
)

// Request asks for a container's network.
type Request struct {
	ContainerID string
	Mode        string // Bridge, Host or None; container.Spec has resolved "" and "default"
	MacAddress  string // empty: derived from the address
	Ports       []PortRequest
}

// PortRequest asks for one published port. HostLow 0 takes an ephemeral port; a range takes the first free one.
type PortRequest struct {
	Proto         string // tcp, udp or sctp
	ContainerPort uint16
	HostIP        string // empty: all addresses
	HostLow       uint16
	HostHigh      uint16
}

// Sandbox is a network that is ready for a container.
type Sandbox struct {
	ID        string
	Mode      string
	Path      string // of the network namespace to enter; empty with Host and None (None: the runtime makes an empty one)
	Endpoints map[string]Endpoint
	Ports     []Port
	DNS       []string // name servers a container reaches
	Search    []string
	Options   []string
}

// Endpoint is a place in one network.
type Endpoint struct {
	NetworkID   string
	EndpointID  string
	Gateway     string
	IPAddress   string
	IPPrefixLen int
	MacAddress  string
}

// Port is a published port in use.
type Port struct {
	Proto         string
	ContainerPort uint16
	HostIP        string
	HostPort      uint16
}
