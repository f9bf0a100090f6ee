package handler

import (
	"context"
	"net/http"

	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/fault"
	"moss/engine/volume"
)

// Volumes is all that the endpoints need of volumes.
type Volumes interface {
	List(filters map[string][]string) ([]*volume.Volume, error)
	Create(ctx context.Context, opt volume.CreateOptions) (*volume.Volume, error)
	Get(name string) (*volume.Volume, error)
	Remove(ctx context.Context, name string) error
	Usage(ctx context.Context) ([]volume.Usage, error)
	Pruner
}

func (h *Handler) volumeList(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	volumes, err := h.volumes.List(filters)
	if err != nil {
		return err
	}
	list := make([]*types.Volume, 0, len(volumes))
	for _, found := range volumes {
		list = append(list, wire.NewVolume(found))
	}
	return replyJSON(c, http.StatusOK, &types.VolumeList{Volumes: list, Warnings: []string{}})
}

func (h *Handler) volumeCreate(c *route.Call) error {
	body := &types.VolumeCreate{}
	if err := decodeBody(c, body); err != nil {
		return err
	}
	made, err := h.volumes.Create(c.Ctx(), volume.CreateOptions{
		Name: body.Name, Driver: body.Driver, Options: body.DriverOpts, Labels: body.Labels,
	})
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusCreated, wire.NewVolume(made))
}

func (h *Handler) volumeInspect(c *route.Call) error {
	found, err := h.volumes.Get(c.Param("name"))
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, wire.NewVolume(found))
}

func (h *Handler) volumeRemove(c *route.Call) error {
	err := h.volumes.Remove(c.Ctx(), c.Param("name"))
	if c.Bool("force") && fault.Is(err, fault.NotFound) {
		err = nil // of 1.25: what is gone is what was asked for
	}
	return c.NoContent(err)
}

// clusterVolumeUpdate refuses in words: volumes are those of one machine.
func clusterVolumeUpdate(*route.Call) error {
	return fault.Unsupported("cluster volumes are not there: a volume is on the machine that made it")
}
