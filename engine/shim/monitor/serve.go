package monitor

import (
	"context"
	"errors"
	"os"
	"time"

	"moss/engine/fault"
	"moss/engine/shim/proto"
	"moss/engine/stdio"
	"moss/engine/task"
)

// requestLimit is how long a connection may stay silent before its request.
const requestLimit = 10 * time.Second

// accept serves connections until the listener is closed.
func (m *monitor) accept(ctx context.Context) {
	for {
		conn, err := m.socket.accept()
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors or memory: the next one may do better
			report("accept", err)
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-m.over:
				return
			}
		}
		m.enter()
		m.handlers.Go(func() {
			defer m.leave()
			m.handle(ctx, conn)
		})
	}
}

// handle serves one connection and closes it.
func (m *monitor) handle(ctx context.Context, conn *os.File) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(requestLimit))
	var req proto.Request
	if err := proto.Read(conn, &req); err != nil {
		if fault.Is(err, fault.Invalid) {
			_ = proto.Write(conn, proto.Fail(err))
		}
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	switch req.Op {
	case proto.OpAttach:
		m.attach(conn, req)
	case proto.OpHold:
		if proto.Write(conn, proto.Reply{}) == nil {
			m.hold(conn)
		}
	case proto.OpWait:
		m.wait(conn)
	case proto.OpStart, proto.OpSignal, proto.OpResize, proto.OpStatus, proto.OpDelete:
		_ = proto.Write(conn, m.answer(ctx, req)) // who hung up does not want the answer
	default:
		_ = proto.Write(conn, proto.Fail(fault.Unsupported("shim request %q", req.Op)))
	}
}

// answer serves the requests that are one call.
func (m *monitor) answer(ctx context.Context, req proto.Request) proto.Reply {
	var err error
	switch req.Op { //nolint:exhaustive // handle deals with the others
	case proto.OpStart:
		err = m.start(ctx)
	case proto.OpSignal:
		err = m.signal(req.Signal)
	case proto.OpResize:
		err = m.resize(req.Width, req.Height)
	case proto.OpDelete:
		err = m.giveUp(false)
	}
	if err != nil {
		return proto.Fail(err)
	}
	rec := m.status()
	return proto.Reply{State: &rec}
}

// hold keeps the connection, and with it a task that was never started, until the other side closes it.
func (m *monitor) hold(conn *os.File) {
	closed := make(chan struct{})
	go func() {
		drainFile(conn)
		close(closed)
	}()
	select {
	case <-closed:
	case <-m.over:
		_ = conn.Close()
		<-closed
	}
}

// wait replies when the record is written, or not at all when the other side hangs up before.
func (m *monitor) wait(conn *os.File) {
	hungUp := make(chan struct{})
	go func() {
		var b [1]byte
		_, _ = conn.Read(b[:])
		close(hungUp)
	}()
	select {
	case <-hungUp:
		return
	case <-m.over:
	}
	rec := m.status()
	if rec.Exit == nil {
		_ = proto.Write(conn, proto.Fail(fault.NotFound("task %s was deleted before it was started", m.spec.ID)))
		return
	}
	_ = proto.Write(conn, proto.Reply{State: &rec})
}

// attach serves a viewer until it hangs up or has taken all output of an ended task.
func (m *monitor) attach(conn *os.File, req proto.Request) {
	var want task.Attach
	if req.Attach != nil {
		want = *req.Attach
	}
	v := newViewer(conn, want)
	if err := m.hub.join(v, want.Mark); err != nil {
		_ = proto.Write(conn, proto.Fail(err))
		return
	}
	m.takeInput(v)
	if v.awaitHangUp() {
		m.hub.leave(v)
	} else {
		<-v.gone
	}
	v.hangUp()
}

// takeInput copies what a viewer sends to the container's stdin until the viewer sends the end.
func (m *monitor) takeInput(v *viewer) {
	accepts := v.req.Stdin && m.spec.OpenStdin
	src, err := newSource(v.conn, nil)
	for err == nil {
		var frame []byte
		if frame, err = src.next(); err == nil && accepts {
			// Who writes to a closed input is not told: the connection carries the output as well.
			accepts = m.stdin.write(frame[stdio.HeaderSize:]) == nil
		}
	}
	if v.req.Stdin && m.spec.StdinOnce && !m.spec.Terminal {
		m.stdin.closeAfterStart()
	}
}
