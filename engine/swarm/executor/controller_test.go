package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"
)

func TestLifeOfTask(t *testing.T) {
	r := newRig(t, 0)
	j := r.newJob(nil)
	j.advance(api.TaskStateRunning)
	made := r.one()
	if status := j.task.Status.GetContainer(); status.ContainerID != made.ID || status.PID != 4711 {
		t.Errorf("container status = %v, want id %s and pid 4711", status, made.ID)
	}
	if made.name != "web.2.taskid" || made.Config.Labels[labelServiceName] != "web" {
		t.Errorf("container %s with labels %v, want that of the task", made.name, made.Config.Labels)
	}
	if !strings.Contains(r.log.String(), "limit discarded") {
		t.Errorf("the engine's warning is not logged: %s", r.log)
	}
	await := j.later()
	r.exit(0)
	await()
	j.expect(api.TaskStateCompleted, "")
}

// TestEnds has what ends a running task, and what SwarmKit is told of it.
func TestEnds(t *testing.T) {
	ended := func(code int, more func(c *fakeContainer)) func(c *fakeContainer) {
		return func(c *fakeContainer) {
			c.State.Status, c.State.Running, c.State.Pid, c.State.ExitCode = "exited", false, 0, code
			if more != nil {
				more(c)
			}
		}
	}
	health := func(status string) func(c *fakeContainer) {
		return func(c *fakeContainer) { c.State.Health.Status = status }
	}
	none := func(*rig) {}
	for _, tc := range []struct {
		name    string
		before  func(r *rig)
		action  string
		change  func(c *fakeContainer)
		state   api.TaskState
		err     string
		code    int32
		running bool // afterwards
	}{
		{"exit code", none, "die", ended(3, nil), api.TaskStateFailed, "task: non-zero exit (3)", 3, false},
		{
			"out of memory", none, "die", ended(137, func(c *fakeContainer) { c.State.OOMKilled = true }), api.TaskStateFailed,
			"task: non-zero exit (137): out of memory", 137, false,
		},
		{
			"the engine's reason", none, "die", ended(0, func(c *fakeContainer) { c.State.Error = "lost" }), api.TaskStateFailed,
			"task: lost", 0, false,
		},
		{
			"a client's stop", func(r *rig) { r.change("kill", map[string]string{"signal": "15"}, nil) }, "die", ended(0, nil),
			api.TaskStateFailed, "task: container was stopped outside the swarm", 0, false,
		},
		{
			"a client's other signal", func(r *rig) { r.change("kill", map[string]string{"signal": "1"}, nil) }, "die", ended(0, nil),
			api.TaskStateCompleted, "", 0, false,
		},
		{
			"a client's removal", none, "destroy", nil, api.TaskStateFailed,
			"task: container is gone: it was removed outside the swarm", 0, false,
		},
		{
			"a client's restart", none, "start", func(c *fakeContainer) { c.State.StartedAt = c.State.StartedAt.Add(time.Second) },
			api.TaskStateFailed, "task: container was restarted outside the swarm", 0, false,
		},
		{"unhealthy", none, "health_status: unhealthy", health("unhealthy"), api.TaskStateFailed, "task: unhealthy container", 0, false},
		{
			"an older state of the disk", none, "die", func(c *fakeContainer) { c.State.Status, c.State.Running = "created", false },
			api.TaskStateFailed, "task: container is gone: it was removed outside the swarm", 0, false,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, 0)
			j := r.newJob(withHealthcheck)
			go func() {
				r.awaitCall("GET /events", 1)
				r.change("health_status: healthy", nil, health("healthy"))
			}()
			j.advance(api.TaskStateRunning)
			await := j.later()
			tc.before(r)
			r.change(tc.action, nil, tc.change)
			await()
			j.expect(tc.state, tc.err)
			if got := j.task.Status.GetContainer().ExitCode; got != tc.code {
				t.Errorf("exit code %d, want %d", got, tc.code)
			}
			stops := r.count("POST /containers/" + j.task.Status.GetContainer().ContainerID + "/stop")
			if tc.action != "destroy" && r.one().State.Status == "exited" && stops == 0 {
				t.Error("the container is not stopped: a client that restarts it is about to start it")
			}
			if tc.action != "destroy" && r.one().State.Running != tc.running {
				t.Errorf("container runs: %t, want %t", !tc.running, tc.running)
			}
		})
	}
}

