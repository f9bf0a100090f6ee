package build

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/build/worker"
	"moss/engine/fault"
	"moss/engine/filter"
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

// Prune removes what of the cache nothing needs, the oldest first: steps, and then the folders of RUN --mount=type=cache if all
// is to go or a filter names them. Errors are fault.Invalid for filters that there are not.
func (s *Service) Prune(ctx context.Context, opts PruneOptions) (Pruned, error) {
	wanted, err := newCacheFilter(opts.Filters)
	if err != nil {
		return Pruned{}, err
	}
	found, err := s.listRemovable(ctx)
	if err != nil {
		return Pruned{}, err
	}
	all := found.bytes
	withFolders := opts.All || wanted.namesFolders()
	if withFolders {
		folders, err := s.opt.Caches.Caches(ctx)
		if err != nil {
			return Pruned{}, err
		}
		for _, c := range folders {
			all += c.Bytes
		}
	}
	keep, err := s.bytesToKeep(all, opts)
	if err != nil {
		return Pruned{}, err
	}
	used := s.cache.copyUses()
	done, err := s.dropSteps(ctx, found.steps, func(step image.Built, freed int64) bool {
		return (keep == 0 || all-freed > keep) && wanted.isWanted(stepRecord(step, used[step.ID], false), lastUse(used, step))
	})
	if err != nil || !withFolders {
		return done, err
	}
	left := all - done.Bytes
	gone, err := s.opt.Caches.PruneCaches(ctx, func(c worker.Cache) bool {
		if keep > 0 && left <= keep || !wanted.isWanted(folderRecord(c), c.LastUsed) {
			return false
		}
		left -= c.Bytes
		return true
	})
	for _, c := range gone {
		done.Deleted, done.Bytes = append(done.Deleted, c.ID), done.Bytes+c.Bytes
	}
	return done, err
}

// bytesToKeep returns how many bytes of all that may go stay, by what was asked for and by the room on the disk.
func (s *Service) bytesToKeep(all int64, opts PruneOptions) (int64, error) {
	keep := opts.MaxUsed
	if opts.MinFree > 0 {
		if keep == 0 {
			keep = all
		}
		var disk unix.Statfs_t
		if err := unix.Statfs(s.opt.Dir, &disk); err != nil {
			return 0, fmt.Errorf("find the room on the disk: %w", err)
		}
		if missing := opts.MinFree - int64(disk.Bavail)*disk.Bsize; missing > 0 {
			keep = min(keep, max(0, all-missing))
		}
	}
	return max(keep, opts.Keep), nil
}

// cacheFilter picks what of the cache may go: all of it must hold.
type cacheFilter struct {
	rest   *prune.Filter // by labels and age
	ids    []string
	fields map[string]string // of a record, by the filter's name
}

// newCacheFilter reads filters. fault.Invalid for one that there is not, and for several values where one can hold.
func newCacheFilter(filters map[string][]string) (f cacheFilter, err error) {
	rest := map[string][]string{}
	f.fields = map[string]string{}
	for key, values := range filters {
		if len(values) == 0 {
			continue
		}
		switch key {
		case "id":
			f.ids = values
		case "parent", "type", "description":
			if len(values) != 1 {
				return f, fault.Invalid("filters expect only one value: %s", key)
			}
			f.fields[key] = values[0]
		case "inuse", "shared", "private":
			yes, err := filter.Bool(key, values)
			if err != nil {
				return f, err
			}
			f.fields[key] = strconv.FormatBool(yes == nil || *yes)
		case "unused-for": // the name that until had before
			rest[prune.Until] = append(rest[prune.Until], values...)
		default:
			rest[key] = append(rest[key], values...)
		}
	}
	// Nothing of the cache has labels: clients that prune everything by a label ask for it all the same.
	f.rest, err = prune.New(rest, time.Now(), prune.Until, prune.Label, prune.NotLabel)
	return f, err
}

// namesFolders reports whether the filters ask for folders of cache mounts, by their type or as pieces of the cache.
func (f cacheFilter) namesFolders() bool { return f.fields["type"] == folderType || len(f.ids) > 0 }

func (f cacheFilter) isWanted(r CacheRecord, lastUse time.Time) bool {
	has := map[string]string{
		"parent": r.Parent, "type": r.Type, "description": r.Description, "inuse": strconv.FormatBool(r.InUse),
		"shared": strconv.FormatBool(r.Shared), "private": strconv.FormatBool(!r.Shared),
	}
	for key, value := range f.fields {
		if has[key] != value {
			return false
		}
	}
	return matchesID(r.ID, f.ids) && f.rest.Takes(nil, lastUse)
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
		records = append(records, stepRecord(step, used[step.ID], !free[step.ID]))
	}
	folders, err := s.opt.Caches.Caches(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range folders {
		records = append(records, folderRecord(c))
	}
	slices.SortStableFunc(records, func(a, b CacheRecord) int { return b.LastUsed.Compare(a.LastUsed) })
	return records, nil
}

// stepRecord shows a step. shared says that an image outside of the cache needs it.
func stepRecord(step image.Built, used use, shared bool) CacheRecord {
	return CacheRecord{
		ID: step.ID, Parent: step.Parent, Type: "regular", Description: step.CreatedBy, Shared: shared, Size: step.Size,
		Created: step.Created, LastUsed: used.Last, Used: used.Count,
	}
}

// folderType is the type of a folder of RUN --mount=type=cache, as BuildKit calls it.
const folderType = "exec.cachemount"

// folderRecord shows the folder of a RUN --mount=type=cache.
func folderRecord(c worker.Cache) CacheRecord {
	return CacheRecord{
		ID: c.ID, Type: folderType, Description: c.Name, InUse: c.InUse, Size: c.Bytes, Created: c.Created,
		LastUsed: c.LastUsed, Used: c.Uses,
	}
}
