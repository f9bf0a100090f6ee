package executor

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"

	"moss/api/client"
)

// TestEngineReplaced has the engine go when a call has come to it, and come back: no step of a task fails for that.
func TestEngineReplaced(t *testing.T) {
	const ending = `{"message":"the engine is ending, or being replaced: ask again"}`
	for _, way := range []struct {
		name string
		end  func(w http.ResponseWriter)
	}{
		{"cut off", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }},
		{"sent away", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, ending)
		}},
		{"cancelled", func(w http.ResponseWriter) {
			w.Header().Set("X-Fault-Kind", "internal")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"message":"context canceled"}`)
		}},
		{"sent away in a stream", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"error":"the engine is ending, or being replaced: ask again"}`)
		}},
		{"cancelled in a stream", func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"error":"context canceled"}`) }},
	} {
		for _, call := range []string{
			"GET /json", "POST /images/create", "POST /containers/create", "POST /start", "GET /events", "POST /stop", "DELETE",
		} {
			if strings.HasSuffix(way.name, "stream") && call != "POST /images/create" {
				continue
			}
			t.Run(way.name+" at "+call, func(t *testing.T) {
				r := newRig(t, 0)
				gone := false
				r.images = map[string]bool{} // the pull counts
				r.before = func(w http.ResponseWriter, q *http.Request) bool {
					method, path, _ := strings.Cut(call, " ")
					r.mu.Lock()
					hit := !gone && q.Method == method && strings.HasSuffix(q.URL.Path, path)
					gone = gone || hit
					r.mu.Unlock()
					if hit {
						way.end(w)
					}
					return hit
				}
				j := r.newJob(withHealthcheck)
				j.advance(api.TaskStateStarting)
				await := j.later()
				r.awaitCall("POST /containers/"+r.one().ID+"/start", 1)
				r.awaitCall("GET /events", 1)
				r.change("health_status: healthy", nil, func(c *fakeContainer) {
					c.State.Status, c.State.Running = "running", true
					c.State.Health.Status = "healthy"
				})
				await()
				j.expect(api.TaskStateRunning, "")
				j.task.DesiredState = api.TaskStateShutdown
				j.advance(api.TaskStateShutdown)
				if err := j.ctlr.Remove(t.Context()); err != nil || r.names() != "" {
					t.Errorf("Remove = %v, containers %q, want none", err, r.names())
				}
				if !gone {
					t.Errorf("no call of %s", call)
				}
			})
		}
	}
}

// TestWaitOverRestart has the engine be away while a task runs: its end is found afterwards, and so is that it goes on.
func TestWaitOverRestart(t *testing.T) {
	for _, ends := range []bool{false, true} {
		r := newRig(t, 0)
		j := r.newJob(nil)
		j.advance(api.TaskStateRunning)
		looks := r.count("GET /containers/")
		await := j.later()
		r.awaitCall("GET /containers/", looks+1)
		r.leave()
		if ends {
			r.set(func() {
				for _, c := range r.containers {
					c.State.Status, c.State.Running, c.State.ExitCode = "exited", false, 4
				}
			})
		}
		streams := r.count("GET /events")
		r.come()
		if !ends {
			r.awaitCall("GET /events", streams+1)
			r.exit(4)
		}
		await()
		j.expect(api.TaskStateFailed, "task: non-zero exit (4)")
	}
}

// TestEngineStaysAway gives a call up after the patience, and no task for that: SwarmKit makes the call again.
func TestEngineStaysAway(t *testing.T) {
	r := newRig(t, 10*time.Millisecond)
	j := r.newJob(nil)
	j.advance(api.TaskStateStarting)
	r.leave()
	for name, call := range map[string]func(context.Context) error{
		"Prepare": j.ctlr.Prepare, "Start": j.ctlr.Start, "Shutdown": j.ctlr.Shutdown, "Terminate": j.ctlr.Terminate,
	} {
		if err := call(t.Context()); !exec.IsTemporary(err) {
			t.Errorf("%s = %v, want a temporary error", name, err)
		}
	}
	if err := j.step(t.Context()); err != exec.ErrTaskRetry { //nolint:errorlint // bare
		t.Errorf("step = %v, want a retry", err)
	}
	if got := j.task.Status; got.State != api.TaskStateStarting || !strings.HasPrefix(got.Err, "no engine at ") {
		t.Errorf("task is %s with %q, want that it is starting and there is no engine", got.State, got.Err)
	}
	r.come()
	j.advance(api.TaskStateRunning)
	running, err := j.ctlr.(exec.ContainerStatuser).ContainerStatus(t.Context())
	if err != nil || running.PID != 4711 {
		t.Fatalf("ContainerStatus = %v, %v, want pid 4711", running, err)
	}
	r.leave()
	if last, err := j.ctlr.(exec.ContainerStatuser).ContainerStatus(t.Context()); err != nil || *last != *running {
		t.Errorf("ContainerStatus without an engine = %v, %v, want %v", last, err, running)
	}
	fresh := r.newJob(nil)
	if status, err := fresh.ctlr.(exec.ContainerStatuser).ContainerStatus(t.Context()); err != nil || status != nil {
		t.Errorf("ContainerStatus of one that was never seen = %v, %v, want none", status, err)
	}
	// SwarmKit does not ask for a removal again, so this one waits.
	removed := make(chan error, 1)
	go func() { removed <- j.ctlr.Remove(t.Context()) }()
	select {
	case err := <-removed:
		t.Errorf("Remove without an engine = %v, want that it waits", err)
	case <-time.After(200 * time.Millisecond):
	}
	r.come()
	if err := <-removed; err != nil || r.names() != "" {
		t.Errorf("Remove = %v, containers %q, want none", err, r.names())
	}
}

func TestIsAway(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"none", nil, false},
		{"no connection", &client.ConnectError{Err: io.EOF}, true},
		{"lost", &client.LostError{Err: io.EOF}, true},
		{"not now, for a reason of the container's", &client.Error{Status: 503, Kind: "unavailable", Message: "no journal"}, false},
		{"not found", &client.Error{Status: 404, Message: "context canceled"}, false},
		{"in a stream", &client.Error{Message: "unauthorized"}, false},
	} {
		if got := isAway(tc.err); got != tc.want {
			t.Errorf("isAway of %s = %t, want %t", tc.name, got, tc.want)
		}
	}
}
