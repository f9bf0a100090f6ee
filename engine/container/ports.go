package container

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
	"moss/engine/network"
)

// Publish asks for one published port. HostLow 0 takes an ephemeral port; a range takes the first free one. Its fields
// are those of network.PortRequest.
type Publish struct {
	Proto         string // tcp, udp or sctp
	ContainerPort uint16
	HostIP        string // empty: all addresses
	HostLow       uint16
	HostHigh      uint16
}

// HostIP is one extra line of /etc/hosts.
type HostIP struct {
	Name string
	IP   netip.Addr // invalid: that by which the container reaches the host
}

// maxPublished is how many ports a container can publish. Each takes a listener in the outer process for each of the host's
// addresses, which has half of its descriptors for them; a range of the size that telephony wants fits in.
const maxPublished = 16384

// checkPorts parses ExposedPorts and PortBindings (API document 1, 2.3).
func checkPorts(d *draft) error {
	exposed := make(map[network.Port]bool)
	for key := range d.Config.ExposedPorts {
		if err := addExposedPorts(exposed, "ExposedPorts", key); err != nil {
			return err
		}
	}
	d.spellPorts(exposed)
	for _, key := range slices.Sorted(maps.Keys(d.Host.PortBindings)) {
		if err := addExposedPorts(exposed, "PortBindings", key); err != nil {
			return err
		}
		for _, binding := range d.Host.PortBindings[key] {
			ports, err := parseBinding(key, binding)
			if err != nil {
				return err
			}
			d.Publish = append(d.Publish, ports...)
		}
	}
	if d.Host.PublishAllPorts {
		bound := make(map[network.Port]bool, len(d.Publish))
		for _, p := range d.Publish {
			bound[network.Port{Proto: p.Proto, ContainerPort: p.ContainerPort}] = true
		}
		for port := range exposed {
			if !bound[port] {
				d.Publish = append(d.Publish, Publish{Proto: port.Proto, ContainerPort: port.ContainerPort})
			}
		}
	}
	d.Exposed = slices.SortedFunc(maps.Keys(exposed), func(a, b network.Port) int {
		return cmp.Or(cmp.Compare(a.ContainerPort, b.ContainerPort), cmp.Compare(a.Proto, b.Proto))
	})
	slices.SortFunc(d.Publish, func(a, b Publish) int {
		return cmp.Or(cmp.Compare(a.ContainerPort, b.ContainerPort), cmp.Compare(a.Proto, b.Proto),
			cmp.Compare(a.HostIP, b.HostIP), cmp.Compare(a.HostLow, b.HostLow), cmp.Compare(a.HostHigh, b.HostHigh))
	})
	d.Publish = slices.Compact(d.Publish)
	if len(d.Publish) > 0 && slices.Contains([]string{NetworkHost, NetworkNone, NetworkContainer}, d.Network) {
		d.addWarning("Published ports are discarded when using %s network mode", d.Network)
		d.Publish = nil
	}
	if len(d.Publish) > maxPublished {
		return fault.Invalid("cannot publish %d ports: a container can have %d at most", len(d.Publish), maxPublished)
	}
	return nil
}

// spellPorts gives the exposed ports of the configuration the one form that clients know, 80/tcp: "80", "80/TCP" and
// ranges are others' ways to write them.
func (d *draft) spellPorts(exposed map[network.Port]bool) {
	if len(exposed) == 0 {
		return
	}
	d.Config.ExposedPorts = make(map[string]struct{}, len(exposed))
	for port := range exposed {
		d.Config.ExposedPorts[strconv.Itoa(int(port.ContainerPort))+"/"+port.Proto] = struct{}{}
	}
}

func addExposedPorts(exposed map[network.Port]bool, field, key string) error {
	low, high, proto, err := ParsePorts(key)
	if err != nil {
		return fault.Invalid("invalid port specification in %s: %q", field, key)
	}
	for port := int(low); port <= int(high); port++ {
		exposed[network.Port{Proto: proto, ContainerPort: uint16(port)}] = true
	}
	return nil
}

