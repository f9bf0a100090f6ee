package exec

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/ocispec"
	"moss/engine/session"
	"moss/engine/stdio"
	"moss/engine/task"
)

// Start runs an instance, once. Detached it returns when the process runs. Otherwise open is called once the streams are
// joined: it answers the client and returns its connection, which Start closes; it returns when the process has ended, the
// client has gone or has typed its detach keys.
//
// fault.NotFound for an unknown instance, fault.Conflict if it has been started before or its container is paused or does
// not run; fault.Invalid, only when detached, for a user or a command that is not there. An attached client is told of
// that in its stream, since clients show no error in place of the stream, and ask for the exit code.
func (s *Service) Start(
	ctx context.Context, execID string, opt StartOptions, open func() (io.ReadWriteCloser, error),
) error {
	in, err := s.findInstance(execID)
	if err != nil {
		return err
	}
	r, t, err := s.readyContainer(in.containerID)
	if err != nil {
		return err
	}
	if err := s.claimStart(in, !opt.Detach); err != nil {
		return err
	}
	started := context.WithoutCancel(ctx) // it keeps starting even if the client hangs up
	p, err := s.prepareProcess(started, in, r, t, in.config.AttachStdin && !opt.Detach)
	if opt.Detach {
		if err == nil {
			err = s.launchProcess(started, in, r, p)
		}
		return s.failStart(started, in, p, err)
	}
	var streams task.Streams
	if err == nil {
		streams, _, err = p.Attach(started, task.Attach{
			Stdin: in.config.AttachStdin, Stdout: in.config.AttachStdout, Stderr: in.config.AttachStderr,
		})
	}
	if err != nil {
		err = s.failStart(started, in, p, err)
		return explainFailure(open, opt.Raw, err)
	}
	defer streams.Close() //nolint:errcheck // the view ends either way
	conn, err := open()
	if err != nil {
		return s.failStart(started, in, p, err)
	}
	if err := s.launchProcess(started, in, r, p); err != nil {
		err = s.failStart(started, in, p, err)
		return explainFailure(func() (io.ReadWriteCloser, error) { return conn, nil }, opt.Raw, err)
	}
	session.Run(ctx, conn, reframeOutput(streams, in.config.Tty, opt.Raw), session.Options{
		Input: in.config.AttachStdin, Keys: in.detachKeys(), Over: func(ctx context.Context) { s.awaitEnd(ctx, in, p) },
		Buffers:  &s.buffers,
		Detached: func() { s.publishEvent("exec_detach", r, in) },
	})
	return nil
}

// claimStart lets one start of an instance through.
func (s *Service) claimStart(in *instance, attached bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case in.state == over:
		return fault.Conflict("exec command %s has already run", in.id)
	case in.state != created:
		return fault.Conflict("exec command %s is already running", in.id)
	case s.byID[in.id] != in:
		return noSuch(in.id) // its container has ended meanwhile
	}
	in.state = starting
	in.attached = attached && (in.config.AttachStdout || in.config.AttachStderr)
	return nil
}

