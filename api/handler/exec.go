package handler

import (
	"context"
	"io"
	"net/http"

	"moss/api/compat"
	"moss/api/conn"
	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/exec"
	"moss/engine/fault"
)

func (h *Handler) execCreate(c *route.Call) error {
	var body types.ExecCreate
	if err := decodeBody(c, &body); err != nil {
		return err
	}
	config := wire.ToExec(&body)
	id, err := h.execs.Create(c.Ctx(), c.Param("id"), config)
	if err != nil {
		return err
	}
	if err := h.execSize(c, id, config.Tty, body.ConsoleSize); err != nil {
		return err
	}
	return replyJSON(c, http.StatusCreated, &types.ExecCreated{ID: id, Warnings: []string{}})
}

func (h *Handler) execStart(c *route.Call) error {
	id := c.Param("id")
	body, err := h.execStartBody(c, id)
	if err != nil {
		return err
	}
	if err := h.execSize(c, id, body.Tty, body.ConsoleSize); err != nil {
		return err
	}
	c.Refuses() // what is wrong from here on is the instance, and not the request
	opt := exec.StartOptions{Detach: body.Detach, Raw: body.Tty}
	if body.Detach {
		return c.Empty(h.execs.Start(c.Ctx(), id, opt, nil))
	}
	// As with attach: the end of a client's input is not its end.
	ctx := context.WithoutCancel(c.Ctx())
	opened := false
	err = h.execs.Start(ctx, id, opt, func() (io.ReadWriteCloser, error) {
		stream, err := conn.Hijack(c.Writer(), c.Request(), compat.StreamType(c.Version(), body.Tty))
		opened = err == nil
		return stream, err
	})
	if opened && err != nil {
		c.Log().Debug().Err(err).Str("exec", id).Msg("client of exec left early")
		return nil
	}
	return err
}

// execStartBody reads the body of a start. Clients before 1.22 were not asked for its media type. Without one the terminal
// is that of the create.
func (h *Handler) execStartBody(c *route.Call, id string) (types.ExecStart, error) {
	var body types.ExecStart
	if c.Version() < v(22) && c.Request().ContentLength != 0 {
		c.Request().Header.Set("Content-Type", compat.JSON)
	}
	raw, err := c.JSONBody()
	if err != nil {
		return body, err
	}
	conn.BodyRead(c.Request())
	if len(raw) > 0 {
		return body, wire.Decode(raw, &body, c.Version())
	}
	info, err := h.execs.Inspect(id)
	body.Tty = info.Config.Tty
	return body, err
}

func (h *Handler) execResize(c *route.Call) error {
	height, err := readTerminalSide(c, "h")
	if err != nil {
		return err
	}
	width, err := readTerminalSide(c, "w")
	if err != nil {
		return err
	}
	if err := h.execs.Resize(c.Ctx(), c.Param("id"), width, height); err != nil {
		return err
	}
	c.Writer().WriteHeader(http.StatusCreated)
	return nil
}

// execSize sets the size that a create or a start asks for. An empty one asks for nothing, nor does one without a terminal.
func (h *Handler) execSize(c *route.Call, id string, tty bool, size *[2]uint16) error {
	if !tty || size == nil || size[0] == 0 || size[1] == 0 {
		return nil
	}
	return h.execs.Resize(c.Ctx(), id, size[1], size[0])
}

func (h *Handler) execInspect(c *route.Call) error {
	info, err := h.execs.InspectEnd(c.Ctx(), c.Param("id"))
	if err != nil {
		return err
	}
	if info.Cut {
		c.Writer().Header().Set(compat.OutputCut, "1")
	}
	var inContainer *types.ContainerInspect
	if c.Version() < v(22) {
		r, err := h.inventory.Get(info.ContainerID)
		if fault.Is(err, fault.NotFound) {
			return fault.NotFound("No such exec instance: %s", info.ID) // it went with its container just now
		}
		if err != nil {
			return err
		}
		inContainer = wire.NewContainerInspect(r)
		wire.FitInspect(inContainer, c.Version(), r)
		inContainer.ExecIDs = h.execs.IDs(r.ID)
	}
	return replyJSON(c, http.StatusOK, wire.NewExecInspect(info, inContainer))
}
