package container

import (
	"slices"
	"strings"

	"moss/engine/fault"
	"moss/engine/network"
)

// The networks that every host has (API document 1, 2.9), and the mode of a container that uses another's.
const (
	NetworkBridge    = network.Bridge
	NetworkHost      = network.Host
	NetworkNone      = network.None
	NetworkContainer = network.Container
)

// BuiltinNetwork reports whether a network is there on every host.
func BuiltinNetwork(name string) bool {
	return slices.Contains([]string{NetworkBridge, NetworkHost, NetworkNone}, name)
}

// UserNetwork reports whether a network is one that a user has made.
func UserNetwork(name string) bool {
	return name != NetworkContainer && !BuiltinNetwork(name) && !strings.HasPrefix(name, joinPrefix)
}

// networkOf is the network that a NetworkMode, or the name of an endpoint, means: clients have two more words for bridge.
func networkOf(mode string) string {
	if mode == "" || mode == "default" {
		return NetworkBridge
	}
	return mode
}

// checkNetwork resolves NetworkMode. The name of a network that is not built in is only checked to be one: whether there
// is such a network turns out at the start.
func checkNetwork(d *draft) (err error) {
	var other bool
	if d.Join.Network, other, err = joinedContainer("NetworkMode: invalid network mode", d.Host.NetworkMode); err != nil {
		return err
	}
	if d.Network = networkOf(d.Host.NetworkMode); other {
		d.Network = NetworkContainer
	} else if !isNetworkName(d.Network) || d.Network == NetworkContainer {
		return fault.Invalid("NetworkMode: invalid network mode: %s", d.Network)
	}
	if err := d.checkShared(); err != nil {
		return err
	}
	if d.Config.NetworkDisabled {
		d.Network, d.Join.Network = NetworkNone, ""
	}
	return d.checkMAC()
}

// checkShared refuses what cannot be had beside another's network.
func (d *draft) checkShared() error {
	h := &d.Host
	type conflict struct {
		asked bool
		text  string
	}
	var conflicts []conflict
	switch d.Network {
	case NetworkContainer:
		conflicts = []conflict{
			{d.Config.Hostname != "", "hostname and the network mode"},
			{d.Config.Domainname != "", "domainname and the network mode"},
			{len(h.Links) > 0, "container type network can't be used with links. This would result in undefined behavior"},
			{len(h.DNS) > 0, "dns and the network mode"},
			{len(h.DNSSearch) > 0, "dns-search and the network mode"},
			{len(h.DNSOptions) > 0, "dns-option and the network mode"},
			{len(h.ExtraHosts) > 0, "custom host-to-IP mapping and the network mode"},
			{d.Config.MacAddress != "", "mac-address and the network mode"},
			{len(h.PortBindings) > 0 || h.PublishAllPorts, "port publishing and the container type network mode"},
			{d.exposes, "port exposing and the container type network mode"},
		}
	case NetworkHost:
		conflicts = []conflict{
			{len(h.Links) > 0, "host type networking can't be used with links. This would result in undefined behavior"},
		}
	case NetworkNone:
		conflicts = []conflict{
			{len(h.Links) > 0, "none type networking can't be used with links. This would result in undefined behavior"},
		}
	}
	for _, c := range conflicts {
		if c.asked {
			return fault.Invalid("Conflicting options: %s", c.text)
		}
	}
	return nil
}

func (d *draft) checkMAC() error {
	mac := d.Config.MacAddress
	if mac == "" {
		return nil
	}
	mac, err := parseMAC(mac)
	if err != nil {
		return err
	}
	if d.Network == NetworkHost || d.Network == NetworkNone {
		return fault.Invalid("Conflicting options: mac-address and the network mode")
	}
	d.Config.MacAddress = mac
	return nil
}