// ParsePorts reads "80", "80/tcp" and "8000-8010/udp" (API document 1, 2.3): the first and the last port, and tcp, udp or sctp.
// fault.Invalid for anything else.
func ParsePorts(key string) (low, high uint16, proto string, err error) {
	ports, proto, hasProto := strings.Cut(key, "/")
	proto = strings.ToLower(proto)
	if !hasProto {
		proto = "tcp"
	}
	if !slices.Contains([]string{"tcp", "udp", "sctp"}, proto) {
		return 0, 0, "", fault.Invalid("invalid port specification: %q", key)
	}
	low, high, err = parsePortRange(ports)
	if err != nil || low == 0 {
		return 0, 0, "", fault.Invalid("invalid port specification: %q", key)
	}
	return low, high, proto, nil
}

// parsePortRange reads "80" and "8000-8010".
func parsePortRange(s string) (low, high uint16, err error) {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	if errA != nil || errB != nil || a > b || isRange && a == 0 {
		return 0, 0, fault.Invalid("invalid port range: %q", s)
	}
	return uint16(a), uint16(b), nil
}

// parseBinding reads one host side of a published port. A host range for one container port means any of it; for a
// range of container ports it must have the same length.
func parseBinding(key string, binding PortBinding) ([]Publish, error) {
	low, high, proto, err := ParsePorts(key)
	if err != nil {
		return nil, err
	}
	ip, err := parseHostIP(binding.HostIP)
	if err != nil {
		return nil, err
	}
	var hostLow, hostHigh uint16
	if binding.HostPort != "" {
		if hostLow, hostHigh, err = parsePortRange(binding.HostPort); err != nil {
			return nil, fault.Invalid("invalid HostPort %q of port %s: not a port or a range of ports from 0 to 65535", binding.HostPort,
				key)
		}
	}
	if low == high {
		return []Publish{{Proto: proto, ContainerPort: low, HostIP: ip, HostLow: hostLow, HostHigh: hostHigh}}, nil
	}
	if hostLow != 0 && hostHigh-hostLow != high-low {
		return nil, fault.Invalid("invalid HostPort %q of port %s: the ranges differ in length", binding.HostPort, key)
	}
	ports := make([]Publish, 0, int(high)-int(low)+1)
	for i := range int(high) - int(low) + 1 {
		p := Publish{Proto: proto, ContainerPort: low + uint16(i), HostIP: ip}
		if hostLow != 0 {
			p.HostLow = hostLow + uint16(i)
			p.HostHigh = p.HostLow
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// parseHostIP takes an address. Without one it gives the empty string: all there are, or what the network says.
func parseHostIP(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	addr, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil || addr.Zone() != "" {
		return "", fault.Invalid("invalid HostIp %q in PortBindings: not an IP address", s)
	}
	return addr.String(), nil
}

// checkResolver checks what will be written into resolv.conf.
func checkResolver(d *draft) error {
	for _, server := range d.Host.DNS {
		if _, err := netip.ParseAddr(server); err != nil {
			return fault.Invalid("invalid Dns %q: not an IP address", server)
		}
	}
	for field, words := range map[string][]string{"DnsSearch": d.Host.DNSSearch, "DnsOptions": d.Host.DNSOptions} {
		for _, word := range words {
			if !isWord(word) {
				return fault.Invalid("invalid %s %q: expected one word", field, word)
			}
		}
	}
	return nil
}

// hostGateway stands in ExtraHosts for the address by which the container reaches the host.
const hostGateway = "host-gateway"

// checkHosts checks what will be written into hosts.
func checkHosts(d *draft) error {
	for _, line := range d.Host.ExtraHosts {
		name, ip, _ := strings.Cut(line, ":")
		if !isWord(name) || strings.HasPrefix(name, "#") {
			return fault.Invalid("invalid ExtraHosts %q: expected hostname:IP", line)
		}
		if ip == hostGateway {
			d.Hosts = append(d.Hosts, HostIP{Name: name})
			continue
		}
		addr, err := netip.ParseAddr(strings.Trim(ip, "[]"))
		if err != nil {
			return fault.Invalid("invalid ExtraHosts %q: %q is not an IP address", line, ip)
		}
		d.Hosts = append(d.Hosts, HostIP{Name: name, IP: addr})
	}
	return nil
}

// isWord keeps what is written into a line of a configuration file from ending the word or the line.
func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0xfffd })
}
