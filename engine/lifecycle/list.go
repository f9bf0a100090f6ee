package lifecycle

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/filter"
	"moss/engine/network"
)

// List returns the containers that opt selects, newest first (API document 2, 4.1). fault.Invalid for a bad filter.
func (iv *Inventory) List(ctx context.Context, opt container.ListOptions) ([]*container.Record, error) {
	keep, err := iv.listFilter(ctx, opt)
	if err != nil {
		return nil, err
	}
	list := []*container.Record{}
	everyone := iv.index.newestFirst()
	names := linkNames(everyone)
	for _, c := range everyone {
		if r := withNames(c.record(), names); keep(r) {
			list = append(list, r)
			if opt.Limit > 0 && len(list) == opt.Limit {
				break
			}
		}
	}
	iv.nameImages(ctx, list)
	return list, nil
}

// nameImages replaces the name of an image by its id where the name stands for another one by now, or for none.
func (iv *Inventory) nameImages(ctx context.Context, list []*container.Record) {
	meant := map[string]string{} // id by name
	for i, r := range list {
		imageID, known := meant[r.Image]
		if !known {
			if img, err := iv.images.Get(ctx, r.Image); err == nil {
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

func (iv *Inventory) listFilter(ctx context.Context, opt container.ListOptions) (test, error) {
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
		t, err := build(ctx, iv, values)
		if err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	for key, ref := range map[string]string{"since": opt.Since, "before": opt.Before} {
		if ref == "" {
			continue
		}
		t, err := filters[key](ctx, iv, []string{ref})
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
var filters = map[string]func(context.Context, *Inventory, []string) (test, error){ //nolint:gochecknoglobals // a constant table
	"id": func(_ context.Context, _ *Inventory, values []string) (test, error) {
		return func(r *container.Record) bool {
			return slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(r.ID, v) })
		}, nil
	},
	"name": filterName,
	"label": func(_ context.Context, _ *Inventory, values []string) (test, error) {
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
	"is-task":  filterTask,
	"publish": filterPorts(func(r *container.Record, takes func(port uint16, proto string) bool) bool {
		return slices.ContainsFunc(r.Network.Ports, func(p network.Port) bool { return takes(p.HostPort, p.Proto) })
	}),
	"expose": filterPorts(func(r *container.Record, takes func(port uint16, proto string) bool) bool {
		for key := range r.Config.ExposedPorts {
			if port, _, proto, err := container.ParsePorts(key); err == nil && takes(port, proto) {
				return true
			}
		}
		return slices.ContainsFunc(r.Network.Ports, func(p network.Port) bool { return takes(p.ContainerPort, p.Proto) })
	}),
	"network": func(_ context.Context, iv *Inventory, values []string) (test, error) {
		return filterNetwork(values, iv.networks.Find), nil
	},
	"isolation": func(_ context.Context, _ *Inventory, values []string) (test, error) {
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
func filterName(_ context.Context, _ *Inventory, values []string) (test, error) {
	match, err := filter.Patterns("name", values)
	if err != nil {
		return nil, err
	}
	return func(r *container.Record) bool {
		return match(r.Name) || match("/"+r.Name) || slices.ContainsFunc(r.LinkedAs, match)
	}, nil
}

func filterStatus(_ context.Context, _ *Inventory, values []string) (test, error) {
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

func filterExited(_ context.Context, _ *Inventory, values []string) (test, error) {
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

func filterHealth(_ context.Context, _ *Inventory, values []string) (test, error) {
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

// filterAncestor takes the images that are named, and all that were made on top of them. A name that stands for no image
// is no mistake: nothing has it for an ancestor.
func filterAncestor(ctx context.Context, iv *Inventory, values []string) (test, error) {
	wanted := map[string]bool{} // by image id; false has been looked at
	for _, v := range values {
		img, err := iv.images.Get(ctx, v)
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
		if img, err := iv.images.Get(ctx, imageID); err == nil {
			wanted[imageID] = descends(img.Parent)
		}
		return wanted[imageID]
	}
	return func(r *container.Record) bool { return descends(r.ImageID) }, nil
}

func filterTime(name string, want func(order int) bool) func(context.Context, *Inventory, []string) (test, error) {
	return func(_ context.Context, iv *Inventory, values []string) (test, error) {
		c, err := iv.index.find(values[len(values)-1])
		if err != nil {
			return nil, fault.Invalid("Invalid filter value for %s: %v", name, err) // the documents know no 404 here
		}
		edge := c.record()
		return func(r *container.Record) bool { return r.ID != edge.ID && want(r.Created.Compare(edge.Created)) }, nil
	}
}

func filterVolume(_ context.Context, _ *Inventory, values []string) (test, error) {
	return func(r *container.Record) bool {
		return slices.ContainsFunc(r.Mounts, func(mount container.Mount) bool {
			return slices.Contains(values, mount.Name) && mount.Name != "" || slices.Contains(values, mount.Destination)
		})
	}, nil
}

// filterPorts takes ports and ranges of them, as ExposedPorts has them. has tells whether a container has one of some kind.
func filterPorts(
	has func(r *container.Record, takes func(port uint16, proto string) bool) bool,
) func(context.Context, *Inventory, []string) (test, error) {
	type portRange struct {
		low, high uint16
		proto     string
	}
	return func(_ context.Context, _ *Inventory, values []string) (test, error) {
		var wanted []portRange
		for _, v := range values {
			low, high, proto, err := container.ParsePorts(v)
			if err != nil {
				return nil, err
			}
			wanted = append(wanted, portRange{low, high, proto})
		}
		takes := func(port uint16, proto string) bool {
			return slices.ContainsFunc(wanted, func(w portRange) bool { return w.proto == proto && w.low <= port && port <= w.high })
		}
		return func(r *container.Record) bool { return has(r, takes) }, nil
	}
}

// filterTask takes the containers of tasks, or all others. A label tells them, which their engine gives.
func filterTask(_ context.Context, _ *Inventory, values []string) (test, error) {
	want, err := filter.Bool("is-task", values)
	return func(r *container.Record) bool {
		_, task := r.Config.Labels[container.TaskLabel]
		return want == nil || task == *want
	}, err
}
