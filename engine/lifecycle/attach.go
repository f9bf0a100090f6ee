package lifecycle

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/logs"
	"moss/engine/pidfd"
	"moss/engine/session"
	"moss/engine/stdio"
	"moss/engine/task"
)

// Viewers are the clients that look at what containers write: attached to their streams, or reading their logs.
type Viewers struct {
	index   *index
	events  events
	logs    *logReader
	buffers session.Buffers
	closing <-chan struct{} // closed when the engine ends
}

// viewer is a client that attached before the container's start.
type viewer struct {
	req    task.Attach
	joined chan seen // gets the view at the start; closed when the container goes
}

// runView is what a client sees of one run of a container.
type runView struct {
	streams task.Streams
	run
}

// run is one run of a container's process. Its end has come once everybody can see it.
type run struct {
	task task.Task // nil: the process has ended
	end  *moment
}

// hangup is implemented by connections that can tell a client that has gone from one that only ended its input.
type hangup interface {
	// AwaitHangup blocks until the client has gone or the connection is closed.
	AwaitHangup()
}

// Attach connects a client to the container's streams. open is called once the view has been joined: it answers the
// client and returns its connection, which Attach closes. A container that does not run is waited for: its log, if that is
// asked for, comes at once, and nothing that it writes then is lost. Attach returns when the container has ended, the client
// has gone or has typed its detach keys.
//
// Errors before open are the caller's to report: fault.NotFound, fault.Conflict (paused), fault.Invalid.
func (v *Viewers) Attach(
	ctx context.Context, ref string, opt container.AttachOptions, open func() (io.ReadWriteCloser, error),
) error {
	c, err := v.index.find(ref)
	if err != nil {
		return err
	}
	r := c.record()
	if r.State == container.Paused {
		return fault.Conflict("Container %s is paused. Unpause the container before attach", ref)
	}
	if !opt.Stream {
		return v.serveLog(ctx, r, opt, open)
	}
	req := task.Attach{
		Stdin: opt.Stdin && r.Config.OpenStdin, Stdout: opt.Stdout, Stderr: opt.Stderr, Mark: opt.Logs,
	}
	waiting := &viewer{req: req, joined: make(chan seen, 1)}
	var ended task.Task
	for {
		now, ok := c.addViewer(waiting, ended)
		switch {
		case !ok:
			return noSuch(c.id)
		case now == nil:
			return v.viewLater(ctx, c, opt, waiting, open)
		case now.task == nil:
			// The process has ended and the state still says that it runs: there is nothing to see, and the client, which
			// has looked at the state, waits for no other start.
			return v.serveJoined(ctx, c, opt, seen{runView: runView{overStreams{}, *now}}, open)
		}
		streams, mark, err := now.task.Attach(ctx, req)
		switch {
		case err == nil:
			return v.serveJoined(ctx, c, opt, seen{runView{streams, *now}, &logs.Mark{Inode: mark.Inode, Size: mark.Size}}, open)
		case !fault.Is(err, fault.Conflict):
			return err
		}
		ended = now.task // just now
	}
}

// serveLog serves a client that asks for the log alone.
func (v *Viewers) serveLog(
	ctx context.Context, r *container.Record, opt container.AttachOptions, open func() (io.ReadWriteCloser, error),
) error {
	conn, err := open()
	if err != nil {
		return err
	}
	if err := v.replayLog(ctx, r, opt, logs.ReadOptions{}, conn); err != nil {
		return err
	}
	return session.End(conn)
}

// serveJoined serves a client whose streams are joined.
func (v *Viewers) serveJoined(
	ctx context.Context, c *ctr, opt container.AttachOptions, what seen, open func() (io.ReadWriteCloser, error),
) error {
	defer what.streams.Close() //nolint:errcheck // the view ends either way
	// Before the answer, so that the events of what the client does next come after it.
	publishEvent(v.events, "attach", c.record())
	conn, err := open()
	if err != nil {
		return err
	}
	if err := v.replayLog(ctx, c.record(), opt, logs.ReadOptions{StopAt: what.mark}, conn); err != nil {
		return err
	}
	v.copyStreams(ctx, c, opt, what.runView, conn)
	return nil
}

