package types

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// Network is one network (document 1, 2.9). Created is an addition of later versions that is there at every one.
// Internal is shown from the version on that reads it, which clients of 1.22 and 1.23 need to know their own network again.
type Network struct {
	Name       string
	ID         string `json:"Id"`
	Created    time.Time
	Scope      string
	Driver     string
	EnableIPv4 bool `api:"1.48-"`
	EnableIPv6 bool `api:"1.24-"`
	IPAM       NetworkIPAM
	Internal   bool                     `api:"1.22-"`
	Attachable bool                     `api:"1.25-"`
	Ingress    bool                     `api:"1.29-"`
	ConfigFrom struct{ Network string } `api:"1.30-"` // empty: its settings are its own
	ConfigOnly bool                     `api:"1.30-"`
	Containers map[string]NetworkContainer
	Options    map[string]string
	Labels     map[string]string `api:"1.24-"`
}

// NetworkIPAM says which addresses a network has, or shall have.
type NetworkIPAM struct {
	Driver  string            `json:",omitzero"`
	Options map[string]string `json:",omitzero" api:"1.22-"`
	Config  []NetworkPool     `json:",omitzero"`
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

// NetworkCreate is the body of networks/create. The fields after Labels are of later versions: what they ask for and moss
// does not have is refused at every version, since a network without it would be another one. Attachable is kept and shown,
// and of no other effect: every container can be connected to every network of its host.
type NetworkCreate struct {
	Name           string
	CheckDuplicate bool
	Driver         string            `json:",omitzero"`
	IPAM           *NetworkIPAM      `json:",omitzero"`
	Internal       bool              `json:",omitzero" api:"1.22-"`
	EnableIPv6     bool              `json:",omitzero" api:"1.24-"`
	Options        map[string]string `json:",omitzero"`
	Labels         map[string]string `json:",omitzero" api:"1.24-"`

	EnableIPv4 *bool                     `json:",omitempty"`
	Scope      string                    `json:",omitzero"`
	Attachable bool                      `json:",omitzero"`
	Ingress    bool                      `json:",omitzero"`
	ConfigOnly bool                      `json:",omitzero"`
	ConfigFrom *struct{ Network string } `json:",omitempty"`
}

// NetworkCreated is the answer to networks/create.
type NetworkCreated struct {
	ID      string `json:"Id"`
	Warning string
}

// NetworkConnect is the body of networks/{id}/connect.
type NetworkConnect struct {
	Container      string
	EndpointConfig *EndpointConfig `json:",omitzero" api:"1.22-"`
}

// NetworkDisconnect is the body of networks/{id}/disconnect.
type NetworkDisconnect struct {
	Container string
	Force     bool `json:",omitzero" api:"1.22-"`
}

// NetworksPruned is the answer to networks/prune, an addition like system/df. The list is null when nothing went, as clients
// know it.
type NetworksPruned struct {
	NetworksDeleted []string
}
