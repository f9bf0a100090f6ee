package monitor

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/shim/proto"
	"moss/engine/stdio"
	"moss/engine/task"
)

// requestLimit is how long a connection may stay silent before its request.
const requestLimit = 10 * time.Second

// acceptConns serves connections until the listener is closed.
func (m *monitor) acceptConns(ctx context.Context) {
	for {
		conn, err := m.socket.accept()
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors or memory: the next one may do better
			logError("accept", err)
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-m.first.over:
				return
			}
		}
		m.addHolder()
		m.handlers.Go(func() {
			defer m.removeHolder()
			m.serveConn(ctx, conn)
		})
	}
}

// serveConn serves one connection and closes it.
func (m *monitor) serveConn(ctx context.Context, conn *os.File) {
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
	if hungUp(conn) {
		return // it was given up while this shim stood still, and may have been done in another way
	}
	p, err := m.execs.findProcess(req.Exec)
	if req.Op == proto.OpExec {
		p, err = m.first, m.addExec(req)
	}
	if err != nil {
		_ = proto.Write(conn, proto.Fail(err))
		return
	}
	switch req.Op {
	case proto.OpAttach:
		p.serveAttach(conn, req)
	case proto.OpHold:
		if proto.Write(conn, proto.Reply{}) == nil {
			m.serveHold(conn)
		}
	case proto.OpWait:
		p.serveWait(conn)
	case proto.OpStart, proto.OpSignal, proto.OpResize, proto.OpStatus, proto.OpDelete,
		proto.OpExec, proto.OpPause, proto.OpResume, proto.OpUpdate, proto.OpPids:
		_ = proto.Write(conn, m.answerRequest(ctx, p, req)) // who hung up does not want the answer
	default:
		_ = proto.Write(conn, proto.Fail(fault.Unsupported("shim request %q", req.Op)))
	}
}

// hungUp reports whether the other side has closed the connection.
func hungUp(conn *os.File) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = n == 0 && err == nil
	})
	return gone || err != nil
}

// answerRequest serves the requests that are one call.
func (m *monitor) answerRequest(ctx context.Context, p *process, req proto.Request) proto.Reply {
	var err error
	var reply proto.Reply
	switch req.Op { //nolint:exhaustive // serveConn deals with the others
	case proto.OpStart:
		err = p.start(ctx)
	case proto.OpSignal:
		err = m.signalProcess(ctx, p, req.Signal)
	case proto.OpResize:
		err = p.resize(req.Width, req.Height)
	case proto.OpDelete:
		if p.isFirst() {
			err = m.giveUp(false)
		} else {
			err = m.removeExec(p)
		}
	case proto.OpPause:
		err = m.container.pauseAll(ctx)
	case proto.OpResume:
		err = m.container.resumeAll(ctx)
	case proto.OpUpdate:
		err = m.container.updateLimits(ctx, req.Resources)
	case proto.OpPids:
		reply.Pids, err = m.container.family.listPids()
	}
	if err != nil {
		return proto.Fail(err)
	}
	rec := p.currentRecord()
	reply.State = &rec
	return reply
}

// signalProcess sends a signal to a process. A container that is frozen by cgroup v1 is thawed when its first process is to
// die.
func (m *monitor) signalProcess(ctx context.Context, p *process, sig int) error {
	if err := p.signal(sig); err != nil {
		return err
	}
	if sig == int(unix.SIGKILL) && p.isFirst() && m.container.isPaused() {
		if err := m.container.resumeAll(ctx); err != nil && p.inState(running) {
			return err
		}
	}
	return nil
}

// serveHold keeps the connection, and with it a task that was never started, until the other side closes it.
func (m *monitor) serveHold(conn *os.File) {
	closed := make(chan struct{})
	go func() {
		drainFile(conn)
		close(closed)
	}()
	select {
	case <-closed:
	case <-m.first.over:
		_ = conn.Close()
		<-closed
	}
}

// serveWait replies when the record is written, or not at all when the other side hangs up before. Who waits for the task
// may ask meanwhile to have its folder written again.
func (p *process) serveWait(conn *os.File) {
	if p.isFirst() {
		p.m.folder.countWaiter(1)
		defer p.m.folder.keepFolder()
		defer p.m.folder.countWaiter(-1)
	}
	hungUp := make(chan struct{})
	go func() {
		defer close(hungUp)
		var b [1]byte
		for {
			if n, err := conn.Read(b[:]); n == 0 || err != nil || b[0] != proto.RestoreMark || !p.isFirst() {
				return
			}
			if err := p.m.folder.restoreFolder(); err != nil {
				logError("write the task's folder again", err)
			}
		}
	}()
	select {
	case <-hungUp:
		return
	case <-p.over:
	}
	rec := p.currentRecord()
	if rec.Exit == nil {
		_ = proto.Write(conn, proto.Fail(fault.NotFound("%s was deleted before it was started", p.name)))
		return
	}
	_ = proto.Write(conn, proto.Reply{State: &rec})
}

// serveAttach serves a viewer until it hangs up or has taken all output of an ended process.
func (p *process) serveAttach(conn *os.File, req proto.Request) {
	var want task.Attach
	if req.Attach != nil {
		want = *req.Attach
	}
	v, err := newViewer(conn, want)
	if err == nil {
		err = p.hub.attachViewer(v, want.Mark)
	}
	if err != nil {
		_ = proto.Write(conn, proto.Fail(err))
		return
	}
	p.takeInput(v)
	if v.awaitHangUp() {
		p.hub.removeViewer(v)
	} else {
		<-v.gone
	}
	v.hangUp()
}

// takeInput copies what a viewer sends to the process's stdin until the viewer sends the end.
func (p *process) takeInput(v *viewer) {
	accepts := v.req.Stdin && p.openStdin
	src, err := newSource(v.conn, nil)
	for err == nil {
		var frame []byte
		if frame, err = src.next(); err == nil && accepts {
			// Who writes to a closed input is not told: the connection carries the output as well.
			accepts = p.stdin.write(frame[stdio.HeaderSize:]) == nil
		}
	}
	if v.req.Stdin && p.stdinOnce && !p.terminal {
		p.stdin.closeAfterStart()
	}
}
