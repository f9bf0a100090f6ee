package dns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"moss/engine/thread"
)

// Address is where a container in a network of its own making finds its name server, as clients expect it.
const Address = "127.0.0.11"

const (
	port    = 53
	backlog = 64         // connections that wait, also for the next engine
	table   = "moss_dns" // in a container's network namespace; everything in it is ours
)

// Open makes a name server's sockets in a container's network namespace. They have ports of their own, so that the
// container may use port 53 itself; packets for port 53 of Address are sent there by nftables. Sockets and rules that were
// there are replaced. The caller closes ns.
func Open(ns *os.File) (s Sockets, err error) {
	addr := netip.MustParseAddr(Address)
	err = thread.InNetwork(ns, func() error {
		if s, err = openSockets(netip.AddrPortFrom(addr, 0)); err != nil {
			return err
		}
		udp, tcp := s.UDP.LocalAddr().(*net.UDPAddr).Port, s.TCP.Addr().(*net.TCPAddr).Port
		return redirectQueries(addr, uint16(udp), uint16(tcp))
	})
	if err != nil {
		return Sockets{}, errors.Join(fmt.Errorf("open a container's name server: %w", err), s.Close())
	}
	return s, nil
}

// OpenAt makes a name server's sockets on port 53 of a bridge's address. The caller closes ns.
func OpenAt(ns *os.File, addr netip.Addr) (s Sockets, err error) {
	err = thread.InNetwork(ns, func() error {
		s, err = openSockets(netip.AddrPortFrom(addr, port))
		return err
	})
	if err != nil {
		return Sockets{}, errors.Join(fmt.Errorf("open a network's name server: %w", err), s.Close())
	}
	return s, nil
}

func openSockets(addr netip.AddrPort) (s Sockets, err error) {
	udp, err := bindSocket(addr, unix.SOCK_DGRAM)
	if err != nil {
		return s, err
	}
	if s.UDP, err = packetConn(udp); err != nil {
		return s, err
	}
	tcp, err := bindSocket(addr, unix.SOCK_STREAM)
	if err != nil {
		return s, err
	}
	s.TCP, err = tcpListener(tcp)
	return s, err
}

// bindSocket makes a socket that may be bound before its address is there. TCP listens.
func bindSocket(addr netip.AddrPort, kind int) (_ *os.File, err error) {
	family, level, freebind := unix.AF_INET, unix.SOL_IP, unix.IP_FREEBIND
	var to unix.Sockaddr
	if addr.Addr().Is6() {
		family, level, freebind = unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_FREEBIND
		to = &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
	} else {
		to = &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), addr.String())
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := unix.SetsockoptInt(fd, level, freebind, 1); err != nil {
		return nil, fmt.Errorf("set up a socket for %s: %w", addr, err)
	}
	if kind == unix.SOCK_STREAM { // the last engine's connections are of no concern
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return nil, fmt.Errorf("set up a socket for %s: %w", addr, err)
		}
	}
	if err := unix.Bind(fd, to); err != nil {
		return nil, fmt.Errorf("bind %s: %w", addr, err)
	}
	if kind == unix.SOCK_STREAM {
		if err := unix.Listen(fd, backlog); err != nil {
			return nil, fmt.Errorf("listen at %s: %w", addr, err)
		}
	}
	return f, nil
}

// packetConn and tcpListener turn a file into what the net package calls it, and close the file.
func packetConn(f *os.File) (*net.UDPConn, error) {
	pc, err := net.FilePacketConn(f)
	err = errors.Join(err, f.Close())
	if conn, ok := pc.(*net.UDPConn); ok {
		return conn, err
	}
	return nil, errors.Join(err, fmt.Errorf("%s is no UDP socket", f.Name()))
}

func tcpListener(f *os.File) (*net.TCPListener, error) {
	l, err := net.FileListener(f)
	err = errors.Join(err, f.Close())
	if tcp, ok := l.(*net.TCPListener); ok {
		return tcp, err
	}
	return nil, errors.Join(err, fmt.Errorf("%s is no TCP socket that listens", f.Name()))
}

// redirectQueries makes the table, in one transaction. Ports are written into the packets without connection tracking, which
// would cost every connection of the container time and memory, and forgets a query that waits for the next engine.
// For a container that tracks its connections itself both changes are between the client and the tracking.
func redirectQueries(addr netip.Addr, udp, tcp uint16) error {
	err := setRules(addr, udp, tcp, false)
	if errors.Is(err, unix.EEXIST) { // an earlier engine's; the kernel takes many milliseconds to delete it
		err = setRules(addr, udp, tcp, true)
	}
	if err != nil {
		return fmt.Errorf("set nftables rules (the kernel needs nf_tables): %w", err)
	}
	return nil
}

