package network

import (
	"context"
	"slices"
	"time"

	"moss/engine/fault"
	"moss/engine/filter"
	"moss/engine/prune"
)

// List returns the networks that pass the filters, by name: driver, id and name (all or part, or a pattern), label (all of
// them must match) and type, which is custom or builtin. Several values of another filter mean any of them. fault.Invalid
// for another filter or value.
func (s *Service) List(filters map[string][]string) ([]*Network, error) {
	var tests []func(*Network) bool
	for key, values := range filters {
		if len(values) == 0 && knownFilter(key) {
			continue
		}
		test, err := newTest(key, values)
		if err != nil {
			return nil, err
		}
		tests = append(tests, test)
	}
	return slices.DeleteFunc(s.sortedNetworks(), func(n *Network) bool {
		return slices.ContainsFunc(tests, func(test func(*Network) bool) bool { return !test(n) })
	}), nil
}

func knownFilter(key string) bool {
	return slices.Contains([]string{"driver", "id", "name", "label", "type"}, key)
}

func newTest(key string, values []string) (func(*Network) bool, error) {
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
	case "type":
		for _, v := range values {
			if v != "custom" && v != "builtin" {
				return nil, fault.Invalid("Invalid filter 'type=%s': want custom or builtin", v)
			}
		}
		return func(n *Network) bool {
			return n.Builtin() && slices.Contains(values, "builtin") || !n.Builtin() && slices.Contains(values, "custom")
		}, nil
	default:
		return nil, filter.Unknown(key)
	}
}

// Prune removes the networks that are not built in and that used does not report, with label, label! and until among the
// filters, and returns their names. One that got a container meanwhile stays. used is asked with an id and must not
// make or remove networks.
//
// What was done before an error is in the answer. Errors are fault.Invalid (a filter) or internal.
func (s *Service) Prune(
	ctx context.Context, filters map[string][]string, used func(id string) bool,
) (removed []string, err error) {
	f, err := prune.New(filters, time.Now(), prune.Label, prune.NotLabel, prune.Until)
	if err != nil {
		return nil, err
	}
	if err := s.acquireToken(ctx); err != nil {
		return nil, err
	}
	defer s.releaseToken()
	for _, n := range s.sortedNetworks() {
		if n.Builtin() || !f.Takes(n.Labels, n.Created) || used(n.ID) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		err := s.removeNetwork(ctx, n)
		if fault.Is(err, fault.Conflict) {
			continue
		}
		if err != nil {
			return removed, err
		}
		removed = append(removed, n.Name)
	}
	return removed, nil
}
