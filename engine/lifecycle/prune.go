package lifecycle

import (
	"context"
	"errors"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/prune"
)

// Prune removes the containers that are at rest, with label, label! and until among the filters, and returns their ids and
// the bytes that they had written. Their volumes stay, and so do those of builds. One that was started or removed meanwhile is
// left out.
//
// One that cannot be removed holds no other back: the error names it, and what went is in the answer beside it. Errors are
// fault.Invalid (a filter) or internal.
func (m *Manager) Prune(ctx context.Context, filters map[string][]string) (removed []string, reclaimed int64, err error) {
	f, err := prune.New(filters, time.Now(), prune.Label, prune.NotLabel, prune.Until)
	if err != nil {
		return nil, 0, err
	}
	var failed []error
	for _, c := range m.index.newestFirst() {
		r := c.record()
		if !r.State.AtRest() || r.State == container.Removing || r.Build || !f.Takes(r.Config.Labels, r.Created) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return removed, reclaimed, errors.Join(append(failed, err)...)
		}
		size, _, sizeErr := m.opt.Layers.Size(ctx, c.id)
		err := m.Remove(ctx, c.id, container.RemoveOptions{})
		switch {
		case fault.Is(err, fault.Conflict), fault.Is(err, fault.NotFound):
			continue
		case err != nil:
			failed = append(failed, err)
			continue
		}
		removed = append(removed, c.id)
		if sizeErr == nil { // what is left of a dead container may have no layer any more
			reclaimed += size
		}
	}
	return removed, reclaimed, errors.Join(failed...)
}
