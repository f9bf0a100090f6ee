package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/oci"
	"moss/engine/shim/proto"
	"moss/engine/stdio"
)

// start runs the process. It is a conflict the second time, and for an added process while the container does not run or
// is paused. On any other error the process has ended.
func (p *process) start(ctx context.Context) error {
	tried, err := p.tryStart(ctx)
	if tried && err != nil && !p.isFirst() && p.m.reaper.collectStrangers() { // what the runtime has left
		p.m.reaper.adoptStrangers(context.WithoutCancel(ctx))
	}
	return err
}

func (p *process) tryStart(ctx context.Context) (tried bool, err error) {
	p.m.container.children.RLock() // from before the runtime's call until the process is known
	defer p.m.container.children.RUnlock()
	if err := p.enterStarting(); err != nil {
		return false, err
	}
	ctx, cancel := p.m.container.callContext(ctx)
	defer cancel()
	s, err := p.openStreams()
	if err == nil {
		err = p.launchProcess(ctx, s)
	}
	switch {
	case err == nil:
	case p.isFirst() || p.m.first.isAlive():
		p.neverStarted(err)
	default:
		err = p.m.first.notRunning()
		p.endUnstarted(killedExit())
	}
	return true, err
}

// enterStarting moves the process into its starting state.
func (p *process) enterStarting() error {
	if !p.isFirst() {
		switch {
		case !p.m.first.inState(running):
			return p.m.first.notRunning()
		case p.m.container.isPaused():
			return fault.Conflict("%s is paused", p.m.first.name)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != prepared {
		return fault.Conflict("%s has been started before", p.name)
	}
	p.state = starting
	return nil
}

// launchProcess calls the runtime and brings the process into its running state.
func (p *process) launchProcess(ctx context.Context, s *streams) error {
	// From here on there may be a container, should the shim be killed: the file tells so before the runtime fills it.
	if err := os.WriteFile(filepath.Join(p.dir, proto.PidFile), nil, 0o600); err != nil {
		s.closeAll()
		return err
	}
	var console string
	tty := make(chan *terminal, 1)
	if s.console != nil {
		console = proto.ConsoleFile
		go p.connectTerminal(s.console, tty)
	}
	err := p.callRuntime(ctx, s, console)
	started := time.Now().UTC()
	s.closeTheirs()
	pid := 0
	if err == nil {
		pid, err = readPid(filepath.Join(p.dir, proto.PidFile))
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
		p.dropTerminal(t)
		if p.isFirst() {
			p.m.container.deleteLocked(ctx)
		} else if pid > 0 {
			_ = unix.Kill(pid, unix.SIGKILL) // nobody could speak to it; it is collected with the strangers
		}
		return err
	}
	p.enterRunning(ctx, s, t, pid, started)
	return nil
}

// callRuntime calls the runtime.
func (p *process) callRuntime(ctx context.Context, s *streams, console string) error {
	l := oci.Launch{
		ID: p.m.spec.ID, Dir: p.dir, PidFile: proto.PidFile, Log: proto.RuntimeLogFile, ConsoleSocket: console,
		Stdin: s.in.theirs, Stdout: s.out.theirs, Stderr: s.err.theirs,
	}
	if p.isFirst() {
		return p.m.container.runtime.RunDetached(ctx, l)
	}
	if console != "" {
		if err := p.noteSize(); err != nil {
			return err
		}
	}
	return p.m.container.runtime.ExecDetached(ctx, l, proto.ProcessFile)
}

// noteSize puts the size of the pty, which may have changed since the process was made known, where the runtime sets it
// before the process can look; connectTerminal may come after that.
func (p *process) noteSize() error {
	p.mu.Lock()
	width, height := p.width, p.height
	p.mu.Unlock()
	if width == 0 || height == 0 {
		return nil
	}
	file := filepath.Join(p.dir, proto.ProcessFile)
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		return nil //nolint:nilerr // the runtime has better words for it
	}
	object["consoleSize"] = fmt.Appendf(nil, `{"height":%d,"width":%d}`, height, width)
	if data, err = json.Marshal(object); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// connectTerminal receives the pty while the runtime works, so that it has its size before the process sees it.
func (p *process) connectTerminal(console *listener, tty chan<- *terminal) {
	defer close(tty)
	t, err := receiveTerminal(console)
	if err != nil {
		if !errors.Is(err, os.ErrClosed) {
			logError("pty", err)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tty = t
	if p.width != 0 || p.height != 0 {
		if err := t.resize(p.width, p.height); err != nil {
			logError("resize pty", err)
		}
	}
	tty <- t
}

// dropTerminal closes the pty of a process that did not start.
func (p *process) dropTerminal(t *terminal) {
	if t == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tty = nil
	t.closeSlave()
	_ = t.master.Close()
}

// enterRunning moves the process into its running state and connects its streams.
func (p *process) enterRunning(ctx context.Context, s *streams, t *terminal, pid int, started time.Time) {
	if t != nil {
		s.out.ours = t.master
	}
	switch {
	case !p.openStdin:
		p.stdin.open(nil)
	case t != nil:
		p.stdin.open(keys{t.master})
	default:
		p.stdin.open(s.in.ours)
	}
	if p.isFirst() {
		p.m.container.family.noteFirst(pid)
		if err := p.m.folder.noteAlive(pid); err != nil {
			logError("note the first process", err)
		}
	}
	p.mu.Lock()
	p.pid = pid
	p.record.Pid, p.record.StartedAt = pid, started
	p.state = running
	p.mu.Unlock()
	for _, out := range []struct {
		f      *os.File
		stream stdio.Stream
	}{{s.out.ours, stdio.Stdout}, {s.err.ours, stdio.Stderr}} {
		if out.f == nil {
			continue
		}
		src, err := newSource(out.f, p.hub.flush)
		if err != nil {
			logError("read "+out.stream.String(), err)
			continue
		}
		p.pumps = append(p.pumps, src)
		p.pumping.Go(func() { p.pumpOutput(src, out.stream) })
	}
	close(p.started)
	ctx = context.WithoutCancel(ctx) // the process lives on after the request that started it
	if p.isFirst() {
		go func() { // nobody waits for it
			p.m.folder.keepFiles()
			p.m.folder.keepFolder()
		}()
	}
	go p.watchExit(ctx, pid)
	if p.isFirst() {
		p.m.reaper.adoptStrangers(ctx)
	}
}

// pumpOutput carries one output stream to its end.
func (p *process) pumpOutput(src *source, stream stdio.Stream) {
	defer func() { _ = src.f.Close() }()
	for {
		frame, err := src.next()
		if err != nil {
			return
		}
		p.hub.write(stream, frame)
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
