package executor

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
)

// addTask makes a container with the label of a task.
func (f *fakeEngine) addTask(name, taskID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var body types.ContainerCreate
	body.Image, body.Labels = "busybox", map[string]string{labelTaskID: taskID}
	f.addLocked(name, body)
}

// awaitNames waits until the containers are those.
func (f *fakeEngine) awaitNames(want string) {
	f.t.Helper()
	for limit := time.Now().Add(20 * time.Second); f.names() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			f.t.Fatalf("containers %q, want %q", f.names(), want)
		}
	}
}

// TestLeftovers removes the containers of tasks that SwarmKit does not know, once it has said which it knows.
func TestLeftovers(t *testing.T) {
	r := newRig(t, 0)
	r.addTask("web.2.taskid", "taskid")
	r.addTask("web.1.old", "old")
	r.addTask("web.3.older", "older")
	r.addTask("mine", "old") // from an image that was made of a task's container
	r.addTask("other.1.old2", "old")
	r.addTask("none.", "")
	r.newJob(nil)
	before := r.names()
	if err := r.x.Configure(t.Context(), &api.Node{}); err != nil || r.names() != before {
		t.Errorf("Configure = %v, containers %q, want those of before", err, r.names())
	}
	r.x.Volumes().Add()
	r.awaitNames("mine none. other.1.old2 web.2.taskid")
	r.addTask("web.4.late", "late")
	r.x.Volumes().Remove(nil, nil)
	_ = r.x.Close()
	if want := "mine none. other.1.old2 web.2.taskid web.4.late"; r.names() != want {
		t.Errorf("containers %q after further assignments, want %q", r.names(), want)
	}
	if got := r.count("GET /containers/json?"); got != 1 {
		t.Errorf("%d lists, want one", got)
	}
}

// TestLeftoverOfNewTask holds the task up whose container is just being removed, and no other one.
func TestLeftoverOfNewTask(t *testing.T) {
	r := newRig(t, 0)
	r.addTask("web.2.taskid", "taskid")
	removal, goOn := make(chan struct{}), make(chan struct{})
	r.before = func(_ http.ResponseWriter, q *http.Request) bool {
		if q.Method == http.MethodDelete {
			close(removal)
			<-goOn
		}
		return false
	}
	r.x.Volumes()
	<-removal
	j := r.newJob(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := j.ctlr.Prepare(ctx); err == nil {
		t.Error("the task is prepared while its container is being removed")
	}
	other := r.newJob(func(t *api.Task, _ *api.ContainerSpec) { t.ID = "other" })
	other.advance(api.TaskStateRunning)
	close(goOn)
	j.advance(api.TaskStateRunning)
	if want := "web.2.other web.2.taskid"; r.names() != want {
		t.Errorf("containers %q, want %q", r.names(), want)
	}
}

// TestRemoveAll is for a node that has left its swarm. It waits for the engine, as long as its context lasts.
func TestRemoveAll(t *testing.T) {
	r := newRig(t, 0)
	j := r.newJob(nil)
	j.advance(api.TaskStateRunning)
	r.addTask("web.1.old", "old")
	r.addTask("mine", "old")
	r.leave()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.x.RemoveAll(ctx); err == nil {
		t.Error("RemoveAll without an engine gives no error")
	}
	r.come()
	if err := r.x.RemoveAll(t.Context()); err != nil || r.names() != "mine" {
		t.Errorf("RemoveAll = %v, containers %q, want mine", err, r.names())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if calls := strings.Join(r.calls, " "); !strings.Contains(calls, "/stop") || !strings.Contains(calls, "force=1&v=1") {
		t.Errorf("calls %s, want stops and removals with volumes", calls)
	}
}
