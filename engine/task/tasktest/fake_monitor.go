package tasktest

import (
	"context"
	"fmt"
	"syscall"

	"moss/engine/task"
)

// Hang lets the task's monitor answer nothing until the returned function is called. Its process runs on.
func (t *FakeTask) Hang() (goOn func()) {
	t.group.Lock()
	defer t.group.Unlock()
	silence := make(chan struct{})
	t.silence = silence
	close(t.hushed)
	return func() {
		t.group.Lock()
		defer t.group.Unlock()
		if t.silence == silence {
			t.silence, t.hushed = nil, make(chan struct{})
			close(silence)
		}
	}
}

// silentError returns the error of a task whose monitor hangs.
func (t *FakeTask) silentError() error {
	if silence, _ := t.silenceChannels(); silence != nil {
		return task.ErrSilent
	}
	return nil
}

func (t *FakeTask) silenceChannels() (silence, hushed <-chan struct{}) {
	t.group.Lock()
	defer t.group.Unlock()
	return t.silence, t.hushed
}

// Reach is Status once the monitor answers.
func (t *FakeTask) Reach(ctx context.Context) (task.Status, error) {
	if silence, _ := t.silenceChannels(); silence != nil {
		select {
		case <-silence:
		case <-t.over: // Destroy
		case <-ctx.Done():
			return task.Status{}, ctx.Err()
		}
	}
	s, err := t.FakeProcess.Status(ctx)
	t.group.Lock()
	defer t.group.Unlock()
	s.Paused = t.paused
	return s, err
}

// Destroy ends the task, whether its monitor answers or not.
func (t *FakeTask) Destroy(context.Context) error {
	t.noteSignal(int(syscall.SIGKILL))
	t.endWith(task.Exit{Code: 128 + int(syscall.SIGKILL), Error: "the container's shim was killed"})
	t.group.Lock()
	defer t.group.Unlock()
	if t.silence != nil {
		close(t.silence)
		t.silence, t.hushed = nil, make(chan struct{})
	}
	return t.trace("destroy", nil)
}

// Wait is that of the process; it ends when the monitor no longer answers.
func (t *FakeTask) Wait(ctx context.Context) (task.Exit, error) {
	_, hushed := t.silenceChannels()
	select {
	case <-t.over:
	default:
		select {
		case <-t.over:
		case <-hushed:
			return task.Exit{}, task.ErrSilent
		case <-ctx.Done():
			return task.Exit{}, ctx.Err()
		}
	}
	return t.FakeProcess.Wait(ctx)
}

// Signal reaches the process also when the monitor does not answer.
func (t *FakeTask) Signal(ctx context.Context, signal int) error {
	if t.silentError() != nil && signal == int(syscall.SIGKILL) {
		return t.Destroy(ctx)
	}
	return t.trace(fmt.Sprint("signal ", signal), t.FakeProcess.Signal(ctx, signal))
}

// Resize keeps the size for Size.
func (t *FakeTask) Resize(ctx context.Context, width, height uint16) error {
	if err := t.silentError(); err != nil {
		return err
	}
	return t.FakeProcess.Resize(ctx, width, height)
}

// Attach joins the streams.
func (t *FakeTask) Attach(ctx context.Context, req task.Attach) (task.Streams, task.Mark, error) {
	if err := t.silentError(); err != nil {
		return nil, task.Mark{}, err
	}
	return t.FakeProcess.Attach(ctx, req)
}

// Delete forgets the task.
func (t *FakeTask) Delete(ctx context.Context) error {
	if err := t.silentError(); err != nil {
		return err
	}
	return t.trace("delete", t.FakeProcess.Delete(ctx))
}