// prepareProcess makes the process of an instance, up to its start. The process may be nil with an error.
func (s *Service) prepareProcess(
	ctx context.Context, in *instance, r *container.Record, t task.Task, stdin bool,
) (task.Process, error) {
	spec, err := container.SpecOf(r)
	if err != nil {
		return nil, err
	}
	ids, err := s.opt.Containers.User(r.ID, in.config.User)
	if err != nil {
		return nil, err
	}
	if in.config.WorkingDir != "" {
		spec.Config.WorkingDir = in.config.WorkingDir
	}
	if err := s.opt.Containers.CheckWorkingDir(r.ID, spec.Config.WorkingDir); err != nil {
		return nil, err
	}
	spec.Env = append(s.opt.Containers.LinkEnv(r), spec.Env...)
	raw, err := s.opt.Specs.Process(ocispec.Exec{
		ID: r.ID, Spec: &spec, HostName: s.hostName, User: ids,
		Args: in.config.Cmd, Env: in.config.Env, Terminal: in.config.Tty, Privileged: in.config.Privileged,
	})
	if err != nil {
		return nil, err
	}
	// Before the process: whatever a crash leaves of it, the next engine finds it by this.
	if err := s.saveFile(in.id, begunFile, in.toFile()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	width, height := in.width, in.height
	s.mu.Unlock()
	p, err := t.Exec(ctx, task.ExecSpec{
		ID: in.id, Process: raw, Terminal: in.config.Tty, OpenStdin: stdin, Width: width, Height: height,
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	in.process = p
	late := in.width != width || in.height != height
	width, height = in.width, in.height
	s.mu.Unlock()
	if late { // asked for while the process was being made
		p.Resize(ctx, width, height) //nolint:errcheck // a size is no reason not to start
	}
	return p, nil
}

// launchProcess runs the prepared process and sees to its end.
func (s *Service) launchProcess(ctx context.Context, in *instance, r *container.Record, p task.Process) error {
	pid, err := p.Start(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	in.state, in.pid = running, pid
	s.mu.Unlock()
	s.publishEvent("exec_start: "+in.commandLine(), r, in)
	s.watchProcess(in, p)
	return nil
}

// watchProcess follows a running process to its end.
func (s *Service) watchProcess(in *instance, p task.Process) {
	s.runInBackground(func(ctx context.Context) {
		exit, err := p.Wait(ctx)
		if ctx.Err() != nil {
			return // this engine goes; the next one takes the process over
		}
		if err != nil {
			exit.Code = lostCode // its monitor is gone, and the process with it
		}
		s.recordEnd(context.WithoutCancel(ctx), in, p, exit.Code)
	})
}

// lostCode is the exit code of a process of which nobody knows how it ended: that of SIGKILL.
const lostCode = 137

// recordEnd notes how an instance ended, for this engine and the next, and lets its process go.
func (s *Service) recordEnd(ctx context.Context, in *instance, p task.Process, code int) {
	if err := s.saveFile(in.id, endFile, end{Code: code, At: time.Now()}); err != nil {
		s.opt.Log.Warn().Err(err).Str("exec", in.id).Msg("end of exec not saved")
	}
	if s.finishInstance(in, code) {
		if r, err := s.opt.Containers.Get(in.containerID); err == nil {
			s.publishEvent(event.ActionExecDie, r, in, "exitCode", strconv.Itoa(code))
		}
	}
	if p == nil {
		return
	}
	if err := p.Delete(ctx); err != nil && !fault.Is(err, fault.NotFound) {
		s.opt.Log.Debug().Err(err).Str("exec", in.id).Msg("exec not deleted") // its container may have ended with it
	}
}

// failStart ends an instance whose process could not be started, with the exit code that shells give. It returns the cause
// as the client is to see it; nil for none.
func (s *Service) failStart(ctx context.Context, in *instance, p task.Process, cause error) error {
	if cause == nil {
		return nil
	}
	code := 126
	if p != nil && fault.Is(cause, fault.NotFound) {
		code = 127
	}
	s.recordEnd(ctx, in, p, code)
	if fault.Is(cause, fault.NotFound) || fault.Is(cause, fault.Forbidden) {
		return fault.Invalid("%w", cause) // it is the command that is not there, not the instance
	}
	return cause
}

// awaitEnd waits until the end of a process whose output has ended is known, or ctx is done: a client that sees the end of
// the output asks for the exit code next. It returns at once if the process lives on, since only this view has ended then.
func (s *Service) awaitEnd(ctx context.Context, in *instance, p task.Process) {
	select {
	case <-in.done:
		return
	default:
	}
	if p.Signal(ctx, 0) == nil {
		return
	}
	select {
	case <-in.done:
	case <-ctx.Done():
	case <-s.life.Done(): // the next engine sees to the end
	}
}

// detachKeys are the keys that count: without a terminal none do.
func (in *instance) detachKeys() []byte {
	if !in.config.Tty {
		return nil
	}
	return in.keys
}

// explainFailure tells an attached client why its process does not run.
func explainFailure(open func() (io.ReadWriteCloser, error), raw bool, cause error) error {
	conn, err := open()
	if err != nil {
		return errors.Join(cause, err)
	}
	if raw {
		_, err = io.WriteString(conn, cause.Error()+"\r\n")
	} else {
		_, err = stdio.NewFrameWriter(conn, stdio.Stderr).Write([]byte(cause.Error() + "\n"))
	}
	return errors.Join(err, session.End(conn))
}

// reframeOutput gives the output the form that the start asks for where that is not the form of the process: with frames unless
// raw.
func reframeOutput(streams task.Streams, terminal, raw bool) task.Streams {
	switch {
	case terminal == raw:
		return streams
	case terminal:
		return reframed{Streams: streams, copy: func(w io.Writer) error {
			_, err := io.Copy(stdio.NewFrameWriter(w, stdio.Stdout), streams)
			return err
		}}
	default:
		return reframed{Streams: streams, copy: func(w io.Writer) error { return stdio.Demux(streams, w, w) }}
	}
}

// reframed is a view in another form.
type reframed struct {
	task.Streams
	copy func(w io.Writer) error
}

// WriteTo copies the output in its new form. It does not count.
func (f reframed) WriteTo(w io.Writer) (int64, error) { return 0, f.copy(w) }
