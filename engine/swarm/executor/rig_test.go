package executor

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"
	"github.com/rs/zerolog"
)

// lines is a log that tests can read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// rig is an executor with its fake engine.
type rig struct {
	*fakeEngine
	x   *Executor
	log *lines
}

func newRig(t *testing.T, patience time.Duration) *rig {
	t.Helper()
	return newRigIn(t, patience, nil)
}

// newRigIn is newRig with networks.
func newRigIn(t *testing.T, patience time.Duration, networks Networks) *rig {
	t.Helper()
	f, log := newFakeEngine(t), &lines{}
	x, err := New(Options{
		Socket: f.socket, Patience: patience, CgroupRoot: t.TempDir(), Networks: networks, Log: zerolog.New(log),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return &rig{f, x, log}
}

// job is a task as SwarmKit's agent drives it.
type job struct {
	r    *rig
	task *api.Task
	ctlr exec.Controller
}

func (r *rig) newJob(change func(t *api.Task, c *api.ContainerSpec)) *job {
	r.t.Helper()
	task := newTask(change)
	task.Status.State, task.DesiredState = api.TaskStateAccepted, api.TaskStateRunning
	ctlr, err := r.x.Controller(task)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = ctlr.Close() })
	return &job{r, task, ctlr}
}

// step does what the agent does once. It returns SwarmKit's error.
func (j *job) step(ctx context.Context) error {
	status, err := exec.Do(ctx, j.task, j.ctlr)
	j.task.Status = *status
	return err
}

// advance steps until the task is in a state or in one from which it does not come out.
func (j *job) advance(want api.TaskState) {
	j.r.t.Helper()
	ctx, cancel := context.WithTimeout(j.r.t.Context(), 20*time.Second)
	defer cancel()
	for j.task.Status.State < want {
		err := j.step(ctx)
		if err != nil && !errors.Is(err, exec.ErrTaskRetry) || ctx.Err() != nil {
			break
		}
	}
	if got := j.task.Status.State; got != want {
		j.r.t.Fatalf("task is %s: %s %s, want %s", got, j.task.Status.Message, j.task.Status.Err, want)
	}
}

// later does the next step, and returns when it is awaited.
func (j *job) later() (await func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = j.step(j.r.t.Context())
	}()
	return func() {
		j.r.t.Helper()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			j.r.t.Fatalf("the step does not end; calls: %q", j.r.calls)
		}
	}
}

func (j *job) expect(state api.TaskState, err string) {
	j.r.t.Helper()
	if got := j.task.Status; got.State != state || got.Err != err {
		j.r.t.Fatalf("task is %s with error %q, want %s with %q", got.State, got.Err, state, err)
	}
}

func withHealthcheck(_ *api.Task, c *api.ContainerSpec) {
	c.Healthcheck = &api.HealthConfig{Test: []string{"CMD", "x"}}
}
