package exec

import (
	"context"
	"errors"
	"io"
	"time"

	"moss/engine/container"
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
	in, err := s.find(execID)
	if err != nil {
		return err
	}
	r, t, err := s.ready(in.containerID)
	if err != nil {
		return err
	}
	if err := s.begin(in, !opt.Detach); err != nil {
		return err
	}
	started := context.WithoutCancel(ctx) // it keeps starting even if the client hangs up
	p, err := s.prepare(started, in, r, t, in.config.AttachStdin && !opt.Detach)
	if opt.Detach {
		if err == nil {
			err = s.launch(started, in, r, p)
		}
		return s.refuse(started, in, p, err)
	}
	var streams task.Streams
	if err == nil {
		streams, _, err = p.Attach(started, task.Attach{
			Stdin: in.config.AttachStdin, Stdout: in.config.AttachStdout, Stderr: in.config.AttachStderr,
		})
	}
	if err != nil {
		err = s.refuse(started, in, p, err)
		return explain(open, opt.Raw, err)
	}
	defer streams.Close() //nolint:errcheck // the view ends either way
	conn, err := open()
	if err != nil {
		return s.refuse(started, in, p, err)
	}
	if err := s.launch(started, in, r, p); err != nil {
		err = s.refuse(started, in, p, err)
		return explain(func() (io.ReadWriteCloser, error) { return conn, nil }, opt.Raw, err)
	}
	session.Run(ctx, conn, framed(streams, in.config.Tty, opt.Raw), session.Options{
		Input: in.config.AttachStdin, Keys: in.detachKeys(), Over: func(ctx context.Context) { s.awaitEnd(ctx, in, p) }, Buffers: &s.buffers,
		Detached: func() { s.publish("exec_detach", r, in) },
	})
	return nil
}

// begin lets one start of an instance through.
func (s *Service) begin(in *instance, attached bool) error {
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

// prepare makes the process of an instance, up to its start. The process may be nil with an error.
func (s *Service) prepare(
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
	raw, err := s.opt.Specs.Process(ocispec.Exec{
		ID: r.ID, Spec: &spec, HostName: s.hostName, User: ids,
		Args: in.config.Cmd, Env: in.config.Env, Terminal: in.config.Tty, Privileged: in.config.Privileged,
	})
	if err != nil {
		return nil, err
	}
	// Before the process: whatever a crash leaves of it, the next engine finds it by this.
	if err := s.save(in.id, begunFile, in.file()); err != nil {
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

// launch runs the prepared process and sees to its end.
func (s *Service) launch(ctx context.Context, in *instance, r *container.Record, p task.Process) error {
	pid, err := p.Start(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	in.state, in.pid = running, pid
	s.mu.Unlock()
	s.publish("exec_start: "+in.command(), r, in)
	s.watch(in, p)
	return nil
}

// watch follows a running process to its end.
func (s *Service) watch(in *instance, p task.Process) {
	s.work(func(ctx context.Context) {
		exit, err := p.Wait(ctx)
		if ctx.Err() != nil {
			return // this engine goes; the next one takes the process over
		}
		if err != nil {
			exit.Code = lostCode // its monitor is gone, and the process with it
		}
		s.settle(context.WithoutCancel(ctx), in, p, exit.Code)
	})
}

// lostCode is the exit code of a process of which nobody knows how it ended: that of SIGKILL.
const lostCode = 137

// settle notes how an instance ended, for this engine and the next, and lets its process go.
func (s *Service) settle(ctx context.Context, in *instance, p task.Process, code int) {
	if err := s.save(in.id, endFile, end{Code: code, At: time.Now()}); err != nil {
		s.opt.Log.Warn().Err(err).Str("exec", in.id).Msg("end of exec not saved")
	}
	s.finish(in, code)
	if p == nil {
		return
	}
	if err := p.Delete(ctx); err != nil && !fault.Is(err, fault.NotFound) {
		s.opt.Log.Debug().Err(err).Str("exec", in.id).Msg("exec not deleted") // its container may have ended with it
	}
}

// refuse ends an instance whose process could not be started, with the exit code that shells give. It returns the cause
// as the client is to see it; nil for none.
func (s *Service) refuse(ctx context.Context, in *instance, p task.Process, cause error) error {
	if cause == nil {
		return nil
	}
	code := 126
	if p != nil && fault.Is(cause, fault.NotFound) {
		code = 127
	}
	s.settle(ctx, in, p, code)
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

// explain tells an attached client why its process does not run.
func explain(open func() (io.ReadWriteCloser, error), raw bool, cause error) error {
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

// framed gives the output the form that the start asks for where that is not the form of the process: with frames unless
// raw.
func framed(streams task.Streams, terminal, raw bool) task.Streams {
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
