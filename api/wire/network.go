package wire

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/network"
)

// Network is one network (document 1, 2.9). Created is an addition of later versions that is there at every one.
// Internal is shown from the version on that reads it, which clients of 1.22 and 1.23 need to know their own network again.
type Network struct {
	Name       string
	ID         string `json:"Id"`
	Created    time.Time
	Scope      string
	Driver     string
	EnableIPv6 bool `api:"1.24-"`
	IPAM       NetworkIPAM
	Internal   bool `api:"1.22-"`
	Containers map[string]NetworkContainer
	Options    map[string]string
	Labels     map[string]string `api:"1.24-"`
}

// NetworkIPAM says which addresses a network has, or shall have.
type NetworkIPAM struct {
	Driver  string
	Options map[string]string `api:"1.22-"`
	Config  []NetworkPool
}

// NetworkPool is one subnet. The documents call its last field AuxAddress and clients AuxiliaryAddresses: both are read and
// shown.
type NetworkPool struct {
	Subnet             string       `json:",omitempty"`
	IPRange            string       `json:",omitempty"`
	Gateway            string       `json:",omitempty"`
	AuxAddress         AuxAddresses `json:",omitempty"`
	AuxiliaryAddresses AuxAddresses `json:",omitempty"`
}

// AuxAddresses are addresses that no container gets, by the name of a device.
type AuxAddresses map[string]string

// UnmarshalJSON takes an object, and one address in the form of the documents: "device:address".
func (a *AuxAddresses) UnmarshalJSON(raw []byte) error {
	var many map[string]string
	err := json.Unmarshal(raw, &many)
	if err == nil {
		*a = many
		return nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		if name, addr, ok := strings.Cut(one, ":"); ok {
			*a = AuxAddresses{name: addr}
			return nil
		}
	}
	return &json.UnmarshalTypeError{Value: "something else", Type: reflect.TypeFor[AuxAddresses]()}
}

// NetworkContainer is a running container in a network.
type NetworkContainer struct {
	Name        string `json:",omitempty" api:"1.22-"` // in inspect only
	EndpointID  string
	MacAddress  string
	IPv4Address string // with the length of its prefix
	IPv6Address string
}

// NewNetwork fills an entry of the list of networks; members are the containers that run in it.
func NewNetwork(n *network.Network, members []*container.Record) *Network {
	w := &Network{
		Name: n.Name, ID: n.ID, Created: n.Created.UTC(), Scope: network.ScopeLocal, Driver: n.Driver, EnableIPv6: n.EnableIPv6,
		IPAM:     NetworkIPAM{Driver: n.IPAM.Driver, Options: orEmpty(n.IPAM.Options), Config: make([]NetworkPool, 0, len(n.IPAM.Pools))},
		Internal: n.Internal, Containers: make(map[string]NetworkContainer, len(members)), Options: orEmpty(n.Options), Labels: orEmpty(n.Labels),
	}
	for _, p := range n.IPAM.Pools {
		w.IPAM.Config = append(w.IPAM.Config, newPool(p))
	}
	for _, r := range members {
		for _, e := range r.Network.Endpoints {
			if e.NetworkID == n.ID {
				w.Containers[r.ID] = NetworkContainer{
					EndpointID: e.EndpointID, MacAddress: e.MacAddress,
					IPv4Address: withLength(e.IPAddress, e.IPPrefixLen), IPv6Address: withLength(e.GlobalIPv6Address, e.GlobalIPv6PrefixLen),
				}
			}
		}
	}
	return w
}

// NewNetworkInspect fills a network's record with what the list does not show.
func NewNetworkInspect(n *network.Network, members []*container.Record) *Network {
	w := NewNetwork(n, members)
	for _, r := range members {
		if shown, ok := w.Containers[r.ID]; ok {
			shown.Name = r.Name
			w.Containers[r.ID] = shown
		}
	}
	return w
}

