package container

import (
	"maps"
	"net"
	"net/netip"
	"slices"

	"moss/engine/fault"
)

// The networks that every host has (API document 1, 2.9), and the mode of a container that uses another's.
const (
	NetworkBridge    = "bridge"
	NetworkHost      = "host"
	NetworkNone      = "none"
	NetworkContainer = "container"
)

// BuiltinNetwork reports whether a network is there on every host.
func BuiltinNetwork(name string) bool {
	return slices.Contains([]string{NetworkBridge, NetworkHost, NetworkNone}, name)
}

// checkNetwork resolves NetworkMode and the addresses asked for. The name of a network that is not built in is only
// checked to be one: whether there is such a network turns out at the start.
func checkNetwork(d *draft) (err error) {
	var other bool
	if d.Join.Network, other, err = joined("NetworkMode: invalid network mode", d.Host.NetworkMode); err != nil {
		return err
	}
	switch mode := d.Host.NetworkMode; {
	case other:
		d.Network = NetworkContainer
	case mode == "", mode == "default":
		d.Network = NetworkBridge
	default:
		if name, err := CheckName(mode); err != nil || name != mode {
			return fault.Invalid("NetworkMode: invalid network mode: %s", mode)
		}
		d.Network = mode
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
			return fault.Invalid("conflicting options: %s", c.text)
		}
	}
	return nil
}

func (d *draft) checkMAC() error {
	mac := d.Config.MacAddress
	if mac == "" {
		return nil
	}
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 || hw[0]&1 != 0 {
		return fault.Invalid("invalid MacAddress %q: not the address of one Ethernet interface", mac)
	}
	if d.Network == NetworkHost || d.Network == NetworkNone {
		return fault.Invalid("conflicting options: mac-address and the network mode")
	}
	d.Config.MacAddress = hw.String()
	return nil
}

// checkEndpoints allows settings for the container's own network only. In the built-in ones nobody chooses addresses and
// aliases. Links mean the same as those of HostConfig.
func checkEndpoints(d *draft) error {
	for _, name := range slices.Sorted(maps.Keys(d.Endpoints)) {
		e := d.Endpoints[name]
		network := name
		if name == "default" {
			network = NetworkBridge
		}
		switch {
		case network == d.Network, d.Network == NetworkContainer && network == d.Host.NetworkMode:
		case BuiltinNetwork(network):
			return fault.Invalid("Container cannot be connected to network endpoints: %s: its network mode is %s", name, d.Network)
		default:
			return fault.NotFound("network %s not found", name)
		}
		builtin := BuiltinNetwork(d.Network) || d.Network == NetworkContainer
		if builtin && len(e.Aliases) > 0 {
			return fault.Invalid("network-scoped alias is supported only for containers in user defined networks")
		}
		if err := checkIPAM(e.IPAMConfig, builtin); err != nil {
			return err
		}
		if d.Network != NetworkBridge && builtin && len(e.Links) > 0 {
			return fault.Invalid("conflicting options: %s type networking can't be used with links. This would result in undefined behavior",
				d.Network)
		}
	}
	return nil
}

func checkIPAM(c *IPAMConfig, builtin bool) error {
	if c == nil {
		return nil
	}
	for field, list := range map[string][]string{
		"IPv4Address": {c.IPv4Address}, "IPv6Address": {c.IPv6Address}, "LinkLocalIPs": c.LinkLocalIPs,
	} {
		for _, address := range list {
			if address == "" {
				continue
			}
			if builtin {
				return fault.Invalid("user specified IP address is supported on user defined networks only")
			}
			if _, err := netip.ParseAddr(address); err != nil {
				return fault.Invalid("invalid %s %q in IPAMConfig: not an IP address", field, address)
			}
		}
	}
	return nil
}
