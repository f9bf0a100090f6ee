package monitor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
	"moss/engine/oci"
	"moss/engine/shim/proto"
	"moss/engine/stdio"
)

// start runs the container. It is a conflict the second time. On any other error the task has ended.
func (m *monitor) start(ctx context.Context) error {
	m.mu.Lock()
	if m.state != prepared {
		defer m.mu.Unlock()
		return fault.Conflict("task %s has been started before", m.spec.ID)
	}
	m.state = starting
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, runtimeLimit)
	defer cancel()

	s, err := m.openStreams()
	if err == nil {
		err = m.execute(ctx, s)
	}
	if err != nil {
		m.neverStarted(err)
		return err
	}
	return nil
}

// execute calls the runtime and brings the task into its running state.
func (m *monitor) execute(ctx context.Context, s *streams) error {
	m.children.Lock()
	defer m.children.Unlock()
	run := oci.Run{
		ID: m.spec.ID, Bundle: m.dir, PidFile: proto.PidFile, Log: proto.RuntimeLogFile,
		Stdin: s.in.theirs, Stdout: s.out.theirs, Stderr: s.err.theirs,
	}
	// From here on there may be a container, should the shim be killed: the file tells so before the runtime fills it.
	if err := os.WriteFile(filepath.Join(m.dir, proto.PidFile), nil, 0o600); err != nil {
		s.closeTheirs()
		s.closeOurs()
		if s.console != nil {
			s.console.close()
		}
		return err
	}
	tty := make(chan *terminal, 1)
	if s.console != nil {
		run.ConsoleSocket = proto.ConsoleFile
		go m.connectTerminal(s.console, tty)
	}
	err := m.runtime.RunDetached(ctx, run)
	started := time.Now().UTC()
	s.closeTheirs()
	pid := 0
	if err == nil {
		pid, err = readPid(filepath.Join(m.dir, proto.PidFile))
	}
	var t *terminal
	if s.console != nil {
		if err != nil {
			s.console.close() // wakes connectTerminal
		}
		if t = <-tty; t == nil && err == nil {
			err = fault.Internal("the runtime sent no pty")
		}
		s.console.close()
	}
	if err != nil {
		s.closeOurs()
		if t != nil {
			t.release()
			_ = t.master.Close()
		}
		m.deleteContainerLocked(ctx)
		return err
	}
	m.run(ctx, s, t, pid, started)
	return nil
}

// connectTerminal receives the pty while the runtime works, so that it has its size before the process sees it.
func (m *monitor) connectTerminal(console *listener, tty chan<- *terminal) {
	defer close(tty)
	t, err := receiveTerminal(console)
	if err != nil {
		if !errors.Is(err, os.ErrClosed) {
			report("pty", err)
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tty = t
	if m.width != 0 || m.height != 0 {
		if err := t.resize(m.width, m.height); err != nil {
			report("resize pty", err)
		}
	}
	tty <- t
}

// run connects the streams of a process that runs now.
func (m *monitor) run(ctx context.Context, s *streams, t *terminal, pid int, started time.Time) {
	if t != nil {
		s.out.ours = t.master
	}
	switch {
	case !m.spec.OpenStdin:
		m.stdin.open(nil)
	case t != nil:
		m.stdin.open(keys{t.master})
	default:
		m.stdin.open(s.in.ours)
	}
	m.mu.Lock()
	m.pid = pid
	m.record.Pid, m.record.StartedAt = pid, started
	m.state = running
	m.mu.Unlock()
	for _, p := range []struct {
		f      *os.File
		stream stdio.Stream
	}{{s.out.ours, stdio.Stdout}, {s.err.ours, stdio.Stderr}} {
		if p.f == nil {
			continue
		}
		src, err := newSource(p.f, m.hub.flush)
		if err != nil {
			report("read "+p.stream.String(), err)
			continue
		}
		m.pumps = append(m.pumps, src)
		m.pumping.Go(func() { m.pump(src, p.stream) })
	}
	close(m.started)
	ctx = context.WithoutCancel(ctx) // the task lives on after the request that started it
	go m.watchProcess(ctx, pid)
	go m.reapOthers(ctx, pid)
}

// pump carries one output stream to its end.
func (m *monitor) pump(src *source, stream stdio.Stream) {
	defer func() { _ = src.f.Close() }()
	for {
		frame, err := src.next()
		if err != nil {
			return
		}
		m.hub.write(stream, frame)
	}
}

func readPid(path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read pid: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 0 {
		return 0, fault.Internal("the runtime wrote %q as pid", data)
	}
	return pid, nil
}
