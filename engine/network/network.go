// Package network holds what the engine means by a network: its record, the rules for making and removing one, and what
// is asked of whatever builds it.
package network

import (
	"net/netip"
	"time"
)

// The networks that every host has (API document 1, 2.9), and the mode of a container that uses another's network.
const (
	Bridge    = "bridge"
	Host      = "host"
	None      = "none"
	Container = "container"
)

// Ingress is the network of a swarm that leads published ports to tasks. Every swarm has it.
const Ingress = "ingress"

// The drivers there are. Those of the built-in networks host and none make nothing; a client may ask for bridge only. Networks
// of the driver overlay are a swarm's: they come from its managers.
const (
	DriverBridge  = "bridge"
	DriverHost    = "host"
	DriverNull    = "null"
	DriverOverlay = "overlay"
)

// How far a network reaches: over one engine, or over the nodes of a swarm.
const (
	ScopeLocal = "local"
	ScopeSwarm = "swarm"
)

// The options of a network of the driver bridge that clients know (API document 2, 4.5: Options).
const (
	OptionName      = "com.docker.network.bridge.name"                 // of the device
	OptionMTU       = "com.docker.network.driver.mtu"                  // bytes
	OptionICC       = "com.docker.network.bridge.enable_icc"           // false: its containers do not reach each other
	OptionMasq      = "com.docker.network.bridge.enable_ip_masquerade" // false: no address is translated on the way out
	OptionHostIPv4  = "com.docker.network.bridge.host_binding_ipv4"    // where published ports listen by default
	OptionDefault   = "com.docker.network.bridge.default_bridge"       // shown of the built-in bridge; of no effect
	OptionPrefix    = "com.docker.network.container_iface_prefix"      // of the devices inside containers, for example eth
	OptionNamespace = "com.docker.network."                            // what begins all of them
)

// Network is one network. One that has been handed out is never changed.
type Network struct {
	ID         string // 64 hexadecimal digits; that of a swarm's network: 25 digits and lower-case letters
	Name       string
	Driver     string // null of one that only holds settings
	Created    time.Time
	Internal   bool // no way out, and no names from outside
	Attachable bool `json:",omitempty"` // as the client asked
	EnableIPv6 bool
	IPAM       IPAM
	Options    map[string]string // as the client gave them
	Labels     map[string]string
	Device     string   // of the bridge, in the containers' own network namespace; empty with other drivers
	Overlay    *Overlay `json:",omitempty"` // of a network of the driver overlay; nil: of another one

	ConfigOnly bool   `json:",omitempty"` // it holds the settings of others; nothing can be in it
	ConfigFrom string `json:",omitempty"` // the name of such a one, of which it took its settings when it was made
}

// Overlay is what a network of a swarm has beside the rest, on one node.
type Overlay struct {
	Tunnel  string     // the device that leads to the other nodes, in the containers' own network namespace
	MTU     int        // of that, in bytes
	Ingress bool       // it leads published ports to tasks: its containers do not reach each other
	Own     netip.Addr // this node's own address in the network; invalid: it needs none
}

// IPAM says which addresses a network has.
type IPAM struct {
	Driver  string // default, or null for networks without addresses
	Options map[string]string
	Pools   []Pool // at most one of IPv4 and one of IPv6
}

// Pool is one subnet.
type Pool struct {
	Subnet  netip.Prefix          // invalid in a request: the engine chooses one
	Range   netip.Prefix          // what containers get when they ask for no address; invalid: all of the subnet
	Gateway netip.Addr            // invalid in a request: the first address of the subnet
	Aux     map[string]netip.Addr // by the name of a device: addresses that nobody gets
}

// Builtin reports whether a network of this name is there on every host.
func Builtin(name string) bool { return name == Bridge || name == Host || name == None }

// Builtin reports whether the network is there on every host.
func (n *Network) Builtin() bool { return Builtin(n.Name) }

// Scope returns how far the network reaches.
func (n *Network) Scope() string {
	if n.Driver == DriverOverlay {
		return ScopeSwarm
	}
	return ScopeLocal
}

// Pool returns the network's pool of IPv4 (v6 false) or IPv6; ok is false if it has none.
func (n *Network) Pool(v6 bool) (Pool, bool) {
	for _, p := range n.IPAM.Pools {
		if p.Subnet.IsValid() && p.Subnet.Addr().Is6() == v6 {
			return p, true
		}
	}
	return Pool{}, false
}
