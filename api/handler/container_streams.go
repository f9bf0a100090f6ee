package handler

import (
	"context"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"moss/api/compat"
	"moss/api/conn"
	"moss/api/route"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/stdio"
)

func (h *Handler) containerAttach(c *route.Call) error {
	opt, err := attachOptions(c)
	if err != nil {
		return err
	}
	r, err := h.inventory.Get(c.Param("id"))
	if err != nil {
		return err
	}
	// The end of a client's input is not its end: it may have nothing to send and wait for output. Once the connection is
	// taken over, its own errors end the view, and the server closes it when it shuts down.
	ctx := context.WithoutCancel(c.Ctx())
	opened := false
	err = h.viewers.Attach(ctx, r.ID, opt, func() (io.ReadWriteCloser, error) {
		stream, err := conn.Hijack(c.Writer(), c.Request(), compat.StreamType(c.Version(), r.Config.Tty))
		opened = err == nil
		return stream, err
	})
	if opened && err != nil {
		c.Log().Warn().Err(err).Str("container", c.Param("id")).Msg("attach ended early")
		return nil
	}
	return err
}

func attachOptions(c *route.Call) (container.AttachOptions, error) {
	var detach []byte
	var err error
	if c.Has("detachKeys") {
		detach, err = stdio.ParseDetachKeys(c.Text("detachKeys"))
	}
	return container.AttachOptions{
		Logs: c.Bool("logs"), Stream: c.Bool("stream"),
		Stdin: c.Bool("stdin"), Stdout: c.Bool("stdout"), Stderr: c.Bool("stderr"), DetachKeys: detach,
	}, err
}

func (h *Handler) containerLogs(c *route.Call) error {
	opt, err := logsOptions(c)
	if err != nil {
		return err
	}
	r, err := h.inventory.Get(c.Param("id"))
	if err != nil {
		return err
	}
	timestamps := c.Bool("timestamps")
	details := c.Bool("details")
	// The head goes out with the first line, so that an error before it can be a status; when the client follows, a line
	// may be long in coming, and what can fail has failed by then.
	var out *conn.Output
	open := func() error {
		if out != nil {
			return nil
		}
		out, err = conn.NewOutput(c.Writer(), c.Request(), compat.StreamType(c.Version(), r.Config.Tty), r.Config.Tty)
		return err
	}
	ctx := c.Ctx()
	// A taken-over connection tells a client that ended its side from one that has gone; the server before it does not.
	if (opt.Follow || conn.Upgrades(c.Request())) && r.LogReadable() {
		if err := open(); err != nil {
			return err
		}
		defer out.Close() //nolint:errcheck // The client may have gone.
		var cancel context.CancelFunc
		ctx, cancel = out.Watch(ctx)
		defer cancel()
	}
	err = h.viewers.Logs(ctx, r.ID, opt, func(stream stdio.Stream, at time.Time, line []byte, attrs map[string]string) error {
		if err := open(); err != nil {
			return err
		}
		var stamp []byte
		if timestamps {
			stamp = append(at.UTC().AppendFormat(make([]byte, 0, len(timestampForm)+1), timestampForm), ' ')
		}
		var shown []byte
		if details {
			shown = []byte(logDetails(attrs) + " ")
		}
		return out.Send(stream, stamp, shown, line)
	})
	if err != nil && out == nil {
		return err
	}
	if openErr := open(); openErr != nil {
		return openErr
	}
	if err != nil && ctx.Err() == nil {
		_ = out.Fail(err) // The client may be what failed.
	}
	_ = out.Close() // The client may have gone.
	return nil
}

func logsOptions(c *route.Call) (container.LogsOptions, error) {
	opt := container.LogsOptions{
		Stdout: c.Bool("stdout"), Stderr: c.Bool("stderr"), Follow: c.Bool("follow"), Tail: -1,
	}
	if !opt.Stdout && !opt.Stderr {
		return opt, fault.Invalid("Bad parameters: you must choose at least one stream")
	}
	var err error
	now := time.Now()
	if opt.Since, err = parseTimestamp("since", c.Text("since"), now); err != nil {
		return opt, err
	}
	if opt.Until, err = parseTimestamp("until", c.Text("until"), now); err != nil {
		return opt, err
	}
	if tail := c.Text("tail"); tail != "" && tail != "all" {
		n, err := c.Int("tail", -1)
		if err != nil {
			return opt, fault.Invalid("invalid value for tail: got %q, want all or a number of lines", tail)
		}
		opt.Tail = max(n, -1) // clients spell "all" as -1 too
	}
	return opt, nil
}

// logDetails shows the attributes of a log entry. What would break the line or the list is escaped as in a query.
func logDetails(attrs map[string]string) string {
	parts := make([]string, 0, len(attrs))
	for key, value := range attrs {
		parts = append(parts, url.QueryEscape(key)+"="+url.QueryEscape(value))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
