package handler

import (
	"io"
	"net/http"

	"moss/api/apierr"
	"moss/api/conn"
	"moss/api/route"
	"moss/api/wire"
	"moss/engine/fault"
	"moss/engine/image"
)

func (h *Handler) imageList(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	images, err := h.images.List(c.Ctx(), image.ListOptions{All: c.Bool("all"), Name: c.Text("filter"), Filters: filters})
	if err != nil {
		return err
	}
	digests := c.Bool("digests") || c.Version() >= v(22)
	list := make([]*wire.ImageSummary, 0, len(images))
	for _, i := range images {
		list = append(list, wire.NewImageSummary(i, digests))
	}
	return reply(c, http.StatusOK, list)
}

func (h *Handler) imageInspect(c *route.Call) error {
	i, err := h.images.Get(c.Ctx(), c.Param("name"))
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, wire.NewImageInspect(i, h.driver))
}

func (h *Handler) imageRemove(c *route.Call) error {
	removed, err := h.images.Remove(c.Ctx(), c.Param("name"), image.RemoveOptions{
		Force: c.Bool("force"), NoPrune: c.Bool("noprune"),
	})
	if err != nil {
		return err
	}
	list := make([]wire.ImageRemoved, 0, len(removed))
	for _, r := range removed {
		list = append(list, wire.ImageRemoved(r))
	}
	return reply(c, http.StatusOK, list)
}

func (h *Handler) imageCreate(c *route.Call) error {
	switch src := c.Text("fromSrc"); {
	case c.Has("fromImage"):
		return fault.Unsupported("moss does not pull images from registries yet: import %s from an archive instead", c.Text("fromImage"))
	case src == "-":
		return h.imageImport(c)
	case src != "":
		return fault.Unsupported("moss does not import images from a URL yet: send the archive as the body, with fromSrc=-")
	default:
		return fault.Invalid("one of fromImage and fromSrc is needed")
	}
}

// maxUnread is how many bytes of an archive that was refused are still taken from the client.
const maxUnread = 1 << 30

// imageImport makes an image from the body. The image's id is the last message that the service reports.
func (h *Handler) imageImport(c *route.Call) error {
	stream := conn.NewJSON(c.Writer(), c.Request())
	send := func(m *wire.Progress) error {
		raw, err := wire.Encode(m, c.Version())
		if err != nil {
			return err
		}
		return stream.Send(raw)
	}
	_, err := h.images.Import(c.Ctx(), c.Request().Body, image.ImportOptions{
		Repo: c.Text("repo"), Tag: c.Text("tag"), Message: c.Text("message"), Changes: c.Texts("changes"),
	}, func(p image.Progress) {
		_ = send(wire.NewProgress(p)) // A client that went is noticed where its archive is read.
	})
	if err != nil {
		// A client that cannot send on sees a broken connection and not the error.
		_, _ = io.CopyN(io.Discard, c.Request().Body, maxUnread)
	}
	if err != nil && stream.Begun() {
		_ = stream.Send(apierr.StreamMessage(err)) // The client may be what failed.
		return nil
	}
	return err
}
