package publish

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rootless-containers/rootlesskit/v3/pkg/port"

	"moss/engine/fault"
	"moss/engine/network"
)

// ephemeralTries is how often another free port is asked for when the one found was taken before it could be used.
const ephemeralTries = 16

// want is a port request that has been checked.
type want struct {
	proto     string // tcp or udp
	container uint16
	ips       []netip.Addr // of the host; the same port on each
	low, high uint16       // both 0: any
}

func (h host) parseRequests(reqs []network.PortRequest) ([]want, error) {
	wants := make([]want, 0, len(reqs))
	for _, r := range reqs {
		w, err := h.parseRequest(r)
		if err != nil {
			return nil, err
		}
		wants = append(wants, w)
	}
	return wants, nil
}

// parseRequest checks a request; one that names no address is for all, those of IPv6 too if the host has any.
func (h host) parseRequest(r network.PortRequest) (want, error) {
	w := want{proto: r.Proto, container: r.ContainerPort, low: r.HostLow, high: max(r.HostLow, r.HostHigh)}
	switch r.Proto {
	case "tcp", "udp":
	case "":
		w.proto = "tcp"
	case "sctp":
		return want{}, fault.Unsupported("publish port %d/sctp: sctp is not supported: a rootless engine forwards tcp and udp",
			r.ContainerPort)
	default:
		return want{}, fault.Invalid("publish port %d/%s: unknown protocol", r.ContainerPort, r.Proto)
	}
	if r.ContainerPort == 0 {
		return want{}, fault.Invalid("publish port 0/%s: the container's port must be 1 to 65535", w.proto)
	}
	if r.HostHigh != 0 && r.HostHigh < r.HostLow {
		return want{}, fault.Invalid("publish port %d/%s: host port range %d-%d is upside down", r.ContainerPort, w.proto, r.HostLow,
			r.HostHigh)
	}
	if w.low == 0 {
		w.high = 0
	}
	if r.HostIP != "" {
		ip, err := netip.ParseAddr(r.HostIP)
		if err != nil || ip.Zone() != "" {
			return want{}, fault.Invalid("publish port %d/%s: %q is no host address", r.ContainerPort, w.proto, r.HostIP)
		}
		w.ips = []netip.Addr{ip.Unmap()}
		return w, nil
	}
	w.ips = []netip.Addr{netip.IPv4Unspecified()}
	if h.hasIPv6() {
		w.ips = append(w.ips, netip.IPv6Unspecified())
	}
	return w, nil
}

// EverywhereOn returns a port as it is open on all addresses of the host, of IPv4 and of IPv6.
func EverywhereOn(proto string, number, container uint16) []network.Port {
	everywhere := []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	all := make([]network.Port, 0, len(everywhere))
	for _, ip := range everywhere {
		all = append(all, network.Port{Proto: proto, ContainerPort: container, HostIP: ip.String(), HostPort: number})
	}
	return all
}

// maxAttempts returns how many ports pickPort may be asked for.
func (w want) maxAttempts() int {
	if w.low == 0 {
		return ephemeralTries
	}
	return int(w.high) - int(w.low) + 1
}

// hasFixedPort tells whether only one port will do.
func (w want) hasFixedPort() bool { return w.low != 0 && w.low == w.high }

// specOf is the form in which RootlessKit gets a port and lists it again; nothing in it is left to a default, so that
// the two compare equal.
func specOf(np network.Port, to Target) (port.Spec, error) {
	ip, err := netip.ParseAddr(np.HostIP)
	if err != nil {
		return port.Spec{}, fmt.Errorf("host address of port %d: %w", np.HostPort, err)
	}
	child := to.Addr
	if to.Addr6.IsValid() && (ip.Is6() || !child.IsValid()) {
		child = to.Addr6 // so that a client of IPv6 keeps its address
	}
	return port.Spec{
		Proto:      protoWithFamily(np.Proto, ip),
		ParentIP:   ip.String(),
		ParentPort: int(np.HostPort),
		ChildIP:    child.String(),
		ChildPort:  int(np.ContainerPort),
	}, nil
}

// protoWithFamily names the address's family too: a listener on all IPv6 addresses then leaves the IPv4 ones alone.
func protoWithFamily(proto string, ip netip.Addr) string {
	if ip.Is4() {
		return proto + "4"
	}
	return proto + "6"
}

// host answers what only the host's network namespace knows; this process is in it.
type host struct{ proc string }

// hasIPv6 is true for a host whose loopback has an address of IPv6.
func (h host) hasIPv6() bool {
	data, err := os.ReadFile(filepath.Join(h.proc, "net/if_inet6"))
	return err == nil && len(data) > 0
}

// pickPort returns the port for attempt n: the next of the range, or one that the kernel has free in its own range.
func (h host) pickPort(ctx context.Context, w want, n int) (uint16, error) {
	if w.low != 0 {
		return w.low + uint16(n), nil
	}
	ip := w.ips[0]
	at := netip.AddrPortFrom(ip, 0).String()
	var (
		lc   net.ListenConfig
		addr net.Addr
	)
	switch w.proto {
	case "udp":
		c, err := lc.ListenPacket(ctx, protoWithFamily("udp", ip), at)
		if err != nil {
			return 0, h.explainRefusal(err, ip, 0)
		}
		addr = c.LocalAddr()
		if err := c.Close(); err != nil {
			return 0, err
		}
	default: // tcp; parseRequest has refused the rest
		l, err := lc.Listen(ctx, protoWithFamily("tcp", ip), at)
		if err != nil {
			return 0, h.explainRefusal(err, ip, 0)
		}
		addr = l.Addr()
		if err := l.Close(); err != nil {
			return 0, err
		}
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return ap.Port(), err
}

// isConflict goes by RootlessKit's texts: its API passes on nothing else. The second is its own record of the same port.
func isConflict(err error) bool {
	return strings.Contains(err.Error(), "address already in use") || strings.Contains(err.Error(), "conflict with ID")
}

// allocatedError has the text that clients know; ip is the address that the last port was refused on.
func allocatedError(w want, ip netip.Addr) error {
	if w.hasFixedPort() {
		return fault.Internal("Bind for %s failed: port is already allocated", netip.AddrPortFrom(ip, w.low))
	}
	at := ip.String()
	if ip.Is6() {
		at = "[" + at + "]"
	}
	return fault.Internal("Bind for %s:%d-%d failed: all ports are allocated", at, w.low, w.high)
}

// explainRefusal says what a user can do about a port that is refused to him; everything else passes as it is.
func (h host) explainRefusal(err error, ip netip.Addr, hostPort uint16) error {
	at := netip.AddrPortFrom(ip, hostPort)
	start := h.firstUnprivileged()
	if !strings.Contains(err.Error(), "permission denied") || int(hostPort) >= start {
		return fault.Internal("Bind for %s failed: %w", at, err)
	}
	self, serr := os.Executable()
	if serr != nil {
		self = "mossd"
	}
	return fault.Internal("Bind for %s failed: permission denied: a user may open ports from %d on; to allow this one, either "+
		"lower that bound (sysctl net.ipv4.ip_unprivileged_port_start=%d) or give the engine the right "+
		"(setcap cap_net_bind_service=ep %s) and start it anew", at, start, hostPort, self)
}

// firstUnprivileged is the kernel's default where it does not tell.
func (h host) firstUnprivileged() int {
	const fallback = 1024
	data, err := os.ReadFile(filepath.Join(h.proc, "sys/net/ipv4/ip_unprivileged_port_start"))
	if err != nil {
		return fallback
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return fallback
	}
	return n
}
