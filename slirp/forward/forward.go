// Package forward carries published ports from the host into the containers' network namespace. It is RootlessKit's port
// driver in two halves: Parent listens on the host, in the outer process; Child makes sockets in the other namespace, in
// RootlessKit's child, and hands them over in batches, so that a connection costs no question to another process.
//
// A container sees the client's own address, for TCP and UDP, unless the client is on the host's loopback or its address
// means something else among the containers; then it sees the gateway of its bridge and never 127.0.0.1. Sockets with a
// client's address are marked with DialMark. Whoever rules the namespace brings their replies back: connections that
// packets with DialMark begin keep ReplyMark, packets of their reply direction carry it, and a rule sends those to Table,
// which holds "local default dev lo". Without that a port still works, by the gateway's address.
//
// The package knows RootlessKit's ports and nothing of containers. It runs no program.
package forward

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/rootless-containers/rootlesskit/v3/pkg/port"
	"github.com/rootless-containers/rootlesskit/v3/pkg/port/portutil"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// What brings the replies to a client's address back, see above. The numbers mean nothing.
const (
	DialMark  = 0x6d6f7301 // of packets that these sockets send
	ReplyMark = 0x6d6f7302 // of connections that those begin, and of packets that answer them
	Table     = 27503      // of routes
)

// keySocket is where Child finds in what Parent passes to it the path of the socket they speak by.
const keySocket = "moss.ports"

// kind is a socket that Child makes.
type kind byte

const (
	tcp4 kind = iota
	tcp6
	udp4
	udp6
	kinds // how many there are
)

// addressFamily and socketType are what socket(2) wants.
func (k kind) addressFamily() int {
	if k == tcp6 || k == udp6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func (k kind) socketType() int {
	if k == udp4 || k == udp6 {
		return unix.SOCK_DGRAM
	}
	return unix.SOCK_STREAM
}

// route is a checked port.Spec.
type route struct {
	network  string // of package net
	udp      bool
	from, to netip.AddrPort // on the host and in the namespace
}

// socketKind returns the kind of the sockets that reach the target.
func (r route) socketKind() kind {
	k := tcp4
	if r.udp {
		k = udp4
	}
	if r.to.Addr().Is6() {
		k++
	}
	return k
}

func parseSpec(s port.Spec) (route, error) {
	if err := portutil.ValidatePortSpec(s, nil); err != nil {
		return route{}, fault.Invalid("%w", err)
	}
	from, err := netip.ParseAddr(s.ParentIP)
	if err != nil {
		return route{}, fault.Invalid("host address of port %d: %w", s.ParentPort, err)
	}
	to, err := netip.ParseAddr(s.ChildIP)
	if err != nil {
		return route{}, fault.Invalid("target of port %d: %w", s.ParentPort, err)
	}
	r := route{
		network: s.Proto,
		from:    netip.AddrPortFrom(from, uint16(s.ParentPort)),
		to:      netip.AddrPortFrom(to.Unmap(), uint16(s.ChildPort)),
	}
	switch s.Proto {
	case "tcp", "tcp4", "tcp6":
	case "udp", "udp4", "udp6":
		r.udp = true
	default:
		return route{}, fault.Unsupported("forward port %d: %s is not supported", s.ParentPort, s.Proto)
	}
	return r, nil
}

func toSockaddr(ap netip.AddrPort) unix.Sockaddr {
	if ap.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()}
}

func toAddrPort(sa unix.Sockaddr) (netip.AddrPort, error) {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(sa.Addr)
		if sa.ZoneId != 0 {
			addr = addr.WithZone(strconv.FormatUint(uint64(sa.ZoneId), 10))
		}
		return netip.AddrPortFrom(addr, uint16(sa.Port)), nil
	default:
		return netip.AddrPort{}, fmt.Errorf("address of an unknown family: %T", sa)
	}
}
