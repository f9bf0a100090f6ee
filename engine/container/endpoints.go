package container

import (
	"bytes"
	"cmp"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"moss/engine/fault"
	"moss/engine/id"
)

// The errors that clients know of containers that a network cannot take.
func sharesNetwork() error {
	return fault.Invalid("Container sharing network namespace with another container or host cannot be connected to any other " +
		"network")
}

func aloneInNone() error {
	return fault.Invalid("Container cannot be connected to multiple networks with one of the networks in private (none) mode")
}

func hostNetwork() error {
	return fault.Invalid("container cannot be disconnected from host network or connected to host network")
}

// checkEndpoints makes Endpoints the list of the networks that the container is in: those that a client names alone, otherwise
// the one of NetworkMode. That of the mode comes first where it is one of them, otherwise the first by name.
func checkEndpoints(d *draft) error {
	asked := d.Endpoints
	d.Endpoints = make(map[string]EndpointConfig, len(asked)+1)
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		name, e := networkOf(key), asked[key]
		if d.Network == NetworkContainer && name == d.Host.NetworkMode {
			if err := checkShared(&e); err != nil {
				return err
			}
			continue // it has no place of its own
		}
		if _, twice := d.Endpoints[name]; twice {
			return fault.Invalid("EndpointsConfig: network %s is there twice", name)
		}
		if err := d.checkBeside(name); err != nil {
			return err
		}
		if err := CheckEndpoint(name, &e); err != nil {
			return err
		}
		d.Endpoints[name] = e
	}
	_, in := d.Endpoints[d.Network]
	switch {
	case in, d.Network == NetworkContainer:
	case len(d.Endpoints) > 0:
		d.Network = slices.Min(slices.Collect(maps.Keys(d.Endpoints)))
	case d.settled: // it has left all of them
	default:
		d.Endpoints[d.Network] = EndpointConfig{}
	}
	own, of := d.Config.MacAddress, d.Endpoints[d.Network].MacAddress
	if own != "" && of != "" && own != of {
		return fault.Invalid("the container-wide MAC address %s must match the endpoint-specific MAC address for the main "+
			"network, %s, or be left empty", own, of)
	}
	return nil
}

// checkBeside refuses a network that the container cannot be in besides the one of its NetworkMode.
func (d *draft) checkBeside(name string) error {
	if d.settled || name == d.Network {
		return nil
	}
	switch {
	case d.Network == NetworkContainer, d.Network == NetworkHost:
		return sharesNetwork()
	case name == NetworkHost:
		return hostNetwork()
	case d.Network == NetworkNone, name == NetworkNone:
		return aloneInNone()
	default:
		return nil
	}
}

// checkShared refuses settings for a network that is another container's.
func checkShared(e *EndpointConfig) error {
	switch {
	case len(e.Aliases) > 0:
		return aliasElsewhere()
	case e.wantsAddresses():
		return addressElsewhere()
	case len(e.Links) > 0:
		return linkElsewhere(NetworkContainer)
	case e.MacAddress != "":
		return fault.Invalid("Conflicting options: mac-address and the network mode")
	default:
		return nil
	}
}

func aliasElsewhere() error {
	return fault.Invalid("network-scoped alias is supported only for containers in user defined networks")
}

func addressElsewhere() error {
	return fault.Invalid("user specified IP address is supported on user defined networks only")
}

func linkElsewhere(network string) error {
	return fault.Invalid("Conflicting options: %s type networking can't be used with links. This would result in undefined "+
		"behavior", network)
}

// wantsAddresses reports whether addresses are asked for.
func (e *EndpointConfig) wantsAddresses() bool {
	c := e.IPAMConfig
	return c != nil && (c.IPv4Address != "" || c.IPv6Address != "" || len(c.LinkLocalIPs) > 0)
}

// CheckEndpoint checks what is asked of the network of a name, and spells its MAC address as the kernel does. In the
// built-in networks nobody chooses addresses and aliases. fault.Invalid for what cannot be.
func CheckEndpoint(name string, e *EndpointConfig) error {
	if !isNetworkName(name) {
		return fault.Invalid("EndpointsConfig: invalid network name: %q", name)
	}
	if !UserNetwork(name) {
		switch {
		case len(e.Aliases) > 0:
			return aliasElsewhere()
		case e.wantsAddresses():
			return addressElsewhere()
		case name != NetworkBridge && len(e.Links) > 0:
			return linkElsewhere(name)
		case name != NetworkBridge && e.MacAddress != "":
			return fault.Invalid("Conflicting options: mac-address and the network mode")
		}
	}
	if err := e.checkDriverOpts(name); err != nil {
		return err
	}
	for _, alias := range e.Aliases {
		if err := CheckAlias(alias); err != nil {
			return fault.Invalid("network %s: %w", name, err)
		}
	}
	if _, err := ParseLinks(e.Links); err != nil {
		return err
	}
	mac, err := parseMAC(e.MacAddress)
	if err != nil {
		return err
	}
	e.MacAddress = mac
	return checkIPAM(e.IPAMConfig)
}

// CheckAlias returns fault.Invalid for what no container can be called in a network.
func CheckAlias(alias string) error {
	if !isWord(alias) || len(alias) > maxNetworkName {
		return fault.Invalid("invalid alias %q: expected a host name", alias)
	}
	return nil
}

