package handler

import (
	"errors"
	"net/http"

	"moss/api/apierr"
	"moss/api/conn"
	"moss/api/route"
	"moss/api/wire"
	"moss/engine/fault"
	"moss/engine/stats"
)

func (h *Handler) containerStats(c *route.Call) error {
	streams := !c.Has("stream") || c.Bool("stream")
	oneShot := c.Bool("one-shot")
	if streams && oneShot {
		return fault.Invalid("cannot have stream=true and one-shot=true")
	}
	if !streams {
		sample, err := h.stats.Once(c.Ctx(), c.Param("id"), oneShot)
		if err != nil {
			return err
		}
		return replyJSON(c, http.StatusOK, wire.NewStats(sample))
	}
	stream := conn.NewJSON(c.Writer(), c.Request())
	errLeft := errors.New("the client has gone")
	err := h.stats.Watch(c.Ctx(), c.Param("id"), func(sample *stats.Sample) error {
		raw, err := wire.Encode(wire.NewStats(sample), c.Version())
		if err != nil {
			return err
		}
		if stream.Send(raw) != nil {
			return errLeft
		}
		return nil
	})
	if errors.Is(err, errLeft) || c.Ctx().Err() != nil {
		return nil //nolint:nilerr // The client has gone.
	}
	if err == nil || !stream.Begun() {
		return err
	}
	_ = stream.Send(apierr.StreamMessage(err)) // The client may have gone.
	return nil
}

func (h *Handler) containerTop(c *route.Call) error {
	table, err := h.top.Top(c.Ctx(), c.Param("id"), c.Text("ps_args"))
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, wire.NewTop(table))
}
