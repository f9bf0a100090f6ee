package lifecycle

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/filter"
	"moss/engine/image"
	"moss/engine/task"
)

// Get returns the container's record, which must not be changed. fault.NotFound if there is none.
func (m *Manager) Get(ref string) (*container.Record, error) {
	c, err := m.index.find(ref)
	if err != nil {
		return nil, err
	}
	return m.withLinkNames(c.record()), nil
}

// Running returns the record and the task of a container whose process runs or is frozen. fault.NotFound if there is no such
// container, fault.Conflict if nothing of it runs.
func (m *Manager) Running(ref string) (*container.Record, task.Task, error) {
	c, err := m.index.find(ref)
	if err != nil {
		return nil, nil, err
	}
	r := c.record()
	if t, ok := c.runningTask(); ok && r.State.HasProcess() {
		return r, t, nil
	}
	return nil, nil, container.NotRunning(ref)
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
	for _, c := range m.index.newestFirst() {
		if r := c.record(); r.ImageID == imageID {
			users = append(users, image.User{ContainerID: r.ID, ImageRef: r.Image, Running: r.State.Running()})
		}
	}
	return users
}

// Counts returns how many containers there are in all and in the states that /info shows.
func (m *Manager) Counts() (all, running, paused, stopped int) {
	for _, c := range m.index.newestFirst() {
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
	keep, err := m.listFilter(ctx, opt)
	if err != nil {
		return nil, err
	}
	list := []*container.Record{}
	everyone := m.index.newestFirst()
	names := linkNames(everyone)
	for _, c := range everyone {
		if r := withNames(c.record(), names); keep(r) {
			list = append(list, r)
			if opt.Limit > 0 && len(list) == opt.Limit {
				break
			}
		}
	}
	m.nameImages(ctx, list)
	return list, nil
}

// nameImages replaces the name of an image by its id where the name stands for another one by now, or for none.
func (m *Manager) nameImages(ctx context.Context, list []*container.Record) {
	meant := map[string]string{} // id by name
	for i, r := range list {
		imageID, known := meant[r.Image]
		if !known {
			if img, err := m.opt.Images.Get(ctx, r.Image); err == nil {
				imageID = img.ID
			}
			meant[r.Image] = imageID
		}
		if imageID != r.ImageID {
			renamed := *r
			renamed.Image = r.ImageID
			list[i] = &renamed
		}
	}
}

// test says whether a container is wanted.
type test func(*container.Record) bool

func (m *Manager) listFilter(ctx context.Context, opt container.ListOptions) (test, error) {
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
			return nil, filter.Unknown(key)
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
	"name": filterName,
	"label": func(_ context.Context, _ *Manager, values []string) (test, error) {
		return func(r *container.Record) bool {
			return filter.HasLabels(r.Config.Labels, values)
		}, nil
	},
	"status":   filterStatus,
	"exited":   filterExited,
	"health":   filterHealth,
	"ancestor": filterAncestor,
	"before":   filterTime("before", func(order int) bool { return order < 0 }),
	"since":    filterTime("since", func(order int) bool { return order > 0 }),
	"volume":   filterVolume,
	"network": func(_ context.Context, m *Manager, values []string) (test, error) {
		return filterNetwork(values, m.opt.NetworkStore.Find), nil
	},
	"isolation": func(_ context.Context, _ *Manager, values []string) (test, error) {
		for _, v := range values {
			if !slices.Contains([]string{"default", "process", "hyperv"}, v) {
				return nil, fault.Invalid("Unrecognised filter value for isolation: %s", v)
			}
		}
		return func(*container.Record) bool { return slices.Contains(values, "default") }, nil // there is nothing else here
	},
}

// filterName takes regular expressions, as clients rely on: a part of a name is one, ^ and $ tie it to an end. Names are
// matched with and without their slash.
func filterName(_ context.Context, _ *Manager, values []string) (test, error) {
	match, err := filter.Patterns("name", values)
	if err != nil {
		return nil, err
	}
	return func(r *container.Record) bool {
		return match(r.Name) || match("/"+r.Name) || slices.ContainsFunc(r.LinkedAs, match)
	}, nil
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
			return nil, fault.Invalid("Invalid filter value for exited: %q is not a number", v)
		}
		codes = append(codes, code)
	}
	return func(r *container.Record) bool {
		return r.State == container.Exited && slices.Contains(codes, r.ExitCode)
	}, nil
}

// filterAncestor takes the images that are named, and all that were made on top of them. A name that stands for no image
// is no mistake: nothing has it for an ancestor.
func filterHealth(_ context.Context, _ *Manager, values []string) (test, error) {
	known := []string{container.HealthStarting, container.HealthHealthy, container.HealthUnhealthy, container.HealthNone}
	for _, v := range values {
		if !slices.Contains(known, v) {
			return nil, fault.Invalid("Unrecognised filter value for health: %s", v)
		}
	}
	return func(r *container.Record) bool {
		if r.Health == nil {
			return slices.Contains(values, container.HealthNone)
		}
		return slices.Contains(values, r.Health.Status)
	}, nil
}

func filterAncestor(ctx context.Context, m *Manager, values []string) (test, error) {
	wanted := map[string]bool{} // by image id; false has been looked at
	for _, v := range values {
		img, err := m.opt.Images.Get(ctx, v)
		switch {
		case err == nil:
			wanted[img.ID] = true
		case fault.Is(err, fault.Invalid):
			return nil, fault.Invalid("Invalid filter value for ancestor: %w", err)
		case !fault.Is(err, fault.NotFound):
			return nil, err
		}
	}
	var descends func(imageID string) bool
	descends = func(imageID string) bool {
		if known, ok := wanted[imageID]; ok || imageID == "" {
			return known
		}
		wanted[imageID] = false // before the look at its parent, so that a circle ends
		if img, err := m.opt.Images.Get(ctx, imageID); err == nil {
			wanted[imageID] = descends(img.Parent)
		}
		return wanted[imageID]
	}
	return func(r *container.Record) bool { return descends(r.ImageID) }, nil
}

func filterTime(name string, want func(order int) bool) func(context.Context, *Manager, []string) (test, error) {
	return func(_ context.Context, m *Manager, values []string) (test, error) {
		c, err := m.index.find(values[len(values)-1])
		if err != nil {
			return nil, fault.Invalid("Invalid filter value for %s: %v", name, err) // the documents know no 404 here
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