func setRules(addr netip.Addr, udp, tcp uint16, replace bool) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Name: table, Family: nftables.TableFamilyIPv4}
	if replace {
		conn.DelTable(t)
	}
	conn.CreateTable(t)
	queries := conn.AddChain(&nftables.Chain{
		Name: "queries", Table: t, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityRaw,
	})
	answers := conn.AddChain(&nftables.Chain{
		Name: "answers", Table: t, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityConntrackHelper,
	})
	for _, p := range []struct {
		proto    byte
		port     uint16
		checksum uint32 // offset in the header
	}{{unix.IPPROTO_UDP, udp, 6}, {unix.IPPROTO_TCP, tcp, 16}} {
		conn.AddRule(&nftables.Rule{
			Table: t, Chain: queries,
			Exprs: rewritePort(addr, daddr, p.proto, dport, port, p.port, p.checksum),
		})
		conn.AddRule(&nftables.Rule{
			Table: t, Chain: answers,
			Exprs: rewritePort(addr, saddr, p.proto, sport, p.port, port, p.checksum),
		})
	}
	return conn.Flush()
}

// Where the fields are in the headers of IPv4, and of UDP and TCP; bytes.
const (
	saddr, daddr = 12, 16
	sport, dport = 0, 2
)

// rewritePort changes one port of the packets of one address and protocol.
func rewritePort(addr netip.Addr, addrAt uint32, proto byte, portAt uint32, from, to uint16, checksumAt uint32) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: addrAt, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: addr.AsSlice()},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{proto}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: portAt, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(from)},
		&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(to)},
		&expr.Payload{
			OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: portAt, Len: 2,
			CsumType: expr.CsumTypeInet, CsumOffset: checksumAt,
		},
	}
}

// What the sockets of an owner are kept as: keptPrefix, owner, and one of the suffixes.
const (
	keptPrefix = "dns/"
	keptUDP    = "/udp"
	keptTCP    = "/tcp"
)

func (s *Server) keepSockets(owner string, sock Sockets) error {
	if s.opts.Keep == nil {
		return nil
	}
	put := func(name string, conn syscall.Conn) error {
		raw, err := conn.SyscallConn()
		if err != nil {
			return err
		}
		var perr error
		err = raw.Control(func(fd uintptr) { perr = s.opts.Keep.Put(name, fd) })
		return errors.Join(err, perr)
	}
	return errors.Join(put(keptPrefix+owner+keptUDP, sock.UDP), put(keptPrefix+owner+keptTCP, sock.TCP))
}

func (s *Server) dropSockets(owner string) error {
	if s.opts.Keep == nil {
		return nil
	}
	return errors.Join(s.opts.Keep.Drop(keptPrefix+owner+keptUDP), s.opts.Keep.Drop(keptPrefix+owner+keptTCP))
}

// inheritSockets takes over what an earlier engine has left. A pair that is not whole is given up.
func (s *Server) inheritSockets() {
	if s.opts.Keep == nil {
		return
	}
	owners := make(map[string]bool)
	for _, name := range s.opts.Keep.Names() {
		rest, ok := strings.CutPrefix(name, keptPrefix)
		owner, _, _ := strings.Cut(rest, "/")
		if ok && owner != "" {
			owners[owner] = true
		}
	}
	for owner := range owners {
		sock, err := s.takeSockets(owner)
		if err != nil {
			err = errors.Join(err, sock.Close(), s.dropSockets(owner))
			s.opts.Log.Warn().Err(err).Str("owner", owner).Msg("name server: sockets of the last engine are of no use")
			continue
		}
		s.kept[owner] = sock
	}
}

func (s *Server) takeSockets(owner string) (sock Sockets, err error) {
	udp, tcp := s.opts.Keep.Take(keptPrefix+owner+keptUDP), s.opts.Keep.Take(keptPrefix+owner+keptTCP)
	if udp != nil {
		sock.UDP, err = packetConn(udp)
	}
	if tcp != nil {
		var terr error
		sock.TCP, terr = tcpListener(tcp)
		err = errors.Join(err, terr)
	}
	if err == nil && (sock.UDP == nil || sock.TCP == nil) {
		err = errors.New("one of two sockets is missing")
	}
	return sock, err
}
