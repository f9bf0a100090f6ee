package handler

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"moss/api/conn"
	"moss/api/route"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/stdio"
)

func (h *Handler) containerAttach(c *route.Call) error {
	keys := ""
	if c.Version() >= v(22) {
		keys = c.Text("detachKeys")
	}
	detach, err := stdio.ParseDetachKeys(keys)
	if err != nil {
		return err
	}
	opt := container.AttachOptions{
		Logs: c.Bool("logs"), Stream: c.Bool("stream"),
		Stdin: c.Bool("stdin"), Stdout: c.Bool("stdout"), Stderr: c.Bool("stderr"), DetachKeys: detach,
	}
	// The end of a client's input is not its end: it may have nothing to send and wait for output. Once the connection is
	// taken over, its own errors end the view, and the server closes it when it shuts down.
	ctx := context.WithoutCancel(c.Ctx())
	opened := false
	err = h.containers.Attach(ctx, c.Param("id"), opt, func() (io.ReadWriteCloser, error) {
		stream, err := conn.Hijack(c.Writer(), c.Request())
		opened = err == nil
		return stream, err
	})
	if opened && err != nil {
		h.log.Warn().Err(err).Str("container", c.Param("id")).Msg("attach ended early")
		return nil
	}
	return err
}

// timestampForm is how log lines show their time: nanoseconds with all their digits, so that lines stay aligned.
const timestampForm = "2006-01-02T15:04:05.000000000Z07:00"

func (h *Handler) containerLogs(c *route.Call) error {
	opt, err := logsOptions(c)
	if err != nil {
		return err
	}
	r, err := h.containers.Get(c.Param("id"))
	if err != nil {
		return err
	}
	timestamps := c.Bool("timestamps")
	var details []byte
	if c.Bool("details") && c.Version() >= v(24) {
		details = []byte(logDetails(r) + " ")
	}
	// The head goes out with the first line, so that an error before it can be a status; when the client follows, a line
	// may be long in coming, and what can fail has failed by then.
	var out *conn.Output
	open := func() error {
		if out != nil {
			return nil
		}
		out, err = conn.NewOutput(c.Writer(), c.Request(), r.Config.Tty)
		return err
	}
	ctx := c.Ctx()
	if opt.Follow && r.LogPath != "" {
		if err := open(); err != nil {
			return err
		}
		defer out.Close() //nolint:errcheck // The client may have gone.
		var cancel context.CancelFunc
		ctx, cancel = out.Watch(ctx)
		defer cancel()
	}
	err = h.containers.Logs(ctx, r.ID, opt, func(stream stdio.Stream, at time.Time, line []byte) error {
		if err := open(); err != nil {
			return err
		}
		var stamp []byte
		if timestamps {
			stamp = append(at.UTC().AppendFormat(make([]byte, 0, len(timestampForm)+1), timestampForm), ' ')
		}
		return out.Send(stream, stamp, details, line)
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
	if c.Version() >= v(20) {
		if opt.Since, err = timestamp("since", c.Text("since")); err != nil {
			return opt, err
		}
	}
	if tail := c.Text("tail"); tail != "" && tail != "all" {
		// Clients rely on everything that is no number being all.
		if n, err := strconv.Atoi(tail); err == nil {
			opt.Tail = max(n, -1)
		}
	}
	return opt, nil
}

// logDetails shows the labels and variables that the log's options ask for, as the log driver would keep them.
func logDetails(r *container.Record) string {
	var parts []string
	add := func(key, value string) { parts = append(parts, key+"="+value) }
	for key := range strings.SplitSeq(r.Host.LogConfig.Config["labels"], ",") {
		if value, ok := r.Config.Labels[key]; ok {
			add(key, value)
		}
	}
	for key := range strings.SplitSeq(r.Host.LogConfig.Config["env"], ",") {
		for _, pair := range r.Config.Env {
			if name, value, ok := strings.Cut(pair, "="); ok && name == key {
				add(key, value)
			}
		}
	}
	return strings.Join(parts, ",")
}

// timestamp reads Unix seconds with an optional fraction: 1448064000.123. Empty and zero are no time at all; anything
// else is fault.Invalid.
func timestamp(name, text string) (time.Time, error) {
	if text == "" || text == "0" {
		return time.Time{}, nil
	}
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	const far = int64(1) << 40 // thousands of years: beyond it nanoseconds would wrap
	if err != nil || seconds > far || seconds < -far || len(fraction) > 9 || strings.Trim(fraction, "0123456789") != "" {
		return time.Time{}, fault.Invalid("invalid value for %s: got %q, want Unix seconds", name, text)
	}
	nanos := 0
	if fraction != "" {
		nanos, err = strconv.Atoi((fraction + "000000000")[:9])
		if err != nil {
			return time.Time{}, fault.Invalid("invalid value for %s: got %q, want Unix seconds", name, text)
		}
	}
	return time.Unix(seconds, int64(nanos)), nil
}
