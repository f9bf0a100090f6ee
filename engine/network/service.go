package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/record"
)

// Driver builds networks of the drivers bridge and overlay.
type Driver interface {
	// Adopt tells of all networks that there are, before anything else is asked, and returns those whose pools changed.
	// It makes no device: that happens when the first container joins.
	Adopt(ctx context.Context, all []*Network) (changed []*Network, err error)
	// AddNetwork fills the pools, sets Device and makes that; n stays as it is. fault.Invalid for impossible pools,
	// fault.Conflict for some that overlap with others and for a device's name in use, fault.Unavailable when no subnet is
	// left. On error nothing is left.
	AddNetwork(ctx context.Context, n *Network) (*Network, error)
	// PutNetwork makes a network of the driver overlay, or changes the one with its id, sets Device and makes that; n stays as
	// it is. fault.Conflict for a subnet that overlaps with another network's, and for another subnet while a container has a
	// place in the network. On error it is as before.
	PutNetwork(ctx context.Context, n *Network) (*Network, error)
	// RemoveNetwork takes the device away. fault.Conflict while a container has a place in the network. One that is not
	// known is no error.
	RemoveNetwork(ctx context.Context, id string) error
}

// events is told what happened.
type events interface {
	Publish(e event.Event)
}

// Options is what a Service is made of. All of it but MTU is required.
type Options struct {
	Dir    string // where the records lie; made if it is missing
	Driver Driver
	Events events
	MTU    int // bytes that a packet on the way out may have; 0: not known
	Log    zerolog.Logger
	Damage damaged
}

// damaged takes files that are not what they should be.
type damaged interface {
	SetAside(path string, why error) error
}

// Service keeps all networks. Readers use what is published and never wait for a verb; verbs queue.
type Service struct {
	opt   Options
	token chan struct{} // held by who makes or removes a network

	mu       sync.Mutex          // guards networks
	networks map[string]*Network // by id
}

// Open reads the records, makes those of the built-in networks if they are missing and tells the driver of all. A record
// that is damaged is set aside.
func Open(ctx context.Context, opt Options) (*Service, error) {
	s := &Service{opt: opt, token: make(chan struct{}, 1), networks: map[string]*Network{}}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open networks: %w", err)
	}
	if err := record.Sweep(opt.Dir); err != nil {
		return nil, fmt.Errorf("open networks: %w", err)
	}
	if err := s.loadNetworks(); err != nil {
		return nil, fmt.Errorf("open networks: %w", err)
	}
	if err := s.ensureBuiltin(); err != nil {
		return nil, fmt.Errorf("make the built-in networks: %w", err)
	}
	changed, err := opt.Driver.Adopt(ctx, s.builtNetworks())
	if err != nil {
		return nil, fmt.Errorf("take up the networks: %w", err)
	}
	for _, n := range changed {
		if err := s.saveNetwork(n); err != nil {
			return nil, fmt.Errorf("take up network %s: %w", n.Name, err)
		}
	}
	return s, nil
}

// builtNetworks returns the networks that the driver builds, the oldest first.
func (s *Service) builtNetworks() []*Network {
	all := s.sortedNetworks()
	all = slices.DeleteFunc(all, func(n *Network) bool { return n.Driver == DriverHost || n.Driver == DriverNull })
	slices.SortStableFunc(all, func(a, b *Network) int { return a.Created.Compare(b.Created) })
	return all
}

// sortedNetworks returns the networks by name, those of one name by age.
func (s *Service) sortedNetworks() []*Network { return s.sortedAmong(nil) }

