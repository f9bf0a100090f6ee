package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/dial"
	"moss/engine/shim/proto"
	"moss/engine/task"
)

// limits bound how long a shim may be silent. A shim has little to do and one answers in well under a millisecond; on a
// machine with many times more work than processors it gets its turn within some hundred. Seconds of silence mean that it
// is stopped, or that what it needs does not come.
type limits struct {
	answer time.Duration // to a request that is memory work, from connecting to the last byte of the answer
	sign   time.Duration // how often a shim at work on a long request is asked for a sign of life
	ready  time.Duration // for a new shim to serve, or one that begins a program to go on: disks may be slow
	end    time.Duration // for processes to go after SIGKILL
}

func usualLimits() limits {
	return limits{answer: 5 * time.Second, sign: 2 * time.Second, ready: 30 * time.Second, end: 10 * time.Second}
}

// errAbandoned is the answer for a shim that was killed and has not gone: no shim serves the task.
var errAbandoned = errors.New("the container's monitor was killed")

// silenceError says what was waited for in vain.
func silenceError(limit time.Duration) error {
	return fmt.Errorf("%w within %s", task.ErrSilent, limit)
}

// transport carries requests to one shim. Every request has a connection of its own, so none waits for another.
type transport struct {
	runner *Runner
	dir    string // the task's folder

	mu        sync.Mutex // guards the fields below
	calls     map[*call]struct{}
	abandoned bool          // the shim was killed: it does not answer, though its socket may still be there
	wait      *net.UnixConn // of the request for the task's end; nil: no such request is under way
}

// askBounded makes one request within its bound. An answer is due at once from a shim that need not wait for anything, in any
// time from one that calls the runtime, as long as it gives signs of life, and to OpWait when the process ends.
func (t *transport) askBounded(ctx context.Context, req proto.Request) (proto.Reply, error) {
	switch req.Op {
	case proto.OpWait:
		return t.askUnbounded(ctx, req)
	case proto.OpStart, proto.OpPause, proto.OpResume, proto.OpUpdate:
		// While the shim begins the runtime, which a slow disk may have to give, it answers nothing: it has one processor.
		return t.askWorking(ctx, req, t.runner.limits.ready)
	case proto.OpPids:
		return t.askWorking(ctx, req, t.runner.limits.answer)
	case proto.OpAttach, proto.OpSignal, proto.OpResize, proto.OpStatus, proto.OpDelete, proto.OpHold, proto.OpExec:
	}
	return t.askPrompt(ctx, req, t.runner.limits.answer)
}

// askPrompt makes a request that is answered within limit. When it is not, the request for the task's end ends as well.
func (t *transport) askPrompt(ctx context.Context, req proto.Request, limit time.Duration) (proto.Reply, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, limit, silenceError(limit))
	defer cancel()
	reply, err := t.askUnbounded(bounded, req)
	t.noteSilence(err)
	return reply, err
}

// askWorking makes a request that may take long. It ends when the shim gives no sign of life within limit.
func (t *transport) askWorking(ctx context.Context, req proto.Request, limit time.Duration) (proto.Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	defer func() {
		cancel(nil)
		<-watched
	}()
	go func() {
		defer close(watched)
		tick := time.NewTicker(t.runner.limits.sign)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := t.askPrompt(ctx, proto.Request{Op: proto.OpStatus}, limit); errors.Is(err, task.ErrSilent) {
				cancel(err)
			}
		}
	}()
	return t.askUnbounded(ctx, req)
}

// askUnbounded makes one request without a bound of its own.
func (t *transport) askUnbounded(ctx context.Context, req proto.Request) (proto.Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leave, err := t.registerCall(&call{cancel: cancel, waits: req.Op == proto.OpWait && req.Exec == ""})
	if err != nil {
		return proto.Reply{}, err
	}
	defer leave()
	conn, err := t.dialShim(ctx)
	if err != nil {
		return proto.Reply{}, err
	}
	defer func() { _ = conn.Close() }()
	if req.Op == proto.OpWait && req.Exec == "" {
		t.setWaitConn(nil, conn)
		defer t.setWaitConn(conn, nil)
	}
	var reply proto.Reply
	if err := exchangeMessages(ctx, conn, &req, &reply); err != nil {
		return proto.Reply{}, err
	}
	return reply, reply.Err()
}

