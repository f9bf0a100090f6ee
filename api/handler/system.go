package handler

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"moss/api/apierr"
	"moss/api/conn"
	"moss/api/route"
	"moss/api/wire"
	"moss/engine/event"
	"moss/engine/fault"
)

func ping(c *route.Call) error {
	h := c.Writer().Header()
	h.Set("Cache-Control", "no-cache, no-store, must-revalidate")
	h.Set("Pragma", "no-cache")
	return c.Bytes(http.StatusOK, "text/plain; charset=utf-8", []byte("OK"))
}

func (h *Handler) systemInfo(c *route.Call) error {
	info, err := h.system.Info(c.Ctx())
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, wire.NewInfo(&info))
}

func (h *Handler) systemVersion(c *route.Call) error {
	return reply(c, http.StatusOK, wire.NewVersion(h.system.Version()))
}

func (h *Handler) systemEvents(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	filter, err := event.NewFilter(filters)
	if err != nil {
		return err
	}
	opt := event.Options{Filter: filter.Match}
	if opt.Since, err = timestamp("since", c.Text("since")); err != nil {
		return err
	}
	opt.Past = c.Has("since") && opt.Since.IsZero()
	if opt.Until, err = timestamp("until", c.Text("until")); err != nil {
		return err
	}
	if !opt.Until.IsZero() && opt.Until.Before(opt.Since) {
		return fault.Invalid("until must not be before since")
	}
	stream := conn.NewJSON(c.Writer(), c.Request())
	sub := h.events.Subscribe(c.Ctx(), opt)
	defer sub.Close()
	// The head must not wait for an event: clients start a container once they see it.
	if stream.Open() != nil {
		return nil // the client has gone
	}
	return h.sendEvents(c, sub, stream)
}

func (h *Handler) sendEvents(c *route.Call, sub *event.Subscription, stream *conn.JSON) error {
	for {
		e, err := sub.Next(c.Ctx())
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, context.Canceled):
			return nil
		case err != nil:
			_ = stream.Send(apierr.StreamMessage(err)) // The client may have gone.
			return nil
		}
		if c.Version() < v(24) && isLate(&e) {
			continue
		}
		raw, err := wire.Encode(wire.NewEvent(&e), c.Version())
		if err != nil {
			return err
		}
		if err := stream.Send(raw); err != nil {
			return nil //nolint:nilerr // The client has gone.
		}
	}
}

// isLate reports whether an event is one that the documents have from 1.24 on (document 3, section 6).
func isLate(e *event.Event) bool {
	switch e.Type {
	case event.TypeContainer:
		action, _, _ := strings.Cut(e.Action, ":")
		return action == "detach" || action == "exec_detach" || action == "health_status"
	case event.TypeImage:
		return e.Action == "load" || e.Action == "save"
	default:
		return e.Type == event.TypeDaemon
	}
}
