package handler

import (
	"context"
	"net/http"
	"time"

	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/fault"
)

// Pruner removes what nothing uses and tells what went and the bytes that this gave back. An error comes with what was done
// before it.
type Pruner interface {
	Prune(ctx context.Context, filters map[string][]string) (removed []string, reclaimed int64, err error)
}

func (h *Handler) containersPrune(c *route.Call) error {
	removed, reclaimed, err := runPruner(c, h.containers)
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, &types.ContainersPruned{ContainersDeleted: removed, SpaceReclaimed: reclaimed})
}

func (h *Handler) volumesPrune(c *route.Call) error {
	removed, reclaimed, err := runPruner(c, h.volumes)
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, &types.VolumesPruned{VolumesDeleted: removed, SpaceReclaimed: reclaimed})
}

func runPruner(c *route.Call, p Pruner) (removed []string, reclaimed int64, err error) {
	filters, err := c.Filters()
	if err != nil {
		return nil, 0, err
	}
	return p.Prune(c.Ctx(), filters)
}

func (h *Handler) imagesPrune(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	removed, reclaimed, err := h.imageVerbs.Prune(c.Ctx(), filters)
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, wire.NewImagesPruned(removed, reclaimed))
}

func (h *Handler) systemUsage(c *route.Call) error {
	images, err := h.images.Usage(c.Ctx())
	if err != nil {
		return err
	}
	volumes, err := h.volumes.Usage(c.Ctx())
	if err != nil {
		return err
	}
	records, err := h.inventory.List(c.Ctx(), container.ListOptions{All: true})
	if err != nil {
		return err
	}
	cache, err := h.buildCache(c.Ctx())
	if err != nil {
		return err
	}
	usage := wire.NewDiskUsage(&images, volumes, cache)
	now := time.Now()
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
	return replyJSON(c, http.StatusOK, usage)
}
