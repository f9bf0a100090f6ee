// Package hostaddr lets containers reach the host by one address that never changes. It follows the address by which the
// host itself goes outside, and keeps an nftables table of its own in the containers' network namespace that sends there
// what is for the fixed address. What listens on the host's loopback stays out of reach: nothing is ever sent there.
//
// It knows nothing of networks and containers, and which of them get out at all is for others to say.
package hostaddr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/google/nftables"
	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/thread"
)

// outside stands for all addresses beyond the host's own networks; nothing is sent there (RFC 5737, TEST-NET-2).
var outside = net.IPv4(198, 51, 100, 1) //nolint:gochecknoglobals // a constant

// Options says where things are. All fields but To and Log must be set.
type Options struct {
	NetNS  string     // the containers' network namespace, bound to a file
	Uplink string     // the device there that leads outside: what comes in by it is left alone
	Addr   netip.Addr // IPv4, by which containers reach the host
	To     netip.Addr // where that leads; invalid: to the host's outward address, whichever it is at the time
	Log    zerolog.Logger
}

// Follower keeps the table. All methods may be called at the same time.
type Follower struct {
	opts   Options
	rules  *nftables.Conn
	inside *netlink.Handle // of the containers' network namespace, for its connections
	news   *os.File        // of the host's addresses and routes; nil if To is fixed
	work   sync.WaitGroup

	mu  sync.Mutex // guards now
	now netip.Addr
}

// Start sets the table and follows the host's address until Close. What an earlier engine has left is replaced.
// Incomplete options are a fault.Internal.
func Start(ctx context.Context, opts Options) (_ *Follower, err error) {
	if opts.NetNS == "" || opts.Uplink == "" || !opts.Addr.Is4() {
		return nil, fault.Internal("host address: incomplete options %+v", opts)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := &Follower{opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("lead %s to the host: %w", opts.Addr, err), f.Close())
		}
	}()
	if err := f.openSockets(); err != nil {
		return nil, err
	}
	if opts.To.IsValid() {
		return f, f.setTarget(opts.To)
	}
	if f.news, err = subscribeChanges(); err != nil { // before the first look, so that no change is missed
		return nil, err
	}
	addr, err := outwardAddr()
	if err != nil {
		return nil, err
	}
	if err := f.setTarget(addr); err != nil {
		return nil, err
	}
	f.work.Go(func() { f.followChanges(f.news) })
	return f, nil
}

// Target returns where the address leads now; invalid: nowhere, since the host has no way out.
func (f *Follower) Target() netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Close ends the work of this process and waits for it. The table stays for the next engine.
func (f *Follower) Close() error {
	var errs []error
	if f.news != nil {
		errs = append(errs, f.news.Close())
		f.work.Wait()
	}
	if f.rules != nil {
		errs = append(errs, f.rules.CloseLasting())
	}
	if f.inside != nil {
		f.inside.Close()
	}
	return errors.Join(errs...)
}

// openSockets opens the sockets into the containers' network namespace.
func (f *Follower) openSockets() error {
	return thread.InNetworkAt(f.opts.NetNS, func() (err error) {
		if f.rules, err = nftables.New(nftables.AsLasting()); err != nil {
			return fmt.Errorf("open nftables: %w", err)
		}
		if f.inside, err = netlink.NewHandle(unix.NETLINK_NETFILTER); err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		return nil
	})
}

// followChanges ends when news is closed.
func (f *Follower) followChanges(news *os.File) {
	for buf := make([]byte, 8<<10); ; { // a message that does not fit is cut, and its content is of no interest
		_, err := news.Read(buf)
		if err != nil && !errors.Is(err, unix.ENOBUFS) { // some are lost then, which is a change as well
			if !errors.Is(err, os.ErrClosed) {
				f.opts.Log.Warn().Err(err).Msg("host's address not followed any more")
			}
			return
		}
		addr, err := outwardAddr()
		if err == nil && addr != f.Target() {
			if err = f.setTarget(addr); err == nil {
				f.opts.Log.Info().Stringer("address", addr).Msg("host's outward address")
			}
		}
		if err != nil {
			f.opts.Log.Warn().Err(err).Msg("containers may not reach the host")
		}
	}
}

// setTarget makes the table send to addr, or takes it away if addr is invalid. Connections that went elsewhere are
// forgotten: those without packets of their own end, a client that sends on by UDP reaches the new place.
func (f *Follower) setTarget(addr netip.Addr) error {
	if err := setTable(f.rules, f.opts.Uplink, f.opts.Addr, addr); err != nil {
		return err
	}
	f.mu.Lock()
	f.now = addr
	f.mu.Unlock()
	// A kernel that cannot list connections has at worst some that wait for their time-out.
	if _, err := f.inside.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, elsewhere{f.opts.Addr, addr}); err != nil {
		f.opts.Log.Debug().Err(err).Msg("connections to the host's former address not forgotten")
	}
	return nil
}

// elsewhere matches the connections to the address from that lead to another place than to.
type elsewhere struct{ from, to netip.Addr }

// MatchConntrackFlow leaves out what leads to the right place already: a connection that a container has made since the
// table was set, or under an earlier engine. One that is forgotten in its middle ends.
func (e elsewhere) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	dialed, _ := netip.AddrFromSlice(flow.Forward.DstIP)
	answers, _ := netip.AddrFromSlice(flow.Reverse.SrcIP)
	return dialed.Unmap() == e.from && answers.Unmap() != e.to
}

// subscribeChanges opens a socket that is readable after each change of the host's IPv4 addresses and routes.
func subscribeChanges() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	news := os.NewFile(uintptr(fd), "netlink")
	groups := uint32(unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_LINK)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		return nil, errors.Join(os.NewSyscallError("bind", err), news.Close())
	}
	return news, nil
}

// outwardAddr returns the source address of what the host sends outside; invalid if it has no way there, or one that begins
// on its loopback.
func outwardAddr() (netip.Addr, error) {
	routes, err := netlink.RouteGet(outside)
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES),
		errors.Is(err, unix.EINVAL):
		return netip.Addr{}, nil // no route, or one of the kinds unreachable, prohibit and blackhole
	case err != nil:
		return netip.Addr{}, fmt.Errorf("ask for the host's route outside: %w", err)
	}
	for _, r := range routes {
		if addr, ok := netip.AddrFromSlice(r.Src.To4()); ok && !addr.IsLoopback() && !addr.IsUnspecified() {
			return addr, nil
		}
	}
	return netip.Addr{}, nil
}
