package slirp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"moss/engine/network"
	"moss/engine/swarm/table"
	"moss/slirp/balance"
	"moss/slirp/dns"
	"moss/slirp/publish"
)

// swarmSide makes what this node's part in a swarm needs beside its networks: rules that lead to tasks, names, and published
// ports. Without a view it does nothing.
type swarmSide struct {
	lans      *lanTable
	places    *placeTable
	names     *dns.Server
	publisher *publish.Publisher
	netns     string
	log       zerolog.Logger

	applying sync.Mutex            // held while a view is made true, over system calls; guards gate, gated, ports, named
	gate     balance.Gate          // as this process has set it
	gated    bool                  // it has
	ports    map[string]openedPort // by owner
	named    []string              // networks that have records

	mu      sync.Mutex                // held while the rules of a container are set, over system calls; guards view, clients
	view    *table.Hosted             // nil: none
	clients map[string]balance.Client // by container: its rules as this process has set them
}

// TakeUpSwarm is called at most once, after Adopt and before Restore, with the view that an earlier engine has made true: its
// names are known, and its ports stay open, until ApplySwarm makes the rest of it true again.
func (n *Network) TakeUpSwarm(h *table.Hosted) {
	s := n.swarm
	s.applying.Lock()
	defer s.applying.Unlock()
	s.setView(h)
	s.setNames(h.Table)
}

// ApplySwarm makes a view true on this host, whose networks have been put, and returns what could not be made so, each in a
// sentence. An error says that nothing can be relied on before the same view is applied again. Connections that are open go on.
func (n *Network) ApplySwarm(ctx context.Context, h *table.Hosted) (problems []string, err error) {
	s := n.swarm
	s.applying.Lock()
	defer s.applying.Unlock()
	s.setView(h)
	for _, l := range n.lans.listLANs() {
		if _, hosted := h.Table.Networks[l.record.ID]; hosted {
			if err := n.bringUpLAN(ctx, l); err != nil {
				problems = append(problems, fmt.Sprintf("network %s has no bridge: %v", l.record.Name, err))
			}
		}
	}
	problems = append(problems, s.renewClients()...)
	if err := s.setGate(h); err != nil {
		return problems, fmt.Errorf("lead to the tasks of the swarm: %w", err)
	}
	problems = append(problems, s.setPorts(ctx, h)...)
	s.setNames(h.Table) // last: they lead to what is there
	return problems, nil
}

func (s *swarmSide) setView(h *table.Hosted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view = h
}

// overlaysOf returns the ids of the swarm's networks that a container is in.
func (s *swarmSide) overlaysOf(p *place) []string {
	var ids []string
	for _, ep := range p.sandbox.Endpoints {
		if network.IsSwarmID(ep.NetworkID) {
			ids = append(ids, ep.NetworkID)
		}
	}
	return ids
}

// renewClients sets the rules of all containers in networks of the swarm.
func (s *swarmSide) renewClients() (problems []string) {
	for _, id := range s.places.listContainers() {
		p := s.places.findPlace(id)
		if p == nil {
			continue
		}
		if err := s.renewClient(id, p); err != nil && s.places.findPlace(id) != nil { // it may have ended meanwhile
			problems = append(problems, fmt.Sprintf("container %s does not reach services as it should: %v", id, err))
		}
	}
	return problems
}

// renewClient sets the rules in a container's namespace unless they are as the view says.
func (s *swarmSide) renewClient(containerID string, p *place) error {
	networks := s.overlaysOf(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.clients[containerID]
	if s.view == nil || len(networks) == 0 && !known {
		return nil
	}
	next := balance.ClientOf(s.view.Table, networks)
	if known && reflect.DeepEqual(old, next) {
		return nil
	}
	if err := next.Apply(p.sandbox.Path); err != nil {
		return err
	}
	s.clients[containerID] = next
	before := &old
	if !known {
		before = nil
	}
	s.noteKeptFlows(next.DropFlows(p.sandbox.Path, before))
	return nil
}

// noteKeptFlows notes that some flows may lead to tasks that have gone until they are silent for a while: that is all there is to
// it on a kernel that cannot list connections.
func (s *swarmSide) noteKeptFlows(err error) {
	if err != nil {
		s.log.Debug().Err(err).Msg("flows to tasks that have gone not forgotten")
	}
}

// forgetClient forgets what is known of the rules of a container that has left.
func (s *swarmSide) forgetClient(containerID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, containerID)
}

// setGate sets the rules in the namespace of the bridges unless they are as the view says.
func (s *swarmSide) setGate(h *table.Hosted) error {
	bridges := make(map[string]string, len(h.Table.Networks))
	for id := range h.Table.Networks {
		if l := s.lans.findLAN(id); l != nil {
			bridges[id] = l.record.Device
		}
	}
	next := balance.GateOf(h.Table, h.Node, h.Tunnel, bridges)
	if s.gated && reflect.DeepEqual(s.gate, next) {
		return nil
	}
	var err error
	if len(bridges) == 0 {
		err = balance.Remove(s.netns)
	} else {
		err = next.Apply(s.netns)
	}
	if err != nil {
		return err
	}
	before := &s.gate
	if !s.gated {
		before = nil
	}
	s.noteKeptFlows(next.DropFlows(s.netns, before))
	s.gate, s.gated = next, true
	return nil
}

// setNames replaces the names of services, tasks and their containers.
func (s *swarmSide) setNames(t *table.Table) {
	for _, id := range s.named {
		if _, still := t.Networks[id]; !still {
			s.names.SetRecords(id, dns.Records{})
		}
	}
	s.named = slices.Collect(maps.Keys(t.Networks))
	for id, records := range recordsOf(t) {
		s.names.SetRecords(id, records)
	}
}

// closePorts takes away what would outlive the containers' networks.
func (s *swarmSide) closePorts(ctx context.Context) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	errs := make([]error, 0, len(s.ports))
	for owner := range s.ports {
		errs = append(errs, s.closePort(ctx, owner))
	}
	return errors.Join(errs...)
}
