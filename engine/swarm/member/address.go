package member

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
)

// DefaultPort is where managers listen.
const DefaultPort = 2377

// Interface is a network interface of this host that is up.
type Interface struct {
	Name  string
	Addrs []netip.Addr // without zones
}

// systemInterfaces asks the kernel for the interfaces that are up.
func systemInterfaces() ([]Interface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	var found []Interface
	for _, l := range list {
		if l.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := l.Addrs()
		if err != nil {
			continue // it has gone
		}
		i := Interface{Name: l.Name}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				i.Addrs = append(i.Addrs, prefix.Addr().Unmap().WithZone(""))
			}
		}
		found = append(found, i)
	}
	return found, nil
}

// place is an address and a port.
type place struct {
	addr netip.Addr // may be invalid: none
	port uint16     // 0: none
}

func (p place) String() string {
	if !p.addr.IsValid() {
		return ""
	}
	return netip.AddrPortFrom(p.addr, p.port).String()
}

// addressBook knows the addresses of this host. The errors of its methods are fault.Invalid.
type addressBook []Interface

// resolveListen reads where to listen: an address or an interface, with or without a port. Empty is every address.
func (b addressBook) resolveListen(text string) (place, error) {
	p, err := b.resolveText("ListenAddr", text)
	if err != nil {
		return place{}, err
	}
	if !p.addr.IsValid() {
		p.addr = netip.IPv4Unspecified()
	}
	if p.port == 0 {
		p.port = DefaultPort
	}
	return p, nil
}

// resolveAdvertise reads what other nodes are to dial. Empty is the address of listen, or none if that is every address.
func (b addressBook) resolveAdvertise(text string, listen place) (place, error) {
	p, err := b.resolveText("AdvertiseAddr", text)
	if err != nil {
		return place{}, err
	}
	if p.addr.IsValid() && p.addr.IsUnspecified() {
		return place{}, fault.Invalid("AdvertiseAddr %q must be a non-zero IP address or a network interface, with an optional port",
			text)
	}
	if !p.addr.IsValid() && !listen.addr.IsUnspecified() {
		p.addr = listen.addr
	}
	if p.port == 0 {
		p.port = listen.port
	}
	return p, nil
}

// chooseAdvertise returns the one address that other hosts may know this one by.
func (b addressBook) chooseAdvertise() (netip.Addr, error) {
	for _, is4 := range []bool{true, false} {
		var found []netip.Addr
		var list []string
		for _, i := range b {
			if isLocalNetwork(i.Name) {
				continue
			}
			for _, a := range i.Addrs {
				if a.Is4() == is4 && a.IsGlobalUnicast() {
					found = append(found, a)
					list = append(list, fmt.Sprintf("%s on %s", a, i.Name))
				}
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return netip.Addr{}, fault.Invalid(
				"could not choose an IP address to advertise since this system has multiple addresses (%s)", strings.Join(list, ", "))
		}
	}
	return netip.Addr{}, fault.Invalid("could not find the system's IP address: AdvertiseAddr is needed")
}

// localNetwork are the names of networks that engines and virtual machines have on this host alone.
//
//nolint:gochecknoglobals // a constant
var localNetwork = regexp.MustCompile(`^(docker0|docker_gwbridge|br-[0-9a-f]{12}|podman\d+|cni\d+|virbr\d+|veth.*)$`)

func isLocalNetwork(name string) bool { return localNetwork.MatchString(name) }

// resolveText reads an address or an interface, with or without a port.
func (b addressBook) resolveText(field, text string) (p place, err error) {
	host, port, err := splitPort(text)
	if err != nil {
		return place{}, fault.Invalid("%s %q: %w", field, text, err)
	}
	p.port = port
	if host == "" {
		return p, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		p.addr = addr.Unmap().WithZone("")
		if !p.addr.IsUnspecified() && !b.hasAddress(p.addr) {
			return place{}, fault.Invalid("%s %q is not an address of this host, which has %s", field, text, b)
		}
		return p, nil
	}
	for _, i := range b {
		if i.Name == host {
			p.addr, err = i.onlyAddress()
			if err != nil {
				return place{}, fault.Invalid("%s %q: %w", field, text, err)
			}
			return p, nil
		}
	}
	return place{}, fault.Invalid("%s %q must be an IP address or a network interface that is up, with an optional port",
		field, text)
}

// splitPort takes the port off an address. 0 is none.
func splitPort(text string) (host string, port uint16, err error) {
	if text == "" {
		return "", 0, nil
	}
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return addr.String(), 0, nil
	}
	if !strings.Contains(text, ":") {
		return text, 0, nil
	}
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, fmt.Errorf("it is no address with a port: %w", err)
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("port %q is not a number from 1 to 65535", number)
	}
	return host, uint16(n), nil
}

// hasAddress reports whether an address is this host's. All of 127.0.0.0/8 is.
func (b addressBook) hasAddress(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	for _, i := range b {
		if slices.Contains(i.Addrs, addr) {
			return true
		}
	}
	return false
}

func (b addressBook) String() string {
	var list []string
	for _, i := range b {
		for _, a := range i.Addrs {
			list = append(list, a.String())
		}
	}
	return strings.Join(list, ", ")
}

// onlyAddress returns the IPv4 address of an interface, or its IPv6 address if it has none.
func (i Interface) onlyAddress() (netip.Addr, error) {
	for _, is4 := range []bool{true, false} {
		var found []netip.Addr
		for _, a := range i.Addrs {
			if a.Is4() == is4 && !a.IsLinkLocalUnicast() {
				found = append(found, a)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return netip.Addr{}, fmt.Errorf("interface %s has more than one address: %v", i.Name, found)
		}
	}
	return netip.Addr{}, fmt.Errorf("interface %s has no usable address", i.Name)
}

// tryListen finds out at once whether this node can listen there.
func tryListen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fault.Invalid("ListenAddr: %w", err)
	}
	return l.Close()
}
