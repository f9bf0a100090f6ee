package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
)

// Network is a network (API document 1, 2.9).
type Network struct {
	ID         string `json:"Id"`
	Name       string
	Driver     string
	Scope      string
	Created    string // RFC 3339; empty if the engine does not tell
	Internal   bool
	EnableIPv6 bool
	IPAM       NetworkIPAM
	Labels     map[string]string
	Containers map[string]NetworkMember // those that run, by id
}

// NetworkMember is a running container in a network. The addresses have the length of the subnet behind them.
type NetworkMember struct {
	Name        string
	IPv4Address string
	IPv6Address string
}

// NetworkIPAM says which addresses a network has.
type NetworkIPAM struct {
	Driver  string            `json:",omitempty"` // empty: default
	Config  []NetworkPool     `json:",omitempty"` // empty: the engine chooses a subnet
	Options map[string]string `json:",omitempty"`
}

// NetworkPool is one subnet of a network.
type NetworkPool struct {
	Subnet     string            `json:",omitempty"`
	IPRange    string            `json:",omitempty"` // what containers get addresses from
	Gateway    string            `json:",omitempty"`
	AuxAddress map[string]string `json:"AuxiliaryAddresses,omitempty"` // that no container gets, by name
}

// NetworkCreate describes a network to make.
type NetworkCreate struct {
	Name           string
	CheckDuplicate bool
	Driver         string            `json:",omitempty"` // empty: bridge
	IPAM           *NetworkIPAM      `json:",omitempty"`
	Internal       bool              `json:",omitempty"`
	EnableIPv6     bool              `json:",omitempty"`
	Options        map[string]string `json:",omitempty"`
	Labels         map[string]string `json:",omitempty"`
}

// NetworkCreated is the answer to a NetworkCreate.
type NetworkCreated struct {
	ID      string `json:"Id"`
	Warning string
}

// NetworksPruned is what went with a prune of networks.
type NetworksPruned struct {
	NetworksDeleted []string // names
}

// NetworkList lists networks.
func (c *Client) NetworkList(ctx context.Context, filters map[string][]string) ([]Network, error) {
	query := url.Values{}
	if err := encodeFilters(query, filters); err != nil {
		return nil, err
	}
	var out []Network
	err := c.call(ctx, request{method: http.MethodGet, path: "/networks", query: query}, &out)
	return out, err
}

// NetworkInspect returns a network's record as it came.
func (c *Client) NetworkInspect(ctx context.Context, ref string) (json.RawMessage, error) {
	path, err := networkPath(ref, "")
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = c.call(ctx, request{method: http.MethodGet, path: path}, &out)
	return out, err
}

// NetworkCreate makes a network.
func (c *Client) NetworkCreate(ctx context.Context, body NetworkCreate) (NetworkCreated, error) {
	var out NetworkCreated
	err := c.call(ctx, request{method: http.MethodPost, path: "/networks/create", json: body}, &out)
	return out, err
}

// NetworkConnect gives a container a place in a network. A nil endpoint asks for nothing in particular.
func (c *Client) NetworkConnect(ctx context.Context, ref, container string, endpoint *EndpointConfig) error {
	path, err := networkPath(ref, "/connect")
	if err != nil {
		return err
	}
	body := struct {
		Container      string
		EndpointConfig *EndpointConfig `json:",omitempty"`
	}{container, endpoint}
	return c.call(ctx, request{method: http.MethodPost, path: path, json: body}, nil)
}

// NetworkDisconnect takes a container out of a network.
func (c *Client) NetworkDisconnect(ctx context.Context, ref, container string, force bool) error {
	path, err := networkPath(ref, "/disconnect")
	if err != nil {
		return err
	}
	body := struct {
		Container string
		Force     bool `json:",omitempty"`
	}{container, force}
	return c.call(ctx, request{method: http.MethodPost, path: path, json: body}, nil)
}

// NetworkRemove removes a network that no container is in.
func (c *Client) NetworkRemove(ctx context.Context, ref string) error {
	path, err := networkPath(ref, "")
	if err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodDelete, path: path}, nil)
}

// NetworksPrune removes networks that no container uses. Filters are label, label! and until.
func (c *Client) NetworksPrune(ctx context.Context, filters map[string][]string) (NetworksPruned, error) {
	var out NetworksPruned
	err := c.postPrune(ctx, "/networks/prune", filters, &out)
	return out, err
}

// networkPath returns the path of a verb on a network.
func networkPath(ref, verb string) (string, error) {
	if ref == "" {
		return "", errors.New("empty network name")
	}
	return "/networks/" + url.PathEscape(ref) + verb, nil
}
