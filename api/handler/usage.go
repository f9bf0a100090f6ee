package handler

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/filter"
	"moss/engine/prune"
	"moss/engine/volume"
)

// Pruner removes what nothing uses and tells what went and the bytes that this gave back. An error is about the rest.
type Pruner interface {
	Prune(ctx context.Context, filters map[string][]string) (removed []string, reclaimed int64, err error)
}

// restOfPrune decides about the error of a prune. Where nothing went it is the answer; otherwise the answer is what went, and the
// log has the rest.
func restOfPrune(c *route.Call, went int, err error) error {
	if err == nil || went == 0 {
		return err
	}
	c.Log().Warn().Err(err).Msg("not pruned")
	return nil
}

func (h *Handler) containersPrune(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	removed, reclaimed, err := h.containers.Prune(c.Ctx(), filters)
	if err := restOfPrune(c, len(removed), err); err != nil {
		return err
	}
	h.tellPruned(event.TypeContainer, reclaimed)
	return replyJSON(c, http.StatusOK, &types.ContainersPruned{ContainersDeleted: removed, SpaceReclaimed: reclaimed})
}

// volumesPrune takes volumes with a name too before 1.42, and afterwards only where the filter all says so.
func (h *Handler) volumesPrune(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	if c.Version() >= v(42) {
		all, err := filter.Bool("all", filters["all"])
		if err != nil {
			return err
		}
		delete(filters, "all")
		if all == nil || !*all {
			if filters == nil {
				filters = map[string][]string{}
			}
			filters[prune.Label] = append(filters[prune.Label], volume.LabelAnonymous)
		}
	}
	removed, reclaimed, err := h.volumes.Prune(c.Ctx(), filters)
	if err := restOfPrune(c, len(removed), err); err != nil {
		return err
	}
	h.tellPruned(event.TypeVolume, reclaimed)
	return replyJSON(c, http.StatusOK, &types.VolumesPruned{VolumesDeleted: removed, SpaceReclaimed: reclaimed})
}

func (h *Handler) imagesPrune(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	removed, reclaimed, err := h.imageVerbs.Prune(c.Ctx(), filters)
	if err := restOfPrune(c, len(removed), err); err != nil {
		return err
	}
	h.tellPruned(event.TypeImage, reclaimed)
	return replyJSON(c, http.StatusOK, wire.NewImagesPruned(removed, reclaimed))
}

// systemUsage shows what was asked for, and all without a wish. What was not asked for is null.
func (h *Handler) systemUsage(c *route.Call) error {
	usage := &types.DiskUsage{}
	add := map[string]func(*route.Call, *types.DiskUsage) error{
		"image": h.addImageUsage, "volume": h.addVolumeUsage, "container": h.addContainerUsage, "build-cache": h.addBuildUsage,
	}
	asked := c.Texts("type")
	if len(asked) == 0 {
		asked = slices.Sorted(maps.Keys(add))
	}
	for _, kind := range asked {
		if add[kind] == nil {
			return fault.Invalid("unknown object type: %s", kind)
		}
		if err := add[kind](c, usage); err != nil {
			return err
		}
	}
	return replyJSON(c, http.StatusOK, usage)
}

func (h *Handler) addImageUsage(c *route.Call, usage *types.DiskUsage) error {
	images, err := h.images.Usage(c.Ctx())
	if err != nil {
		return err
	}
	wire.AddImages(usage, &images)
	for i := range usage.Images {
		wire.FitImage(&usage.Images[i].ImageSummary, c.Version())
	}
	return nil
}

func (h *Handler) addVolumeUsage(c *route.Call, usage *types.DiskUsage) error {
	volumes, err := h.volumes.Usage(c.Ctx())
	if err != nil {
		return err
	}
	wire.AddVolumes(usage, volumes)
	return nil
}

func (h *Handler) addBuildUsage(c *route.Call, usage *types.DiskUsage) (err error) {
	usage.BuildCache, err = h.buildCache(c.Ctx())
	for _, entry := range usage.BuildCache {
		if !entry.Shared {
			usage.BuilderSize += entry.Size
		}
	}
	return err
}

func (h *Handler) addContainerUsage(c *route.Call, usage *types.DiskUsage) error {
	records, err := h.inventory.List(c.Ctx(), container.ListOptions{All: true})
	if err != nil {
		return err
	}
	now := time.Now()
	usage.Containers = make([]*types.ContainerSummary, 0, len(records))
	for _, r := range records {
		entry := wire.NewContainerSummary(r, now)
		wire.FitSummary(entry, c.Version(), r)
		err := h.addSizes(c, entry, r.ID)
		if fault.Is(err, fault.NotFound) {
			continue // removed since the list was made
		}
		if err != nil {
			return err
		}
		usage.Containers = append(usage.Containers, entry)
	}
	return nil
}
