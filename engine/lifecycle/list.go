package lifecycle

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/image"
)

// Get returns the container's record, which must not be changed. fault.NotFound if there is none.
func (m *Manager) Get(ref string) (*container.Record, error) {
	c, err := m.index.find(ref)
	if err != nil {
		return nil, err
	}
	return c.record(), nil
}

// Size returns the bytes of the container's own files and of all it sees.
func (m *Manager) Size(ctx context.Context, ref string) (rw, rootfs int64, err error) {
	c, err := m.index.find(ref)
	if err != nil {
		return 0, 0, err
	}
	return m.opt.Layers.Size(ctx, c.id)
}

// ImageUsers lists the containers that keep an image.
func (m *Manager) ImageUsers(imageID string) []image.User {
	var users []image.User
	for _, c := range m.index.all() {
		if r := c.record(); r.ImageID == imageID {
			users = append(users, image.User{ContainerID: r.ID, ImageRef: r.Image, Running: r.State.Running()})
		}
	}
	return users
}

// Counts returns how many containers there are in all and in the states that /info shows.
func (m *Manager) Counts() (all, running, paused, stopped int) {
	for _, c := range m.index.all() {
		all++
		switch s := c.record().State; {
		case s == container.Paused:
			paused++
		case s.Running():
			running++
		default:
			stopped++
		}
	}
	return all, running, paused, stopped
}

// List returns the containers that opt selects, newest first (API document 2, 4.1). fault.Invalid for a bad filter.
func (m *Manager) List(ctx context.Context, opt container.ListOptions) ([]*container.Record, error) {
	keep, err := m.selection(ctx, opt)
	if err != nil {
		return nil, err
	}
	list := []*container.Record{}
	for _, c := range m.index.all() {
		if r := c.record(); keep(r) {
			list = append(list, r)
			if opt.Limit > 0 && len(list) == opt.Limit {
				break
			}
		}
	}
	return list, nil
}

// test says whether a container is wanted.
type test func(*container.Record) bool

func (m *Manager) selection(ctx context.Context, opt container.ListOptions) (test, error) {
	var tests []test
	all := opt.All || opt.Limit > 0 || opt.Since != "" || opt.Before != ""
	for key, values := range opt.Filters {
		if key == "status" || key == "exited" {
			all = true // a wish for stopped ones
		}
		if len(values) == 0 {
			continue
		}
		build, known := filters[key]
		if !known {
			return nil, fault.Invalid("Invalid filter '%s'", key)
		}
		t, err := build(ctx, m, values)
		if err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	for key, ref := range map[string]string{"since": opt.Since, "before": opt.Before} {
		if ref == "" {
			continue
		}
		t, err := filters[key](ctx, m, []string{ref})
		if err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return func(r *container.Record) bool {
		if !all && !r.State.Running() {
			return false
		}
		return !slices.ContainsFunc(tests, func(t test) bool { return !t(r) })
	}, nil
}

// filters are the filters of containers/json; several values of one mean any of them, but every label must match.
var filters = map[string]func(ctx context.Context, m *Manager, values []string) (test, error){ //nolint:gochecknoglobals // a constant table
	"id": func(_ context.Context, _ *Manager, values []string) (test, error) {
		return func(r *container.Record) bool {
			return slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(r.ID, v) })
		}, nil
	},
	"name": func(_ context.Context, _ *Manager, values []string) (test, error) {
		return func(r *container.Record) bool {
			return slices.ContainsFunc(values, func(v string) bool { return matchName("/"+r.Name, v) })
		}, nil
	},
	"label": func(_ context.Context, _ *Manager, values []string) (test, error) {
		return func(r *container.Record) bool {
			return !slices.ContainsFunc(values, func(v string) bool { return !hasLabel(r.Config.Labels, v) })
		}, nil
	},
	"status":   filterStatus,
	"exited":   filterExited,
	"ancestor": filterAncestor,
	"before":   filterTime(func(order int) bool { return order < 0 }),
	"since":    filterTime(func(order int) bool { return order > 0 }),
	"volume":   filterVolume,
	"network":  filterNetwork,
	"isolation": func(context.Context, *Manager, []string) (test, error) {
		return nil, fault.Unsupported("filter isolation is for Windows only")
	},
}

// matchName matches as clients expect: the value is a part of the name; ^ and $ tie it to an end.
func matchName(name, value string) bool {
	start, end := strings.HasPrefix(value, "^"), strings.HasSuffix(value, "$")
	value = strings.TrimSuffix(strings.TrimPrefix(value, "^"), "$")
	bare := strings.TrimPrefix(name, "/")
	value = strings.TrimPrefix(value, "/")
	switch {
	case start && end:
		return bare == value
	case start:
		return strings.HasPrefix(bare, value)
	case end:
		return strings.HasSuffix(bare, value)
	default:
		return strings.Contains(bare, value)
	}
}

func hasLabel(labels map[string]string, want string) bool {
	key, value, exact := strings.Cut(want, "=")
	have, ok := labels[key]
	return ok && (!exact || have == value)
}

func filterStatus(_ context.Context, _ *Manager, values []string) (test, error) {
	var states []container.State
	for _, v := range values {
		s, err := container.ParseState(v)
		if err != nil {
			return nil, fault.Invalid("Unrecognised filter value for status: %s", v)
		}
		states = append(states, s)
	}
	return func(r *container.Record) bool { return slices.Contains(states, r.State) }, nil
}

func filterExited(_ context.Context, _ *Manager, values []string) (test, error) {
	var codes []int
	for _, v := range values {
		code, err := strconv.Atoi(v)
		if err != nil {
			return nil, fault.Invalid("filter exited: %q is not a number", v)
		}
		codes = append(codes, code)
	}
	return func(r *container.Record) bool {
		return r.State == container.Exited && slices.Contains(codes, r.ExitCode)
	}, nil
}

func filterAncestor(ctx context.Context, m *Manager, values []string) (test, error) {
	ids := map[string]bool{}
	for _, v := range values {
		img, err := m.opt.Images.Get(ctx, v)
		switch {
		case err == nil:
			ids[img.ID] = true
		case !fault.Is(err, fault.NotFound):
			return nil, err
		}
	}
	return func(r *container.Record) bool { return ids[r.ImageID] }, nil
}

func filterTime(want func(order int) bool) func(context.Context, *Manager, []string) (test, error) {
	return func(_ context.Context, m *Manager, values []string) (test, error) {
		c, err := m.index.find(values[len(values)-1])
		if err != nil {
			return nil, err
		}
		edge := c.record()
		return func(r *container.Record) bool { return r.ID != edge.ID && want(r.Created.Compare(edge.Created)) }, nil
	}
}

func filterVolume(_ context.Context, _ *Manager, values []string) (test, error) {
	return func(r *container.Record) bool {
		return slices.ContainsFunc(r.Mounts, func(mount container.Mount) bool {
			return slices.Contains(values, mount.Name) && mount.Name != "" || slices.Contains(values, mount.Destination)
		})
	}, nil
}

func filterNetwork(_ context.Context, _ *Manager, values []string) (test, error) {
	return func(r *container.Record) bool {
		if slices.Contains(values, r.Host.NetworkMode) {
			return true
		}
		for name, ep := range r.Network.Endpoints {
			if slices.Contains(values, name) || slices.Contains(values, ep.NetworkID) {
				return true
			}
		}
		return false
	}, nil
}
