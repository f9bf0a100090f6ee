// Package swarmnet makes a node's view of its swarm true in the engine: its networks, and by package slirp its rules, names and
// published ports. It remembers the view for an engine that follows in the same boot. It knows nothing of where views come from.
package swarmnet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/engine/record"
	"moss/engine/swarm/table"
)

// networks keeps the records of the swarm's networks. See network.Service.
type networks interface {
	PutSwarm(ctx context.Context, n *network.Network) error
	DropSwarm(ctx context.Context, id string) error
	SwarmNetworks() []*network.Network
}

// host makes the rest true. See slirp.Network.
type host interface {
	TakeUpSwarm(h *table.Hosted)
	ApplySwarm(ctx context.Context, h *table.Hosted) (problems []string, err error)
}

// damaged takes files that are not what they should be.
type damaged interface {
	SetAside(path string, why error) error
}

// Options say what a Service works with. All are required.
type Options struct {
	Path     string // of the file that remembers the view, in a folder of this boot
	Networks networks
	Host     host
	Damage   damaged
	Log      zerolog.Logger
}

// Service makes views true, one at a time.
type Service struct {
	opt Options

	mu   sync.Mutex    // held while a view is made true, over system calls; guards last
	last *table.Hosted // nil: none
}

// Open takes up the view that an earlier engine of this boot has made true, before the containers' networks are restored. A
// damaged file is set aside. Resume does the rest.
func Open(opt Options) (*Service, error) {
	s := &Service{opt: opt}
	var h table.Hosted
	err := record.Get(opt.Path, &h)
	if fault.Is(err, fault.NotFound) {
		return s, nil
	}
	if err == nil {
		err = checkHosted(&h)
	}
	if err != nil {
		return s, opt.Damage.SetAside(opt.Path, err)
	}
	s.last = &h
	opt.Host.TakeUpSwarm(&h)
	return s, nil
}

// Resume makes the view that was taken up true again, once the containers' networks are restored. Without one, networks of the
// swarm that no container is in go: they are from an earlier boot.
func (s *Service) Resume(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var done table.Problems
	var err error
	if s.last != nil {
		done, err = s.makeTrue(ctx, s.last)
	} else {
		err = s.dropNetworks(ctx, nil)
	}
	for _, p := range done.Problems {
		s.opt.Log.Warn().Str("problem", p).Msg("the swarm's networks")
	}
	if err != nil {
		s.opt.Log.Error().Err(err).Msg("the swarm's networks are not as they were")
	}
}

// Apply makes a view true and remembers it. What could not be made true is in the answer, in sentences. fault.Invalid for a view
// that no swarm has; after another error the same view should be applied again.
func (s *Service) Apply(ctx context.Context, h *table.Hosted) (table.Problems, error) {
	if err := checkHosted(h); err != nil {
		return table.Problems{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // half of a view would be none
	done, err := s.makeTrue(ctx, h)
	if err != nil {
		return table.Problems{}, err
	}
	if len(h.Table.Networks) == 0 {
		err = s.forget()
	} else {
		err = record.PutVolatile(s.opt.Path, h)
	}
	if err != nil {
		return table.Problems{}, fmt.Errorf("remember the swarm's networks: %w", err)
	}
	s.last = h
	return done, nil
}

// End forgets the view at the end of the engine: what it is about ends as well.
func (s *Service) End() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forget()
}

// forget wants mu to be held.
func (s *Service) forget() error { return record.Remove(s.opt.Path) }

// makeTrue wants mu to be held.
func (s *Service) makeTrue(ctx context.Context, h *table.Hosted) (done table.Problems, err error) {
	// Networks that have gone first: others may have their subnets.
	if err := s.dropNetworks(ctx, h.Table.Networks); err != nil {
		return done, err
	}
	for _, id := range slices.Sorted(maps.Keys(h.Table.Networks)) {
		err := s.opt.Networks.PutSwarm(ctx, toNetwork(h, id))
		if fault.Is(err, fault.Conflict) || fault.Is(err, fault.Invalid) {
			if done.Refused == nil {
				done.Refused = map[string]string{}
			}
			done.Refused[id] = err.Error()
			done.Problems = append(done.Problems, fmt.Sprintf("this node has no part in it: %v", err))
		} else if err != nil {
			return done, err
		}
	}
	more, err := s.opt.Host.ApplySwarm(ctx, h)
	done.Problems = slices.Concat(done.Problems, listDoubles(h.Table), more)
	return done, err
}

// dropNetworks removes the networks of the swarm that are not among the wanted ones. Those with containers stay for now.
func (s *Service) dropNetworks(ctx context.Context, wanted map[string]table.Network) error {
	var errs []error
	for _, n := range s.opt.Networks.SwarmNetworks() {
		if _, still := wanted[n.ID]; still {
			continue
		}
		if err := s.opt.Networks.DropSwarm(ctx, n.ID); err != nil && !fault.Is(err, fault.Conflict) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// toNetwork returns one network of a view.
func toNetwork(h *table.Hosted, id string) *network.Network {
	n := h.Table.Networks[id]
	made := &network.Network{
		ID: id, Name: n.Name, Labels: n.Labels, Internal: n.Internal,
		IPAM:    network.IPAM{Pools: []network.Pool{{Subnet: n.Subnet, Gateway: n.Gateway}}},
		Overlay: &network.Overlay{Tunnel: h.Tunnel, MTU: h.MTU, Ingress: n.Ingress},
	}
	if n.Ingress {
		made.Overlay.Own = h.Table.Nodes[h.Node].Addrs[id]
	}
	return made
}