func newPool(p network.Pool) NetworkPool {
	var w NetworkPool
	if p.Subnet.IsValid() {
		w.Subnet = p.Subnet.String()
	}
	if p.Range.IsValid() {
		w.IPRange = p.Range.String()
	}
	if p.Gateway.IsValid() {
		w.Gateway = p.Gateway.String()
	}
	for name, addr := range p.Aux {
		if w.AuxAddress == nil {
			w.AuxAddress = AuxAddresses{}
		}
		w.AuxAddress[name] = addr.String()
	}
	w.AuxiliaryAddresses = w.AuxAddress
	return w
}

func withLength(addr string, bits int) string {
	if addr == "" {
		return ""
	}
	return addr + "/" + strconv.Itoa(bits)
}

// NetworkCreate is the body of networks/create. The fields after Labels are of later versions: what they ask for and moss
// does not have is refused at every version, since a network without it would be another one. Attachable is of no effect:
// every container can be connected to every network.
type NetworkCreate struct {
	Name           string
	CheckDuplicate bool
	Driver         string
	IPAM           *NetworkIPAM
	Internal       bool `api:"1.22-"`
	EnableIPv6     bool `api:"1.24-"`
	Options        map[string]string
	Labels         map[string]string `api:"1.24-"`

	EnableIPv4 *bool `json:",omitempty"`
	Scope      string
	Attachable bool
	Ingress    bool
	ConfigOnly bool
	ConfigFrom *struct{ Network string } `json:",omitempty"`
}

// Asked returns what the body asks for. fault.Unsupported for what moss does not have, fault.Invalid for two addresses of one
// name.
func (c *NetworkCreate) Asked() (network.CreateOptions, error) {
	opt := network.CreateOptions{
		Name: c.Name, CheckDuplicate: c.CheckDuplicate, Driver: c.Driver, Internal: c.Internal, EnableIPv6: c.EnableIPv6,
		Options: c.Options, Labels: c.Labels,
	}
	switch {
	case c.EnableIPv4 != nil && !*c.EnableIPv4:
		return opt, fault.Unsupported("EnableIPv4: a network without IPv4 is not supported")
	case c.Scope != "" && c.Scope != network.ScopeLocal:
		return opt, fault.Unsupported("Scope %q: networks are of this host alone", c.Scope)
	case c.Ingress:
		return opt, fault.Unsupported("Ingress: there is no swarm here that a network could lead into")
	case c.ConfigOnly, c.ConfigFrom != nil && c.ConfigFrom.Network != "":
		return opt, fault.Unsupported("ConfigOnly, ConfigFrom: networks that only hold settings are not supported")
	}
	if c.IPAM == nil {
		return opt, nil
	}
	opt.IPAM.Driver, opt.IPAM.Options = c.IPAM.Driver, c.IPAM.Options
	for _, p := range c.IPAM.Config {
		aux := p.AuxiliaryAddresses
		for _, name := range sortedKeys(p.AuxAddress) {
			if aux == nil {
				aux = AuxAddresses{}
			}
			if other, ok := aux[name]; ok && other != p.AuxAddress[name] {
				return opt, fault.Invalid("AuxAddress and AuxiliaryAddresses have different addresses for %q", name)
			}
			aux[name] = p.AuxAddress[name]
		}
		opt.IPAM.Pools = append(opt.IPAM.Pools, network.PoolRequest{Subnet: p.Subnet, Range: p.IPRange, Gateway: p.Gateway, Aux: aux})
	}
	return opt, nil
}

// NetworkCreated is the answer to networks/create.
type NetworkCreated struct {
	ID      string `json:"Id"`
	Warning string
}

// NetworkConnect is the body of networks/{id}/connect.
type NetworkConnect struct {
	Container      string
	EndpointConfig *EndpointConfig `api:"1.22-"`
}

// NetworkDisconnect is the body of networks/{id}/disconnect.
type NetworkDisconnect struct {
	Container string
	Force     bool `api:"1.22-"`
}

// NetworksPruned is the answer to networks/prune, an addition like system/df. The list is null when nothing went, as clients
// know it.
type NetworksPruned struct {
	NetworksDeleted []string
}