// callShim makes one request whose answer is a record. An error for which isGone holds means that no shim serves it.
func (t *transport) callShim(ctx context.Context, req proto.Request) (proto.Record, error) {
	return recordOf(t.askBounded(ctx, req))
}

func recordOf(reply proto.Reply, err error) (proto.Record, error) {
	if err != nil || reply.State == nil {
		return proto.Record{}, err
	}
	return *reply.State, nil
}

// openView makes a request after whose reply the connection goes on. The bound is for the reply.
func (t *transport) openView(ctx context.Context, req proto.Request) (*streams, proto.Reply, error) {
	var reply proto.Reply
	limit := t.runner.limits.answer
	bounded, cancel := context.WithTimeoutCause(ctx, limit, silenceError(limit))
	defer cancel()
	conn, err := t.dialShim(bounded)
	if err != nil {
		return nil, reply, err
	}
	leave, err := t.registerCall(&call{cancel: func(error) { _ = conn.Close() }})
	if err == nil {
		err = exchangeMessages(bounded, conn, &req, &reply)
	}
	if err == nil {
		err = reply.Err()
	}
	if err != nil {
		_ = conn.Close()
		if leave != nil {
			leave()
		}
		return nil, reply, err
	}
	return &streams{conn: conn, leave: leave}, reply, nil
}

// call is a request or a view under way.
type call struct {
	cancel context.CancelCauseFunc
	waits  bool // for the end of the task
}

// registerCall notes a call until leave is called. errAbandoned once the shim was killed.
func (t *transport) registerCall(c *call) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		return nil, errAbandoned
	}
	t.calls[c] = struct{}{}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.calls, c)
	}, nil
}

// noteSilence ends the waiting for the task's end if an error says that the shim does not answer.
func (t *transport) noteSilence(err error) {
	if !errors.Is(err, task.ErrSilent) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.calls {
		if c.waits {
			c.cancel(err)
		}
	}
}

// abandonCalls ends all calls of a shim that was killed: it may be held by the kernel, and with it its connections.
func (t *transport) abandonCalls() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abandoned = true
	for c := range t.calls {
		c.cancel(errAbandoned)
	}
}

// exchangeMessages sends req, if there is one, and receives the reply, both bounded by ctx.
func exchangeMessages(ctx context.Context, conn net.Conn, req *proto.Request, reply *proto.Reply) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err := func() error {
		if req != nil {
			if err := proto.Write(conn, req); err != nil {
				return err
			}
		}
		return proto.Read(conn, reply)
	}()
	if !stop() && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// dialShim connects to the shim, which restores its folder before if that has gone.
func (t *transport) dialShim(ctx context.Context) (*net.UnixConn, error) {
	conn, err := t.dialOnce(ctx)
	if errors.Is(err, fs.ErrNotExist) && t.restoreFolder(ctx) {
		conn, err = t.dialOnce(ctx)
	}
	return conn, err
}

// dialOnce connects to the shim. The socket's path may be longer than an address: it is reached through its folder's
// descriptor then.
func (t *transport) dialOnce(ctx context.Context) (*net.UnixConn, error) {
	path := filepath.Join(t.dir, proto.SocketFile)
	if len(path) > maxSocketPath {
		folder, err := unix.Open(t.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		defer func() { _ = unix.Close(folder) }()
		path = "/proc/self/fd/" + strconv.Itoa(folder) + "/" + proto.SocketFile
	}
	conn, err := dial.Connect(ctx, &net.Dialer{}, "unix", path)
	if err == nil {
		return conn.(*net.UnixConn), nil //nolint:forcetypeassert // the network is unix
	}
	if ctx.Err() == nil && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)) {
		<-ctx.Done() // the dialer looks at the clock itself, and may be ahead of ctx
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return nil, err
}

// maxSocketPath is the longest path in bytes that fits into a unix socket address.
const maxSocketPath = 107
