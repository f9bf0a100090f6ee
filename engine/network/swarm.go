package network

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"moss/engine/fault"
)

// swarmKey marks the context of a request of moss-swarm.
type swarmKey struct{}

// WithSwarm marks a request as one of moss-swarm, which alone puts containers into networks of the swarm.
func WithSwarm(ctx context.Context) context.Context { return context.WithValue(ctx, swarmKey{}, true) }

// IsSwarm reports whether WithSwarm has marked the request.
func IsSwarm(ctx context.Context) bool { return ctx.Value(swarmKey{}) != nil }

// NotAttachable is what clients are told that put a container into a network of the swarm themselves.
func NotAttachable(name string) error {
	return fault.Forbidden("network %s not manually attachable", name)
}

// CheckJoin returns fault.Forbidden for networks that the request cannot put a container into: those that only hold settings, and
// those of the swarm unless it is one of moss-swarm.
func (n *Network) CheckJoin(ctx context.Context) error {
	switch {
	case n.ConfigOnly:
		return NoMembers(n.Name)
	case n.Scope() == ScopeSwarm && !IsSwarm(ctx):
		return NotAttachable(n.Name)
	default:
		return nil
	}
}

// NoMembers is what clients are told that put a container into a network that only holds settings.
func NoMembers(name string) error {
	return fault.Forbidden("network %s is a configuration network: no container can be in it", name)
}

// swarmIDLen is the number of digits of a swarm's id.
const swarmIDLen = 25

// IsSwarmID reports whether s is a whole id of a swarm's object.
func IsSwarmID(s string) bool { return len(s) == swarmIDLen && isSwarmPrefix(s) }

// isSwarmPrefix reports whether s could begin such an id.
func isSwarmPrefix(s string) bool {
	return s != "" && len(s) <= swarmIDLen && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// PutSwarm makes a network of the swarm, or changes the one that is there. ID, Name, Internal, one pool of IPv4 and Overlay must
// be set. fault.Invalid for settings that cannot be, fault.Conflict for a subnet or a device that another network has.
func (s *Service) PutSwarm(ctx context.Context, n *Network) error {
	if err := s.acquireToken(ctx); err != nil {
		return err
	}
	defer s.releaseToken()
	next := *n
	next.Driver, next.IPAM.Driver, next.Created = DriverOverlay, ipamDefault, time.Now().UTC()
	if err := checkOverlay(&next); err != nil {
		return fmt.Errorf("network %s of the swarm: %w", n.Name, err)
	}
	s.mu.Lock()
	old := s.networks[n.ID]
	s.mu.Unlock()
	if old != nil {
		next.Created, next.Device = old.Created, old.Device
	}
	ctx = context.WithoutCancel(ctx) // from here on it is made, even if the client hangs up
	made, err := s.opt.Driver.PutNetwork(ctx, &next)
	if err != nil {
		return fmt.Errorf("network %s of the swarm: %w", n.Name, err)
	}
	if old != nil && reflect.DeepEqual(old, made) {
		return nil
	}
	if err := s.saveNetwork(made); err != nil {
		return fmt.Errorf("network %s of the swarm: %w", n.Name, err) // the next call writes it
	}
	if old == nil {
		s.publishEvent("create", made)
	}
	return nil
}

// DropSwarm deletes a network of the swarm. fault.Conflict while a container has a place in it. One that is not there is no
// error.
func (s *Service) DropSwarm(ctx context.Context, id string) error {
	if err := s.acquireToken(ctx); err != nil {
		return err
	}
	defer s.releaseToken()
	s.mu.Lock()
	n := s.networks[id]
	s.mu.Unlock()
	if n == nil || n.Scope() != ScopeSwarm {
		return nil
	}
	return s.removeNetwork(ctx, n)
}

// SwarmNetworks returns the networks of the swarm, by name.
func (s *Service) SwarmNetworks() []*Network {
	return slices.DeleteFunc(s.sortedNetworks(), func(n *Network) bool { return n.Scope() != ScopeSwarm })
}

// checkOverlay returns fault.Invalid for a network that no swarm has.
func checkOverlay(n *Network) error {
	if !IsSwarmID(n.ID) || n.Overlay == nil {
		return fault.Invalid("id %q: must be %d digits and lower-case letters", n.ID, swarmIDLen)
	}
	if err := checkName(n.Name); err != nil {
		return err
	}
	pool, ok := n.Pool(false)
	switch {
	case !ok || len(n.IPAM.Pools) != 1:
		return fault.Invalid("it must have one subnet of IPv4")
	case !pool.Subnet.Contains(pool.Gateway):
		return fault.Invalid("the gateway %s is not in the subnet %s", pool.Gateway, pool.Subnet)
	case n.Overlay.Own.IsValid() && !pool.Subnet.Contains(n.Overlay.Own):
		return fault.Invalid("this node's address %s is not in the subnet %s", n.Overlay.Own, pool.Subnet)
	case !IsDevice(n.Overlay.Tunnel):
		return fault.Invalid("the tunnel's device %q: must be 1 to %d bytes of the name of a network device", n.Overlay.Tunnel,
			longestDevice)
	case n.Overlay.MTU < LeastMTU || n.Overlay.MTU > MostMTU:
		return fault.Invalid("the MTU %d: must be %d to %d bytes", n.Overlay.MTU, LeastMTU, MostMTU)
	}
	return errors.Join(checkSubnet(pool.Subnet), checkUsed(n))
}

// checkUsed refuses what a network of a swarm does not have.
func checkUsed(n *Network) error {
	if Builtin(n.Name) || n.EnableIPv6 || len(n.Options) > 0 {
		return fault.Invalid("it has the name or the options of another driver")
	}
	return nil
}
