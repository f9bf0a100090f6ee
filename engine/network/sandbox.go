package network

import "net/netip"

// Request asks for a container's network.
type Request struct {
	ContainerID string
	Mode        string // Host: the host's; None: a namespace without a network; Bridge: its own, in the networks of Attach
	Attach      []Attachment
	Ports       []PortRequest
	DNS         []netip.Addr // name servers that the client asked for; empty: what the host resolves with
}

// Attachment asks for a place in one network of the driver bridge.
type Attachment struct {
	Network    *Network
	Name       string            // under which the container's record has it: the network's name
	MacAddress string            // empty: derived from the address
	GwPriority int               // the highest has the default route; among equals the first
	Device     string            // the interface's name in the container; empty: the next one that is free
	Sysctls    []Sysctl          // of the interface
	IPv4       netip.Addr        // invalid: one is chosen; always so in the default network
	IPv6       netip.Addr        // likewise
	LinkLocal  []netip.Addr      // more addresses of the device, without a subnet
	Names      []string          // by which the others in this network find it: name, short id, aliases; none in the default network
	Links      map[string]string // names that it alone has for others in this network: alias to container id
}

// Sysctl is a kernel parameter of an interface: net.Family.Kind.INTERFACE.Name.
type Sysctl struct{ Family, Kind, Name, Value string }

// PortRequest asks for one published port. HostLow 0 takes an ephemeral port; a range takes the first free one.
type PortRequest struct {
	Proto         string // tcp, udp or sctp
	ContainerPort uint16
	HostIP        string // empty: all addresses, or those that the network's option says
	HostLow       uint16
	HostHigh      uint16
}

// Sandbox is a network that is ready for a container, whose record has it. With None the runtime makes an empty namespace.
type Sandbox struct {
	ID        string `json:"SandboxID"`
	Path      string `json:"SandboxKey"` // of the network namespace to enter; empty with Host and None
	Mode      string
	Endpoints map[string]Endpoint // by Attachment.Name
	Primary   string              // the endpoint of the default route and the published ports; empty: there is none
	Ports     []Port
	DNS       []string   // name servers for its resolv.conf; with Host and None none
	Search    []string   // what the host's resolv.conf says
	Options   []string   // for its resolv.conf
	Host      netip.Addr // by which it reaches the host; invalid: it does not
}

// Endpoint is a place in one network.
type Endpoint struct {
	NetworkID           string
	EndpointID          string
	Device              string // inside the container
	Gateway             string
	IPAddress           string
	IPPrefixLen         int
	IPv6Gateway         string
	GlobalIPv6Address   string
	GlobalIPv6PrefixLen int
	MacAddress          string
}

// Port is a published port in use.
type Port struct {
	Proto         string // tcp, udp or sctp
	ContainerPort uint16
	HostIP        string
	HostPort      uint16
}

// Joined is a container that runs, as its record has it: for whoever builds networks to take up again what an earlier
// engine has made.
type Joined struct {
	Request Request
	Sandbox Sandbox
}
