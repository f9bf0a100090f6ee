package build

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"moss/engine/build/worker"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/prune"
)

// cacheAge is how long a step that nothing needs stays without being used.
const cacheAge = 90 * 24 * time.Hour

// shelf is the cache at one moment: what may go of it, the first to go first.
type shelf struct {
	steps []image.Built // that no result of a build needs
	bytes int64         // of their layers
}

// listRemovable lists the steps that may go. A step goes before the one that it was made on, otherwise the least recently used
// one.
func (s *Service) listRemovable(ctx context.Context) (*shelf, error) {
	all, err := s.opt.Steps.Steps(ctx)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]image.Built, len(all))
	for _, step := range all {
		byID[step.ID] = step
	}
	needed := map[string]bool{}
	for _, step := range all {
		if !step.Result {
			continue
		}
		for id := step.ID; id != "" && !needed[id]; id = byID[id].Parent {
			needed[id] = true
		}
	}
	found := &shelf{}
	for _, step := range all {
		if !needed[step.ID] {
			found.steps = append(found.steps, step)
			found.bytes += step.Size
		}
	}
	used, depth := s.cache.copyUses(), computeDepths(byID)
	slices.SortStableFunc(found.steps, func(a, b image.Built) int {
		return cmp.Or(lastUse(used, a).Compare(lastUse(used, b)), -cmp.Compare(depth[a.ID], depth[b.ID]))
	})
	return found, nil
}

// computeDepths returns the depth of each step: 1 for one that was made on no other step, otherwise one more than that step's.
func computeDepths(byID map[string]image.Built) map[string]int {
	depth := make(map[string]int, len(byID))
	for id := range byID {
		var way []string
		for at := id; ; at = byID[at].Parent {
			if _, known := depth[at]; known || len(way) > len(byID) {
				break
			}
			if _, known := byID[at]; !known {
				break
			}
			way = append(way, at)
		}
		for _, at := range slices.Backward(way) {
			depth[at] = depth[byID[at].Parent] + 1
		}
	}
	return depth
}

// lastUse is when a step was used last, or made.
func lastUse(used map[string]use, step image.Built) time.Time {
	if u, ok := used[step.ID]; ok && u.Last.After(step.Created) {
		return u.Last
	}
	return step.Created
}

// dropSteps removes steps that want picks. Several rounds are needed: one that others were made on goes after these. want is
// called again for a step that could not go.
func (s *Service) dropSteps(
	ctx context.Context, list []image.Built, want func(step image.Built, freed int64) bool,
) (Pruned, error) {
	var done Pruned
	for again := true; again; {
		again = false
		rest := list[:0:0]
		for _, step := range list {
			if !want(step, done.Bytes) {
				continue
			}
			bytes, err := s.opt.Steps.DropStep(ctx, step.ID)
			switch {
			case fault.Is(err, fault.Conflict):
				rest = append(rest, step)
				continue
			case err != nil && !fault.Is(err, fault.NotFound):
				return done, err
			}
			s.cache.forgetImage(step.ID)
			again = true
			if err == nil {
				done.Deleted, done.Bytes = append(done.Deleted, step.ID), done.Bytes+bytes
			}
		}
		list = rest
	}
	return done, nil
}

// maintainCache puts the cache in order beside the builds: it stays within its bounds, and the uses are written down.
func (s *Service) maintainCache() {
	select {
	case s.tending <- struct{}{}:
	default:
		return // somebody does
	}
	if s.registerWork(&s.flights.background) != nil {
		<-s.tending
		return // the engine ends: nobody waits for more
	}
	go func() {
		defer s.flights.background.Done()
		defer func() { <-s.tending }()
		if err := s.trimCache(s.life); err != nil && s.life.Err() == nil {
			s.opt.Log.Warn().Err(err).Msg("keep the build cache within its bounds")
		}
		if err := s.cache.saveUses(); err != nil {
			s.opt.Log.Warn().Err(err).Msg("write down the uses of the build cache")
		}
	}()
}

// trimCache removes what is too old, and the oldest of what is too much.
func (s *Service) trimCache(ctx context.Context) error {
	if s.opt.CacheSize < 0 {
		return nil
	}
	found, err := s.listRemovable(ctx)
	if err != nil {
		return err
	}
	used, before := s.cache.copyUses(), time.Now().Add(-cacheAge)
	over := found.bytes - s.opt.CacheSize
	_, err = s.dropSteps(ctx, found.steps, func(step image.Built, freed int64) bool {
		return freed < over || lastUse(used, step).Before(before)
	})
	return err
}

// Prune removes what of the cache nothing needs, the oldest first, and the folders of RUN --mount=type=cache if all is to go.
// Errors are fault.Invalid for filters that there are not.
func (s *Service) Prune(ctx context.Context, opts PruneOptions) (Pruned, error) {
	ids := opts.Filters["id"]
	filters := map[string][]string{}
	for key, values := range opts.Filters {
		if key != "id" {
			filters[key] = values
		}
	}
	filter, err := prune.New(filters, time.Now(), prune.Until)
	if err != nil {
		return Pruned{}, err
	}
	found, err := s.listRemovable(ctx)
	if err != nil {
		return Pruned{}, err
	}
	used := s.cache.copyUses()
	done, err := s.dropSteps(ctx, found.steps, func(step image.Built, freed int64) bool {
		return (opts.Keep <= 0 || found.bytes-freed > opts.Keep) && matchesID(step.ID, ids) && filter.Takes(nil, lastUse(used, step))
	})
	if err != nil {
		return done, err
	}
	if opts.All {
		gone, err := s.opt.Caches.PruneCaches(ctx, func(c worker.Cache) bool {
			return matchesID(c.ID, ids) && filter.Takes(nil, c.LastUsed)
		})
		if err != nil {
			return done, err
		}
		for _, c := range gone {
			done.Deleted, done.Bytes = append(done.Deleted, c.ID), done.Bytes+c.Bytes
		}
	}
	return done, nil
}

// matchesID reports whether an id is one of those that were asked for; none stand for all.
func matchesID(id string, asked []string) bool {
	if len(asked) == 0 {
		return true
	}
	return slices.ContainsFunc(asked, func(begin string) bool {
		return begin != "" && strings.HasPrefix(strings.TrimPrefix(id, "sha256:"), strings.TrimPrefix(begin, "sha256:"))
	})
}

// Usage lists what the cache holds, the latest used first.
func (s *Service) Usage(ctx context.Context) ([]CacheRecord, error) {
	all, err := s.opt.Steps.Steps(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.listRemovable(ctx)
	if err != nil {
		return nil, err
	}
	free := map[string]bool{}
	for _, step := range found.steps {
		free[step.ID] = true
	}
	used := s.cache.copyUses()
	records := make([]CacheRecord, 0, len(all))
	for _, step := range all {
		u := used[step.ID]
		records = append(records, CacheRecord{
			ID: step.ID, Parent: step.Parent, Type: "regular", Description: step.CreatedBy, Shared: !free[step.ID], Size: step.Size,
			Created: step.Created, LastUsed: u.Last, Used: u.Count,
		})
	}
	folders, err := s.opt.Caches.Caches(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range folders {
		records = append(records, CacheRecord{
			ID: c.ID, Type: "exec.cachemount", Description: c.Name, InUse: c.InUse, Size: c.Bytes, Created: c.Created,
			LastUsed: c.LastUsed, Used: c.Uses,
		})
	}
	slices.SortStableFunc(records, func(a, b CacheRecord) int { return b.LastUsed.Compare(a.LastUsed) })
	return records, nil
}
