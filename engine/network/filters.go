package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"moss/engine/fault"
	"moss/engine/filter"
	"moss/engine/prune"
)

// List returns the networks that pass the filters, by name, with those of the swarm that its managers know: driver, id and name
// (all or part, or a pattern), label (all of them must match), scope, type, which is custom or builtin, and dangling, which is
// whether no container has a place in it: used tells, by id. Several values of another filter mean any of them. fault.Invalid
// for another filter or value.
func (s *Service) List(filters map[string][]string, cluster []*Network, used func(id string) bool) ([]*Network, error) {
	var tests []func(*Network) bool
	for key, values := range filters {
		if len(values) == 0 && knownFilter(key) {
			continue
		}
		test, err := newTest(key, values, used)
		if err != nil {
			return nil, err
		}
		tests = append(tests, test)
	}
	return slices.DeleteFunc(s.sortedAmong(cluster), func(n *Network) bool {
		return slices.ContainsFunc(tests, func(test func(*Network) bool) bool { return !test(n) })
	}), nil
}

func knownFilter(key string) bool {
	return slices.Contains([]string{"driver", "id", "name", "label", "type", "scope", "dangling"}, key)
}

func newTest(key string, values []string, used func(id string) bool) (func(*Network) bool, error) {
	switch key {
	case "driver":
		return func(n *Network) bool { return slices.Contains(values, n.Driver) }, nil
	case "id":
		match, err := filter.Patterns(key, values)
		return func(n *Network) bool { return match(n.ID) }, err
	case "name":
		match, err := filter.Patterns(key, values)
		return func(n *Network) bool { return match(n.Name) }, err
	case "label":
		return func(n *Network) bool { return filter.HasLabels(n.Labels, values) }, nil
	case "scope":
		return func(n *Network) bool { return slices.Contains(values, n.Scope()) }, nil
	case "type":
		for _, v := range values {
			if v != "custom" && v != "builtin" {
				return nil, fault.Invalid("Invalid filter 'type=%s': want custom or builtin", v)
			}
		}
		return func(n *Network) bool {
			return n.Builtin() && slices.Contains(values, "builtin") || !n.Builtin() && slices.Contains(values, "custom")
		}, nil
	case "dangling":
		want, err := filter.Bool(key, values)
		return func(n *Network) bool { return want == nil || (n.Builtin() || used(n.ID)) != *want }, err
	default:
		return nil, filter.Unknown(key)
	}
}

// PruneOptions say what Prune asks others for.
type PruneOptions struct {
	// Used reports, by id, whether a network has to stay. It must not make or remove networks.
	Used func(id string) bool
	// Cluster are the networks of the swarm, on a manager. RemoveCluster removes one by its id; fault.Conflict while a service
	// uses it.
	Cluster       []*Network
	RemoveCluster func(ctx context.Context, id string) error
}

// Prune removes the networks that are not built in, not in use and do not only hold settings, with label, label! and until among
// the filters, and returns their names. One that came into use meanwhile stays.
//
// One that cannot be removed holds no other back: the error names it, and what went is in the answer beside it. Errors are
// fault.Invalid (a filter) or internal.
func (s *Service) Prune(ctx context.Context, filters map[string][]string, opt PruneOptions) (removed []string, err error) {
	f, err := prune.New(filters, time.Now(), prune.Label, prune.NotLabel, prune.Until)
	if err != nil {
		return nil, err
	}
	takes := func(n *Network) bool {
		return !n.Builtin() && !n.ConfigOnly && f.Takes(n.Labels, n.Created) && !opt.Used(n.ID)
	}
	var failed []error
	for _, n := range opt.Cluster { // without the token: the swarm takes them from this node by another request
		if !takes(n) || n.Name == Ingress {
			continue
		}
		if err := opt.RemoveCluster(ctx, n.ID); err == nil {
			removed = append(removed, n.Name)
		} else if !fault.Is(err, fault.Conflict) {
			failed = append(failed, fmt.Errorf("network %s: %w", n.Name, err))
		}
	}
	if err := s.acquireToken(ctx); err != nil {
		return removed, errors.Join(append(failed, err)...)
	}
	defer s.releaseToken()
	for _, n := range s.sortedNetworks() {
		if n.Scope() == ScopeSwarm || !takes(n) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return removed, errors.Join(append(failed, err)...)
		}
		switch err := s.removeNetwork(ctx, n); {
		case err == nil:
			removed = append(removed, n.Name)
		case !fault.Is(err, fault.Conflict):
			failed = append(failed, fmt.Errorf("network %s: %w", n.Name, err))
		}
	}
	return removed, errors.Join(failed...)
}