func checkIPAM(c *IPAMConfig) error {
	if c == nil {
		return nil
	}
	if a := c.IPv4Address; a != "" {
		if ip, err := netip.ParseAddr(a); err != nil || !ip.Is4() {
			return fault.Invalid("invalid IPv4 address: IPv4Address %q in IPAMConfig", a)
		}
	}
	if a := c.IPv6Address; a != "" {
		if ip, err := netip.ParseAddr(a); err != nil || !ip.Is6() || ip.Is4In6() || ip.Zone() != "" {
			return fault.Invalid("invalid IPv6 address: IPv6Address %q in IPAMConfig", a)
		}
	}
	seen := make(map[netip.Addr]bool, len(c.LinkLocalIPs))
	for _, a := range c.LinkLocalIPs {
		ip, err := netip.ParseAddr(a)
		if err != nil || !ip.IsLinkLocalUnicast() || ip.Is4In6() || ip.Zone() != "" {
			return fault.Invalid("invalid link-local IP address: LinkLocalIPs %q in IPAMConfig", a)
		}
		if seen[ip] {
			return fault.Invalid("invalid link-local IP address: LinkLocalIPs has %q twice in IPAMConfig", a)
		}
		seen[ip] = true
	}
	return nil
}

// parseMAC takes the address of one Ethernet interface, or none.
func parseMAC(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 || hw[0]&1 != 0 || bytes.Equal(hw, make([]byte, 6)) {
		return "", fault.Invalid("invalid MacAddress %q: not the address of one Ethernet interface", s)
	}
	return hw.String(), nil
}

// maxNetworkName bounds names of networks and of containers in them, in bytes.
const maxNetworkName = 255

// isNetworkName keeps out what no network is called, so that a mistyped mode is told from one that comes later.
func isNetworkName(s string) bool {
	if len(s) > maxNetworkName || s == "" || !isAlnum(s[0]) {
		return false
	}
	for i := range len(s) {
		if !isAlnum(s[i]) && strings.IndexByte("_.- ", s[i]) < 0 {
			return false
		}
	}
	return s[len(s)-1] != ' '
}

// Networks are the networks that the container is in, running or not, by name. The map must not be changed.
func (r *Record) Networks() map[string]EndpointConfig {
	if r.Endpoints != nil {
		return r.Endpoints
	}
	name := networkOf(r.Host.NetworkMode)
	switch {
	case r.Config.NetworkDisabled:
		name = NetworkNone
	case len(name) > len(joinPrefix) && name[:len(joinPrefix)] == joinPrefix:
		return nil
	}
	return map[string]EndpointConfig{name: {}}
}

// AskedMAC returns the hardware address that the container was given for a network that it is in, empty for none. The one of the
// container itself is for the network of NetworkMode or, if the container is not in that, for the first by name.
func (r *Record) AskedMAC(name string) string {
	in := r.Networks()
	e, ok := in[name]
	if !ok || e.MacAddress != "" {
		return e.MacAddress
	}
	first := networkOf(r.Host.NetworkMode)
	if _, ok := in[first]; !ok {
		first = slices.Min(slices.Collect(maps.Keys(in)))
	}
	if name != first {
		return ""
	}
	return r.Config.MacAddress
}

// MainMAC returns the hardware address that the container was given as its own, or for the network of NetworkMode.
func (r *Record) MainMAC() string {
	if r.Config.MacAddress != "" {
		return r.Config.MacAddress
	}
	return r.Networks()[networkOf(r.Host.NetworkMode)].MacAddress
}

// DNSNames are the names by which others in a network find the container that has the settings e there; none in a built-in one.
func (r *Record) DNSNames(network string, e EndpointConfig) []string {
	if !UserNetwork(network) {
		return nil
	}
	hostname := r.Config.Hostname
	if r.Host.UTSMode == utsHost {
		hostname = "" // the record shows the host's
	}
	var names []string
	for _, name := range slices.Concat([]string{r.Name, id.Short(r.ID)}, e.Aliases, []string{hostname}) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// NetworkOrder lists the networks that a container is in, by name, that of its own settings first: devices, the default
// route and the published ports go by this order.
func (s *Spec) NetworkOrder() []string {
	return slices.SortedFunc(maps.Keys(s.Endpoints), func(a, b string) int {
		switch s.Network {
		case a:
			return -1
		case b:
			return 1
		default:
			return cmp.Compare(a, b)
		}
	})
}

// CanConnect reports with an error that a container cannot get a place in the network of a name beside those that it is
// in. Whether it is in that one already is not asked.
func (r *Record) CanConnect(name string) error {
	if _, shared, _ := joinedContainer("", r.Host.NetworkMode); shared && !r.Config.NetworkDisabled {
		return sharesNetwork()
	}
	in := r.Networks()
	if _, host := in[NetworkHost]; host {
		return sharesNetwork()
	}
	if name == NetworkHost {
		return hostNetwork()
	}
	if _, none := in[NetworkNone]; none || name == NetworkNone && len(in) > 0 {
		return aloneInNone()
	}
	return nil
}

// CanDisconnect is CanConnect for the way out.
func (r *Record) CanDisconnect(name string) error {
	if _, host := r.Networks()[NetworkHost]; host && name == NetworkHost {
		return hostNetwork()
	}
	return nil
}