// overStreams are those of a process that has ended.
type overStreams struct{}

// Read has nothing.
func (overStreams) Read([]byte) (int, error) { return 0, io.EOF }

// Write drops what the client sends.
func (overStreams) Write(p []byte) (int, error) { return len(p), nil }

// CloseWrite has nothing to end.
func (overStreams) CloseWrite() error { return nil }

// Close has nothing to end.
func (overStreams) Close() error { return nil }

// viewLater serves a client that came before the start: it is answered at once, with the log if it asks for that, and joined
// when the start comes.
func (v *Viewers) viewLater(
	ctx context.Context, c *ctr, opt container.AttachOptions, waiting *viewer,
	open func() (io.ReadWriteCloser, error),
) error {
	defer c.removeViewer(waiting)
	now := time.Now() // unless the start has come already, all that the next run writes is younger
	select {
	case what, ok := <-waiting.joined:
		if !ok {
			return noSuch(c.id)
		}
		return v.serveJoined(ctx, c, opt, what, open)
	default:
	}
	publishEvent(v.events, "attach", c.record()) // as in serveJoined
	conn, err := open()
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the client may have closed it already
	if err := v.replayLog(ctx, c.record(), opt, logs.ReadOptions{Until: now}, conn); err != nil {
		return err
	}

	gone := make(chan struct{})
	if h, ok := conn.(hangup); ok {
		go func() { h.AwaitHangup(); close(gone) }()
	}
	select {
	case what, ok := <-waiting.joined:
		if ok {
			defer what.streams.Close() //nolint:errcheck // the view ends either way
			v.copyStreams(ctx, c, opt, what.runView, conn)
		}
	case <-gone:
	case <-ctx.Done():
	}
	return nil
}

// removeViewer takes a viewer back whose client has gone.
func (c *ctr) removeViewer(v *viewer) {
	c.dropViewer(v)
	select {
	case what, ok := <-v.joined: // after the client had gone
		if ok {
			what.streams.Close() //nolint:errcheck // nobody looks
		}
	default:
	}
}

// joinViewers joins those who wait before the process runs, so that they miss nothing.
func (c *ctr) joinViewers(ctx context.Context, t task.Task) {
	now := run{t, c.nextEnd()}
	for _, v := range c.takeViewers() {
		if streams, mark, err := t.Attach(ctx, v.req); err == nil {
			v.joined <- seen{runView{streams, now}, &logs.Mark{Inode: mark.Inode, Size: mark.Size}}
		} else {
			close(v.joined)
		}
	}
}

// dropViewers tells those who wait that there will be no start.
func (c *ctr) dropViewers() {
	for _, v := range c.takeViewers() {
		close(v.joined)
	}
}

// SetDetachKeys sets the bytes that detach viewers which named none themselves, from the container's next start on: with
// the start they are joined. fault.NotFound if there is no such container.
func (v *Viewers) SetDetachKeys(ref string, keys []byte) error {
	c, err := v.index.find(ref)
	if err != nil {
		return err
	}
	c.setKeys(keys)
	return nil
}

// copyStreams copies both ways until the output has ended, the client has gone or the detach keys were typed. It closes conn.
func (v *Viewers) copyStreams(
	ctx context.Context, c *ctr, opt container.AttachOptions, what runView, conn io.ReadWriteCloser,
) {
	r := c.record()
	o := session.Options{
		Input: opt.Stdin && r.Config.OpenStdin, Detached: func() { publishEvent(v.events, "detach", r) }, Buffers: &v.buffers,
		Over: func(ctx context.Context) { v.awaitEnd(ctx, c, what.run) },
	}
	if r.Config.Tty {
		o.InputEnd = o.Input // who gives up the keyboard leaves: programs see no end of input on a terminal
		o.Keys = opt.DetachKeys
		if o.Keys == nil {
			o.Keys = c.usualKeys()
		}
	}
	session.Run(ctx, conn, what.streams, o)
}

