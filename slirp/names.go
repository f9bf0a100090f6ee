package slirp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rs/zerolog"

	"moss/engine/network"
	"moss/slirp/dns"
	"moss/slirp/uplink"
)

// gateway is the owner of the name server that all containers of the default network share. No container has that id.
const gateway = "default"

// names serves the names of containers: the name servers and the contents of resolv.conf.
type names struct {
	lans   *lanTable
	server *dns.Server
	host   *dns.Host
	netns  string     // the detached namespace
	reach  netip.Addr // the host, as containers see it; invalid: they do not
	log    zerolog.Logger
	shared atomic.Bool // the gateway's name server answers
}

func newNames(ctx context.Context, opts Options, lans *lanTable) *names {
	n := &names{lans: lans, host: dns.NewHost("/"), netns: opts.netNS(), log: opts.Log}
	if opts.Driver != uplink.None {
		n.reach = uplink.HostAddr()
	}
	n.server = dns.NewServer(ctx, dns.Options{Host: n.host, Keep: opts.Keep, Log: opts.Log})
	return n
}

func (n *names) close() error { return n.server.Close() }

// fillDNSConfig fills in what the container's resolv.conf says.
func (n *names) fillDNSConfig(p *place) {
	s := &p.sandbox
	var first *lan
	for _, ep := range s.Endpoints {
		if l := n.lans.findLAN(ep.NetworkID); l != nil && l.record.Name == network.Bridge {
			first = l
		} else if l != nil {
			p.resolve = true // and it goes on when the container leaves the network: its resolv.conf says so
		}
	}
	s.DNS, s.Search, s.Options, s.Host = nil, n.host.Search(), n.host.Options(), netip.Addr{}
	if s.Primary != "" {
		s.Host = n.reach
	}
	switch {
	case p.resolve:
		// Names without a dot are asked for as they are: those of containers.
		s.DNS = []string{dns.Address}
		s.Options = append(slices.DeleteFunc(s.Options, isNdots), "ndots:0")
	case len(p.request.DNS) > 0:
		for _, a := range p.request.DNS {
			s.DNS = append(s.DNS, a.String())
		}
	case first != nil:
		s.DNS = []string{first.link.IPv4.Addr().String()}
	}
}

func isNdots(option string) bool { return len(option) > 6 && option[:6] == "ndots:" }

// openServer makes the container's own name server, in its namespace.
func (n *names) openServer(p *place, ns *os.File) error {
	sock, err := dns.Open(ns)
	if err != nil {
		return err
	}
	return n.server.Attach(p.request.ContainerID, sock, n.viewOf(p))
}

// openSharedServer makes the name server at the default network's gateway, unless it is there.
func (n *names) openSharedServer(l *lan) error {
	if n.shared.Load() {
		return nil
	}
	ns, err := os.Open(n.netns)
	if err != nil {
		return fmt.Errorf("open the default network's name server: %w", err)
	}
	sock, err := dns.OpenAt(ns, l.link.IPv4.Addr())
	if err = errors.Join(err, ns.Close()); err != nil {
		return err
	}
	if err := n.server.Attach(gateway, sock, n.sharedView()); err != nil {
		return err
	}
	n.shared.Store(true)
	return nil
}

func (n *names) sharedView() dns.View {
	return dns.View{Outside: n.reach.IsValid(), Host: n.reach, NS: n.netns}
}

// viewOf returns what the container's name server knows and asks.
func (n *names) viewOf(p *place) dns.View {
	v := dns.View{
		Links: make(map[string]dns.Links), Servers: p.request.DNS, NS: p.sandbox.Path, Host: p.sandbox.Host,
		Outside: p.sandbox.Primary != "" && n.reach.IsValid(),
	}
	for _, a := range p.request.Attach {
		ep, ok := p.sandbox.Endpoints[a.Name]
		l := n.lans.findLAN(ep.NetworkID)
		if !ok || l == nil || l.record.Name == network.Bridge || l.isIngress() {
			continue
		}
		v.Networks = append(v.Networks, ep.NetworkID)
		v.Links[ep.NetworkID] = a.Links
	}
	return v
}

// registerNames makes the container known to the others in its networks.
func (n *names) registerNames(p *place) {
	for _, a := range p.request.Attach {
		ep, ok := p.sandbox.Endpoints[a.Name]
		l := n.lans.findLAN(ep.NetworkID)
		if !ok || l == nil || len(a.Names) == 0 {
			continue
		}
		addrs, err := addrsOf(ep)
		if err != nil {
			continue // of a record that somebody has written by hand: Restore has said so
		}
		m := dns.Member{ContainerID: p.request.ContainerID, Names: a.Names, Addrs: addrs}
		if !strings.Contains(l.record.Name, " ") { // no host's name has one
			m.Network = l.record.Name
		}
		n.server.Put(ep.NetworkID, m)
	}
}

// unregisterNames makes the container unknown.
func (n *names) unregisterNames(p *place) {
	for _, ep := range p.sandbox.Endpoints {
		n.server.Remove(ep.NetworkID, p.request.ContainerID)
	}
}

// updateServer tells the container's own name server of new networks and links, or opens it if it has none yet.
func (n *names) updateServer(old, now *place) error {
	if !now.resolve {
		return nil
	}
	if old.resolve {
		return n.server.Update(now.request.ContainerID, n.viewOf(now))
	}
	ns, err := os.Open(now.sandbox.Path)
	if err != nil {
		return fmt.Errorf("open the container's name server: %w", err)
	}
	return errors.Join(n.openServer(now, ns), ns.Close())
}

// closeServer ends the container's own name server.
func (n *names) closeServer(containerID string) error { return n.server.Detach(containerID) }

// restoreServers goes on with the name servers of an earlier engine and closes those without a container; then it opens
// what is missing.
func (n *names) restoreServers(live []*place) error {
	var missing []*place
	for _, p := range live {
		n.registerNames(p)
		if p.resolve && !n.server.Adopt(p.request.ContainerID, n.viewOf(p)) {
			missing = append(missing, p)
		}
	}
	l := n.lans.findDefault()
	shares := len(live) > 0 && l != nil && l.isUp() // without containers nobody asks before the first Join
	// It may be that the bridge was missing and has just been made, with its name server.
	if shares && !n.shared.Load() {
		n.shared.Store(n.server.Adopt(gateway, n.sharedView()))
	}
	errs := []error{n.server.Sweep()}
	for _, p := range missing {
		ns, err := os.Open(p.sandbox.Path)
		if err == nil {
			err = errors.Join(n.openServer(p, ns), ns.Close())
		}
		errs = append(errs, err)
	}
	if shares {
		errs = append(errs, n.openSharedServer(l))
	}
	return errors.Join(errs...)
}
