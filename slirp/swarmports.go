package slirp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"moss/engine/network"
	"moss/engine/swarm/table"
	"moss/slirp/balance"
	"moss/slirp/publish"
)

// openedPort is a published port of a service that is open on this host.
type openedPort struct {
	table.Port

	to netip.Addr // this node's own address in the ingress network
}

// ownerOf returns what the publisher knows a port by. No container has such an id.
func ownerOf(p table.Port) string { return fmt.Sprintf("swarm/%s/%d", p.Proto, p.Published) }

// ingressAddr returns this node's own address in the ingress network, which leads to tasks; invalid: it has none.
func ingressAddr(h *table.Hosted) netip.Addr {
	for id, n := range h.Table.Networks {
		if n.Ingress {
			return h.Table.Nodes[h.Node].Addrs[id]
		}
	}
	return netip.Addr{}
}

// setPorts opens the ports of services on this host, and closes those that no service has any more.
func (s *swarmSide) setPorts(ctx context.Context, h *table.Hosted) (problems []string) {
	to := ingressAddr(h)
	wanted := make(map[string]balance.ServicePort)
	ports, taken := balance.PortsOf(h.Table)
	for _, p := range ports {
		wanted[ownerOf(p.Port)] = p
	}
	for _, p := range taken {
		problems = append(problems, fmt.Sprintf("port %d/%s of service %s is not published on this node: it is service %s's",
			p.Published, p.Proto, p.Name, wanted[ownerOf(p.Port)].Name))
	}
	for owner, o := range s.ports {
		if _, still := wanted[owner]; still && o.to == to {
			continue
		}
		if err := s.closePort(ctx, owner); err != nil {
			problems = append(problems, fmt.Sprintf("port %d/%s is still published on this node: %v", o.Published, o.Proto, err))
		}
	}
	for _, p := range ports {
		if _, open := s.ports[ownerOf(p.Port)]; open {
			continue
		}
		if err := s.openPort(ctx, p.Port, to); err != nil {
			problems = append(problems, fmt.Sprintf("port %d/%s of service %s is not published on this node: %v",
				p.Published, p.Proto, p.Name, err))
		}
	}
	return problems
}

func (s *swarmSide) openPort(ctx context.Context, p table.Port, to netip.Addr) error {
	if !to.IsValid() {
		return errNoIngress
	}
	err := s.publisher.Open(ctx, publish.Target{Owner: ownerOf(p), Addr: to}, network.PortRequest{
		Proto: string(p.Proto), ContainerPort: p.Published, HostLow: p.Published,
	})
	if err == nil {
		s.ports[ownerOf(p)] = openedPort{Port: p, to: to}
	}
	return err
}

func (s *swarmSide) closePort(ctx context.Context, owner string) error {
	err := s.publisher.Unpublish(ctx, owner)
	if err == nil {
		delete(s.ports, owner)
	}
	return err
}

// errNoIngress is why no port can be published yet.
var errNoIngress = errors.New("it has no address in the swarm's ingress network yet")

// listPublished returns what an earlier engine may have published for the view that was taken up.
func (s *swarmSide) listPublished() []publish.Published {
	h := s.currentView()
	if h == nil || !ingressAddr(h).IsValid() {
		return nil
	}
	var all []publish.Published
	ports, _ := balance.PortsOf(h.Table)
	for _, p := range ports {
		all = append(all, publish.Published{
			Target: publish.Target{Owner: ownerOf(p.Port), Addr: ingressAddr(h)}, KeepOnly: true,
			Ports: publish.EverywhereOn(string(p.Proto), p.Published, p.Published),
		})
	}
	return all
}

// noteKept notes which of those ports are open.
func (s *swarmSide) noteKept() {
	h := s.currentView()
	if h == nil {
		return
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	ports, _ := balance.PortsOf(h.Table)
	for _, p := range ports {
		if owner := ownerOf(p.Port); s.publisher.Holds(owner) {
			s.ports[owner] = openedPort{Port: p.Port, to: ingressAddr(h)}
		}
	}
}

func (s *swarmSide) currentView() *table.Hosted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}