// TestHealthDecidesStart has a task that is starting until its container is healthy.
func TestHealthDecidesStart(t *testing.T) {
	for _, tc := range []struct {
		status string
		state  api.TaskState
		err    string
	}{
		{"healthy", api.TaskStateRunning, ""},
		{"unhealthy", api.TaskStateFailed, "task: unhealthy container"},
	} {
		t.Run(tc.status, func(t *testing.T) {
			r := newRig(t, 0)
			j := r.newJob(withHealthcheck)
			j.advance(api.TaskStateStarting)
			await := j.later()
			r.awaitCall("GET /events", 1)
			if state := j.task.Status.State; state != api.TaskStateStarting {
				t.Errorf("task is %s before its check, want starting", state)
			}
			r.change("health_status: "+tc.status, nil, func(c *fakeContainer) { c.State.Health.Status = tc.status })
			await()
			j.expect(tc.state, tc.err)
			if got, want := r.one().State.Running, tc.state == api.TaskStateRunning; got != want {
				t.Errorf("container runs: %t, want %t", got, want)
			}
		})
	}
}

// TestStartLacks has a container that is there and cannot start: its task fails with what is missing.
func TestStartLacks(t *testing.T) {
	r := newRig(t, 0)
	r.startLacks = "network front not found"
	j := r.newJob(nil)
	j.advance(api.TaskStateFailed)
	if err := j.task.Status.Err; !strings.Contains(err, "network front not found") {
		t.Errorf("the task fails with %q, want what is missing", err)
	}
}

// TestShortTask ends before its start has been seen.
func TestShortTask(t *testing.T) {
	for code, want := range map[int]api.TaskState{0: api.TaskStateCompleted, 5: api.TaskStateFailed} {
		r := newRig(t, 0)
		r.exitAtOnce = &code
		j := r.newJob(nil)
		j.advance(want)
		if got := j.task.Status.GetContainer().ExitCode; int(got) != code {
			t.Errorf("exit code %d, want %d", got, code)
		}
	}
}

// TestLostAnswers breaks the connection after the engine has done what it was asked.
func TestLostAnswers(t *testing.T) {
	r := newRig(t, 0)
	zero := 0
	r.exitAtOnce = &zero
	var mu sync.Mutex // guards lost
	lost := map[string]bool{}
	r.after = func(q *http.Request) bool {
		last := q.URL.Path[strings.LastIndexByte(q.URL.Path, '/')+1:]
		mu.Lock()
		defer mu.Unlock()
		if q.Method == http.MethodGet || lost[last] {
			return false
		}
		lost[last] = true
		return true
	}
	j := r.newJob(nil)
	j.advance(api.TaskStateCompleted)
	mu.Lock()
	defer mu.Unlock()
	if !lost["create"] || !lost["start"] {
		t.Errorf("lost the answers of %v, want create and start", lost)
	}
	if r.starts != 1 || r.names() != "web.2.taskid" {
		t.Errorf("containers %s, %d starts, want one container started once", r.names(), r.starts)
	}
}

// TestCancelledCalls come back with the bare error, by which SwarmKit knows them, and change nothing.
func TestCancelledCalls(t *testing.T) {
	r := newRig(t, 0)
	j := r.newJob(nil)
	j.advance(api.TaskStateRunning)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func(context.Context) error{
		"Prepare": j.ctlr.Prepare, "Start": j.ctlr.Start, "Wait": j.ctlr.Wait, "Shutdown": j.ctlr.Shutdown,
		"Terminate": j.ctlr.Terminate,
	} {
		if err := call(ctx); err != context.Canceled { //nolint:errorlint // bare
			t.Errorf("%s = %v, want the bare context.Canceled", name, err)
		}
	}
	ctx, cancel = context.WithCancel(t.Context())
	err := j.ctlr.(*controller).carryOut(ctx, func(ctx context.Context) error {
		cancel()
		return fmt.Errorf("wrapped: %w", ctx.Err())
	})
	if err != context.Canceled { //nolint:errorlint // bare
		t.Errorf("a wrapped error = %v, want the bare context.Canceled", err)
	}
	before := j.task.Status.State
	if err := j.step(ctx); !errors.Is(err, exec.ErrTaskRetry) || j.task.Status.State != before {
		t.Errorf("step = %v, task is %s, want a retry from %s", err, j.task.Status.State, before)
	}
	if err := j.ctlr.Remove(ctx); err != context.Canceled || r.names() == "" { //nolint:errorlint // bare
		t.Errorf("Remove = %v, containers %q, want the bare context.Canceled and that there is one", err, r.names())
	}
}

// TestClosed has calls end with the controller and with the executor.
func TestClosed(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(j *job)
		want error
	}{
		{"controller", func(j *job) { _ = j.ctlr.Close(); _ = j.ctlr.Close() }, exec.ErrControllerClosed},
		{"executor", func(j *job) { _ = j.r.x.Close() }, context.Canceled},
	} {
		r := newRig(t, 0)
		j := r.newJob(nil)
		j.advance(api.TaskStateRunning)
		waited, looks := make(chan error, 1), r.count("GET /containers/")
		go func() { waited <- j.ctlr.Wait(t.Context()) }()
		r.awaitCall("GET /containers/", looks+1)
		tc.end(j)
		if err := <-waited; err != tc.want { //nolint:errorlint // bare
			t.Errorf("Wait with a closed %s = %v, want %v", tc.name, err, tc.want)
		}
		if !r.one().State.Running {
			t.Errorf("the container ended with the %s", tc.name)
		}
	}
}