// sortedAmong is sortedNetworks with the networks of the swarm that its managers know: they take the place of what this node has
// of them.
func (s *Service) sortedAmong(cluster []*Network) []*Network {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.networks))
	s.mu.Unlock()
	all = slices.DeleteFunc(all, func(n *Network) bool { return indexOf(cluster, n.ID) >= 0 })
	all = append(all, cluster...)
	slices.SortFunc(all, func(a, b *Network) int {
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		if !a.Created.Equal(b.Created) {
			return a.Created.Compare(b.Created)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

func inScope(n *Network, scope string) bool { return scope == "" || n.Scope() == scope }

func indexOf(networks []*Network, id string) int {
	return slices.IndexFunc(networks, func(n *Network) bool { return n.ID == id })
}

// Find returns the network with that id, of that name, or with the one id that begins so. fault.NotFound if there is none,
// fault.Conflict if several are meant.
func (s *Service) Find(ref string) (*Network, error) { return s.FindAmong(ref, "", nil) }

// FindAmong is Find, among the networks of the swarm that its managers know as well. Only those of a scope count, unless it is
// empty.
func (s *Service) FindAmong(ref, scope string, cluster []*Network) (*Network, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := indexOf(cluster, ref); i >= 0 && inScope(cluster[i], scope) {
		return cluster[i], nil
	}
	if n := s.networks[ref]; n != nil && inScope(n, scope) {
		return n, nil
	}
	var named, begun []*Network
	note := func(n *Network) {
		if !inScope(n, scope) {
			return
		}
		if n.Name == ref {
			named = append(named, n)
		}
		if (id.IsPrefix(ref) || isSwarmPrefix(ref)) && strings.HasPrefix(n.ID, ref) {
			begun = append(begun, n)
		}
	}
	for _, n := range cluster {
		note(n)
	}
	for _, n := range s.networks {
		if indexOf(cluster, n.ID) < 0 {
			note(n)
		}
	}
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(named) > 1:
		return nil, fault.Conflict("network %s is ambiguous (%d matches found based on name)", ref, len(named))
	case len(begun) == 1:
		return begun[0], nil
	case len(begun) > 1:
		return nil, fault.Conflict("network %s is ambiguous (%d matches found based on ID prefix)", ref, len(begun))
	default:
		return nil, NoSuch(ref)
	}
}

// NameTaken is what clients are told of a network whose name another one has.
func NameTaken(name string) error { return fault.Conflict("network with name %s already exists", name) }

// NoSuch is what clients are told of a network that is not there.
func NoSuch(ref string) error { return fault.NotFound("network %s not found", ref) }

// Remove deletes a network. fault.NotFound if there is none, fault.Forbidden for a built-in one, for one of a swarm and
// for one whose settings another one has, fault.Conflict while a container has a place in it.
func (s *Service) Remove(ctx context.Context, ref string) error {
	if err := s.acquireToken(ctx); err != nil {
		return err
	}
	defer s.releaseToken()
	n, err := s.Find(ref)
	if err != nil {
		return err
	}
	if n.Scope() == ScopeSwarm {
		return fault.Forbidden("network %s is of the swarm: its managers remove it", n.Name)
	}
	return s.removeNetwork(ctx, n)
}

// removeNetwork is Remove for who holds the token.
func (s *Service) removeNetwork(ctx context.Context, n *Network) (err error) {
	if n.Builtin() {
		return fault.Forbidden("%s is a pre-defined network and cannot be removed", n.Name)
	}
	if user := s.configUser(n); user != nil {
		return fault.Forbidden("configuration network %s is in use: network %s has its settings", n.Name, user.Name)
	}
	ctx = context.WithoutCancel(ctx) // from here on all of it goes, or nothing
	if err := s.opt.Driver.RemoveNetwork(ctx, n.ID); err != nil {
		if fault.Is(err, fault.Conflict) {
			return fault.Conflict("error while removing network: network %s id %s has active endpoints", n.Name, n.ID)
		}
		return fmt.Errorf("remove network %s: %w", n.Name, err)
	}
	if err := record.Remove(s.recordPath(n.ID)); err != nil {
		_, back := s.buildNetwork(ctx, n)
		back = errors.Join(back, record.PutVolatile(s.recordPath(n.ID), n)) // it may be gone, and only its folder not be synced
		if back != nil {
			s.opt.Log.Error().Err(back).Str("network", n.Name).Msg("network not made again: its record could not be removed")
		}
		return fmt.Errorf("remove network %s: %w", n.Name, err)
	}
	s.mu.Lock()
	delete(s.networks, n.ID)
	s.mu.Unlock()
	s.publishEvent("destroy", n)
	return nil
}

// acquireToken takes the token; releaseToken gives it back.
func (s *Service) acquireToken(ctx context.Context) error {
	select {
	case s.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Service) releaseToken() { <-s.token }

// addNetwork publishes a network to the readers.
func (s *Service) addNetwork(n *Network) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.networks[n.ID] = n
}

func (s *Service) publishEvent(action string, n *Network) {
	s.opt.Events.Publish(event.Event{
		Type: event.TypeNetwork, Action: action, ID: n.ID, Attributes: map[string]string{"name": n.Name, "type": n.Driver},
		Time: time.Now(),
	})
}
