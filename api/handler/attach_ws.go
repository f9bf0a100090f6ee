package handler

import (
	"context"
	"io"

	"moss/api/conn"
	"moss/api/route"
)

func (h *Handler) containerAttachWS(c *route.Call) error {
	r, err := h.inventory.Get(c.Param("id"))
	if err != nil {
		return err
	}
	if err := conn.CheckWebSocket(c.Writer(), c.Request()); err != nil {
		return err
	}
	opt, err := attachOptions(c)
	if err != nil {
		return err
	}
	// Clients before 1.42 name none and expect all.
	if c.Version() < v(42) && !c.Has("stdin") && !c.Has("stdout") && !c.Has("stderr") {
		opt.Stdin, opt.Stdout, opt.Stderr = true, true, true
	}
	opened := false
	err = h.viewers.Attach(context.WithoutCancel(c.Ctx()), r.ID, opt, func() (io.ReadWriteCloser, error) {
		socket, err := conn.NewWebSocket(c.Writer(), c.Request(), r.Config.Tty, c.Version() >= v(28))
		if err != nil {
			return nil, err
		}
		opened = true
		return socket, nil
	})
	if opened && err != nil {
		c.Log().Warn().Err(err).Str("container", r.ID).Msg("attach ended early")
		return nil
	}
	return err
}
