package exec

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/stdio"
	"moss/engine/task"
)

// Run runs a command in a container to its end, as the container's own user, and returns its exit code and the first most
// bytes of its output. No client sees it. A command that cannot be started gives 126 or 127 and the reason as its output.
//
// When timeout has passed or ctx is done the command is killed: the error is context.DeadlineExceeded or that of ctx, with
// the output so far. fault.Conflict if the container does not run or is paused.
func (s *Service) Run(
	ctx context.Context, containerID string, args []string, timeout time.Duration, most int,
) (code int, output []byte, err error) {
	r, t, err := s.readyContainer(containerID)
	if err != nil {
		return -1, nil, err
	}
	in := &instance{
		id: id.New(), containerID: r.ID, probe: true, done: make(chan struct{}),
		config: Config{Cmd: args, AttachStdout: true, AttachStderr: true},
	}
	work := context.WithoutCancel(ctx) // it is undone whole even if nobody waits
	p, err := s.prepareProcess(work, in, r, t, false)
	if err != nil {
		s.discardCommand(work, in, p)
		return -1, nil, err
	}
	streams, _, err := p.Attach(work, task.Attach{Stdout: true, Stderr: true})
	if err != nil {
		s.discardCommand(work, in, p)
		return -1, nil, err
	}
	defer streams.Close() //nolint:errcheck // the view ends either way
	pid, err := p.Start(work)
	if err != nil {
		s.discardCommand(work, in, p)
		switch {
		case fault.Is(err, fault.NotFound):
			return 127, []byte(err.Error()), nil
		case fault.Is(err, fault.Forbidden):
			return 126, []byte(err.Error()), nil
		}
		return -1, nil, err
	}
	got := &bounded{most: most}
	read := make(chan struct{})
	go func() {
		defer close(read)
		stdio.Demux(streams, got, got) //nolint:errcheck // what has come counts
	}()
	bound, cancel := context.WithTimeoutCause(ctx, timeout, context.DeadlineExceeded)
	defer cancel()
	exit, err := p.Wait(bound)
	if err != nil {
		s.killCommand(work, in, p, pid)
		if bound.Err() != nil {
			err = context.Cause(bound)
		}
		return -1, got.bytes(), err
	}
	select {
	case <-read:
	case <-bound.Done():
	}
	s.discardCommand(work, in, p)
	return exit.Code, got.bytes(), nil
}

// killWait is how long a killed command is waited for. One that is frozen ends only when its container is thawed.
const killWait = 2 * time.Second

// killCommand ends a command with all that it has started and lets it go, in the background if it does not end soon.
func (s *Service) killCommand(ctx context.Context, in *instance, p task.Process, pid int) {
	// The number is the command's own as long as its monitor has not told of its end.
	if status, err := p.Status(ctx); err == nil && status.Exit == nil && status.Pid == pid {
		s.killFamily(pid)
	}
	p.Signal(ctx, int(syscall.SIGKILL)) //nolint:errcheck // it may have ended
	soon, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	if _, err := p.Wait(soon); soon.Err() == nil || err == nil {
		s.discardCommand(ctx, in, p)
		return
	}
	s.runInBackground(func(ctx context.Context) {
		if _, err := p.Wait(ctx); err == nil || ctx.Err() == nil {
			s.discardCommand(context.WithoutCancel(ctx), in, p)
		}
	})
}

// discardCommand lets go of a command that has ended or was never started. p may be nil.
func (s *Service) discardCommand(ctx context.Context, in *instance, p task.Process) {
	if p != nil {
		if err := p.Delete(ctx); err != nil && !fault.Is(err, fault.NotFound) {
			s.opt.Log.Debug().Err(fmt.Errorf("delete probe: %w", err)).Str("container", in.containerID).Msg("health check")
		}
	}
	s.dropFiles(in.id)
}

// bounded keeps the first most bytes that are written to it.
type bounded struct {
	most int

	mu  sync.Mutex // guards got
	got []byte
}

// Write takes everything and keeps what fits.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, p[:min(len(p), b.most-len(b.got))]...)
	return len(p), nil
}

func (b *bounded) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]byte(nil), b.got...)
}