func TestShutdown(t *testing.T) {
	r := newRig(t, 0)
	j := r.newJob(nil)
	if err := j.ctlr.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown without a container = %v", err)
	}
	j.advance(api.TaskStateRunning)
	j.task.DesiredState = api.TaskStateShutdown
	j.advance(api.TaskStateShutdown)
	if r.one().State.Running {
		t.Error("the container runs after Shutdown")
	}
	for name, call := range map[string]func(context.Context) error{"Shutdown": j.ctlr.Shutdown, "Terminate": j.ctlr.Terminate} {
		if err := call(t.Context()); err != nil {
			t.Errorf("%s of one that stands = %v", name, err)
		}
	}
	if got := r.count("POST /containers/" + r.one().ID + "/stop?"); got != 0 {
		t.Errorf("%d stops with a time of their own, want that of the container", got)
	}
	for range 2 {
		if err := j.ctlr.Remove(t.Context()); err != nil {
			t.Errorf("Remove = %v", err)
		}
	}
	if r.names() != "" || r.count("DELETE /containers/") != 1 {
		t.Errorf("containers %q after %d removals, want none after one", r.names(), r.count("DELETE /containers/"))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.Contains(strings.Join(r.calls, " "), "?force=1&v=1") {
		t.Errorf("calls %q, want a removal with the volumes", r.calls)
	}
}

func TestTerminate(t *testing.T) {
	r := newRig(t, 0)
	j := r.newJob(nil)
	if err := j.ctlr.Terminate(t.Context()); err != nil {
		t.Errorf("Terminate without a container = %v", err)
	}
	j.advance(api.TaskStateRunning)
	if err := j.ctlr.Terminate(t.Context()); err != nil || r.one().State.ExitCode != 137 {
		t.Errorf("Terminate = %v, exit code %d, want 137", err, r.one().State.ExitCode)
	}
}

// TestShutdownDuringPull ends the pull. A call that is cancelled because the task has changed does not.
func TestShutdownDuringPull(t *testing.T) {
	r := newRig(t, 0)
	r.pullGate = make(chan struct{})
	cut := make(chan struct{})
	r.before = func(_ http.ResponseWriter, q *http.Request) bool {
		if q.URL.Path == "/images/create" {
			context.AfterFunc(q.Context(), func() { close(cut) })
		}
		return false
	}
	j := r.newJob(nil)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- j.ctlr.Prepare(ctx) }()
		r.awaitCall("POST /images/create", 1)
		cancel()
		if err := <-done; err == nil {
			t.Error("the task is prepared without its image")
		}
	}
	select {
	case <-cut:
		t.Error("the pull ended with the call that began it")
	default:
	}
	if err := j.ctlr.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	<-cut
	if got := r.count("POST /images/create"); got != 1 {
		t.Errorf("%d pulls, want one", got)
	}
}

// TestRemoveDuringCreate removes the container that the engine is just making.
func TestRemoveDuringCreate(t *testing.T) {
	r := newRig(t, 0)
	goOn := make(chan struct{})
	r.before = func(_ http.ResponseWriter, q *http.Request) bool {
		if q.URL.Path == "/containers/create" {
			<-goOn
		}
		return false
	}
	j := r.newJob(nil)
	ctx, cancel := context.WithCancel(t.Context())
	prepared, removed := make(chan error, 1), make(chan error, 1)
	go func() { prepared <- j.ctlr.Prepare(ctx) }()
	r.awaitCall("POST /containers/create", 1)
	cancel()
	go func() { removed <- j.ctlr.Remove(t.Context()) }()
	select {
	case err := <-removed:
		t.Errorf("Remove = %v while the container is being made, want that it waits", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(goOn)
	if err := <-prepared; err != context.Canceled { //nolint:errorlint // bare
		t.Errorf("Prepare = %v, want the bare context.Canceled", err)
	}
	if err := <-removed; err != nil || r.names() != "" {
		t.Errorf("Remove = %v, containers %q, want none", err, r.names())
	}
	if err := j.ctlr.Prepare(t.Context()); err != exec.ErrControllerClosed || r.names() != "" { //nolint:errorlint // bare
		t.Errorf("Prepare after Remove = %v, containers %q, want that it is closed and none", err, r.names())
	}
}
