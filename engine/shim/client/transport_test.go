package client

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"moss/engine/shim/proto"
	"moss/engine/task"
)

// overdue is a context whose deadline has passed and which ends just after it was asked whether it has.
type overdue struct {
	context.Context //nolint:containedctx // it is one

	end func()
}

func (overdue) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }

func (o overdue) Err() error {
	defer o.end()
	return o.Context.Err()
}

// TestDialAtTheDeadline: what counts is why the context ends, also when the dialer has seen the deadline first.
func TestDialAtTheDeadline(t *testing.T) {
	silence := silenceError(time.Second)
	ctx, cancel := context.WithCancelCause(t.Context())
	shim := &transport{dir: t.TempDir()}
	if _, err := shim.dialOnce(overdue{ctx, func() { cancel(silence) }}); !errors.Is(err, silence) {
		t.Errorf("dialing at the deadline = %v, want %v", err, silence)
	}
}

// serveSlowly is a shim that has one request at work and gives no sign of life before it has answered that. It answers when
// its silence is over, and never if whoever asks for a sign gives up before.
func serveSlowly(t *testing.T, dir string, silence time.Duration) {
	t.Helper()
	socket, err := net.Listen("unix", filepath.Join(dir, proto.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		var request, sign net.Conn // in any order: each has a goroutine
		for request == nil || sign == nil {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			var req proto.Request
			if proto.Read(conn, &req) != nil {
				return
			}
			if req.Op == proto.OpStatus {
				sign = conn
			} else {
				request = conn
			}
		}
		_ = sign.SetReadDeadline(time.Now().Add(silence))
		if _, err := sign.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			_ = proto.Write(request, proto.Reply{State: &proto.Record{Pid: 7}})
		}
		_, _ = request.Read(make([]byte, 1)) // until the engine hangs up
	}()
}

// TestTheRuntimeIsGivenTime: a shim that begins the runtime may be silent for longer than one at other work.
func TestTheRuntimeIsGivenTime(t *testing.T) {
	for op, want := range map[proto.Op]error{
		proto.OpStart: nil, proto.OpPause: nil, proto.OpResume: nil, proto.OpUpdate: nil, proto.OpPids: task.ErrSilent,
	} {
		t.Run(string(op), func(t *testing.T) {
			runner := &Runner{limits: limits{answer: 50 * time.Millisecond, sign: time.Millisecond, ready: time.Hour}}
			shim := runner.newTask("a", t.TempDir()).shim
			silence := 500 * time.Millisecond
			if want != nil {
				silence = time.Minute
			}
			serveSlowly(t, shim.dir, silence)
			if _, err := shim.callShim(t.Context(), proto.Request{Op: op}); !errors.Is(err, want) {
				t.Errorf("%s = %v, want %v", op, err, want)
			}
		})
	}
}