// awaitEnd is called when the output of a run has ended. It returns once everybody can see that the run has, or ctx is done;
// at once if the process lives on, since only this view has ended then.
func (v *Viewers) awaitEnd(ctx context.Context, c *ctr, now run) {
	if r := c.record(); now.task != nil && (pidfd.ID{Pid: r.Pid, Start: r.PidStart}).Lives() && now.task.Signal(ctx, 0) == nil {
		return // the process was looked at first: of one that has ended the monitor need not be asked
	}
	select {
	case <-now.end.done:
	case <-ctx.Done():
	case <-v.closing: // the next engine sees to the end
	}
}

// seen is what a client that asks for the log sees after it.
type seen struct {
	runView
	mark *logs.Mark // up to where the log is read; nil: to its end
}

// replayLog sends the log if it is asked for and can be read; upTo bounds it. An error, which comes after the answer has
// begun, is told in the stream too.
func (v *Viewers) replayLog(
	ctx context.Context, r *container.Record, opt container.AttachOptions, upTo logs.ReadOptions, conn io.ReadWriteCloser,
) error {
	if !opt.Logs || !r.LogReadable() {
		return nil
	}
	if err := v.sendLog(ctx, r, opt, upTo, conn); err != nil {
		return v.sendFailure(r, err, conn)
	}
	return nil
}

// sendLog sends the log up to a bound.
func (v *Viewers) sendLog(
	ctx context.Context, r *container.Record, opt container.AttachOptions, upTo logs.ReadOptions, conn io.Writer,
) error {
	read := upTo
	read.Stdout, read.Stderr, read.Tail = opt.Stdout, opt.Stderr, -1
	err := v.logs.readLog(ctx, r, read, func(e logs.Entry) error {
		if r.Config.Tty {
			_, err := conn.Write(e.Line)
			return err
		}
		_, err := stdio.NewFrameWriter(conn, e.Stream).Write(e.Line)
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has never run
	}
	return err
}

// sendFailure ends an answer that has begun with the reason, in the form of the output. It returns cause.
func (v *Viewers) sendFailure(r *container.Record, cause error, conn io.ReadWriteCloser) error {
	var err error
	if text := "Error: " + fault.Text(cause); r.Config.Tty {
		_, err = io.WriteString(conn, text+"\r\n")
	} else {
		_, err = stdio.NewFrameWriter(conn, stdio.Stderr).Write([]byte(text + "\n"))
	}
	if err != nil { // the client has gone: it may be the cause itself
		return errors.Join(cause, conn.Close())
	}
	return errors.Join(cause, session.End(conn))
}

// Logs passes the container's log lines to emit, oldest first, each with its attributes, which must not be changed. With
// Follow it goes on until the container has ended, ctx is done or emit fails. fault.NotFound if there is no such container,
// fault.Unsupported for a log driver that cannot be read, fault.Unavailable for a journal that does not answer.
func (v *Viewers) Logs(
	ctx context.Context, ref string, opt container.LogsOptions,
	emit func(stream stdio.Stream, at time.Time, line []byte, attrs map[string]string) error,
) error {
	c, err := v.index.find(ref)
	if err != nil {
		return err
	}
	r := c.record()
	if !r.LogReadable() {
		return fault.Unsupported("configured logging driver does not support reading")
	}
	read := logs.ReadOptions{
		Stdout: opt.Stdout, Stderr: opt.Stderr, Since: opt.Since, Until: opt.Until, Tail: opt.Tail,
		Follow: opt.Follow && r.State.Running(), End: c.untilRest().done,
	}
	err = v.logs.readLog(ctx, r, read, func(e logs.Entry) error { return emit(e.Stream, e.Time, e.Line, e.Attrs) })
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has never run
	}
	return err
}
