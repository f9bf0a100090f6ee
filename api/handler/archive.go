package handler

import (
	"context"
	"io"
	"net/http"

	"moss/api/compat"
	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/archive"
	"moss/engine/container"
	"moss/engine/fault"
)

// Archive copies files into and out of containers.
type Archive interface {
	Stat(ctx context.Context, ref, path string) (archive.Stat, error)
	Open(ctx context.Context, ref, path string) (*archive.Download, error)
	OpenCopy(ctx context.Context, ref, path string) (*archive.Download, error)
	OpenExport(ctx context.Context, ref string) (*archive.Download, error)
	Unpack(ctx context.Context, ref, path string, src io.Reader, opt archive.UnpackOptions) error
}

// ContainerChanges tells what containers have changed of their images' files.
type ContainerChanges interface {
	Changes(ctx context.Context, ref string) ([]container.Change, error)
}

func (h *Handler) containerChanges(c *route.Call) error {
	changes, err := h.changes.Changes(c.Ctx(), c.Param("id"))
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, wire.NewChanges(changes))
}

func (h *Handler) containerExport(c *route.Call) error {
	d, err := h.archive.OpenExport(c.Ctx(), c.Param("id"))
	if err != nil {
		return err
	}
	return sendArchive(c, d, "application/octet-stream")
}

func (h *Handler) containerCopy(c *route.Call) error {
	raw, err := c.JSONBody()
	if err != nil {
		return err
	}
	var asked types.CopySource
	if len(raw) > 0 {
		if err := wire.Decode(raw, &asked, c.Version()); err != nil {
			return err
		}
	}
	if asked.Resource == "" {
		return fault.Internal("Path cannot be empty") // the documents know no 400 here
	}
	d, err := h.archive.OpenCopy(c.Ctx(), c.Param("id"), asked.Resource)
	if err != nil {
		if fault.Is(err, fault.Invalid) { // likewise
			err = fault.Internal("%v", err)
		}
		return err
	}
	return sendArchive(c, d, compat.Tar)
}

func (h *Handler) archiveStat(c *route.Call) error {
	stat, err := h.archive.Stat(c.Ctx(), c.Param("id"), c.Text("path"))
	if err != nil {
		return err
	}
	if err := setPathStat(c, stat); err != nil {
		return err
	}
	return c.Empty(nil)
}

func (h *Handler) archiveGet(c *route.Call) error {
	d, err := h.archive.Open(c.Ctx(), c.Param("id"), c.Text("path"))
	if err != nil {
		return err
	}
	if err := setPathStat(c, d.Stat); err != nil {
		d.Close() //nolint:errcheck // nothing was read
		return err
	}
	return sendArchive(c, d, compat.Tar)
}

// setPathStat describes a path in the answer's head, by the name of the documents and by the one that clients read.
func setPathStat(c *route.Call, stat archive.Stat) error {
	text, err := wire.NewPathStat(stat).Header()
	if err != nil {
		return err
	}
	c.Writer().Header().Set(compat.PathStat, text)
	c.Writer().Header().Set(compat.PathStatClient, text)
	return nil
}

// sendArchive answers with an archive and closes it. An error on the way breaks the answer off.
func sendArchive(c *route.Call, d *archive.Download, mediaType string) error {
	defer d.Close() //nolint:errcheck // what was sent is sent
	c.Writer().Header().Set("Content-Type", mediaType)
	c.Writer().WriteHeader(http.StatusOK)
	return d.Send(c.Ctx(), c.Writer())
}

func (h *Handler) archivePut(c *route.Call) error {
	opt := archive.UnpackOptions{NoOverwriteDirNonDir: c.Bool("noOverwriteDirNonDir"), ToUser: c.Bool("copyUIDGID")}
	return c.Empty(h.archive.Unpack(c.Ctx(), c.Param("id"), c.Text("path"), newArchiveBody(c), opt))
}
