package executor

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"moss/api/client"
	"moss/api/types"
)

// fakeEngine is an engine on a unix socket whose containers are records. It can go away and come back, as one that is replaced,
// and keeps its containers meanwhile.
type fakeEngine struct {
	t      *testing.T
	socket string
	server *http.Server

	mu         sync.Mutex // guards the fields below
	changed    *sync.Cond
	containers map[string]*fakeContainer // by id
	images     map[string]bool
	registry   map[string]string // name with tag: password
	pulled     []string          // name:tag and user
	events     []types.Event
	calls      []string                                                 // METHOD PATH?QUERY, without the version
	before     func(w http.ResponseWriter, r *http.Request) (done bool) // called for each; done: that was the answer
	after      func(r *http.Request) (drop bool)                        // called when the work is done; drop: the answer is lost
	starts     int
	info       types.Info
	exitAtOnce *int          // what started containers end with; nil: they run
	startLacks string        // what no container starts without; empty: nothing
	pullGate   chan struct{} // a pull waits for it; nil: none
	networks   map[string]types.Network
}

type fakeContainer struct {
	types.ContainerInspect
	name string
	body types.ContainerCreate
}

func newFakeEngine(t *testing.T) *fakeEngine {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine-") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &fakeEngine{
		t: t, socket: filepath.Join(dir, "e.sock"), containers: map[string]*fakeContainer{}, images: map[string]bool{"busybox": true},
		registry: map[string]string{"busybox:latest": ""},
		info: types.Info{
			Name: "alpha", NCPU: 2, MemTotal: 4 << 30, Architecture: "x86_64", OSType: "linux", ServerVersion: "1.2",
			Labels: []string{"disk=fast", "bare"}, Plugins: types.InfoPlugins{
				Volume: []string{"local"}, Network: []string{"null", "bridge"}, Log: []string{"syslog", "journald"},
			},
		},
	}
	f.changed = sync.NewCond(&f.mu)
	f.come()
	t.Cleanup(f.leave)
	return f
}

// come serves the socket.
func (f *fakeEngine) come() {
	f.t.Helper()
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		f.t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(f.serve)} //nolint:gosec // a test's own clients
	f.server = server
	go func() { _ = server.Serve(l) }()
}

// leave ends the server and cuts all its connections off.
func (f *fakeEngine) leave() { _ = f.server.Close() }

func (f *fakeEngine) serve(w http.ResponseWriter, r *http.Request) {
	r.URL.Path = strings.TrimPrefix(r.URL.Path, "/v"+client.DefaultVersion)
	call := r.Method + " " + r.URL.Path
	if r.URL.RawQuery != "" {
		call += "?" + r.URL.RawQuery
	}
	f.mu.Lock()
	f.calls = append(f.calls, call)
	before := f.before
	f.changed.Broadcast()
	f.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	answer := &recorded{header: http.Header{}}
	switch path := r.URL.Path; {
	case path == "/info":
		f.mu.Lock()
		answer.send(200, f.info)
		f.mu.Unlock()
	case path == "/events":
		f.serveEvents(w, r)
		return
	case path == "/images/create":
		f.serveImagePull(answer, r)
	case strings.HasPrefix(path, "/images/"):
		f.mu.Lock()
		answer.sendIf(f.images[strings.TrimSuffix(strings.TrimPrefix(path, "/images/"), "/json")], map[string]string{})
		f.mu.Unlock()
	case strings.HasPrefix(path, "/networks/"):
		f.mu.Lock()
		n, found := f.networks[strings.TrimPrefix(path, "/networks/")]
		answer.sendIf(found, n)
		f.mu.Unlock()
	default:
		f.serveContainers(answer, r)
	}
	f.mu.Lock()
	after := f.after
	f.mu.Unlock()
	if answer.status == 0 || after != nil && after(r) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body)
}

type recorded struct {
	header http.Header
	status int
	body   []byte
}

func (a *recorded) send(status int, value any) {
	a.status = status
	if value != nil {
		a.body, _ = json.Marshal(value)
	}
}

func (a *recorded) fail(status int, format string, args ...any) {
	a.send(status, map[string]string{"message": fmt.Sprintf(format, args...)})
}

func (a *recorded) sendIf(found bool, value any) {
	if !found {
		a.fail(404, "No such image")
		return
	}
	a.send(200, value)
}

func (f *fakeEngine) serveImagePull(a *recorded, r *http.Request) {
	f.mu.Lock()
	gate := f.pullGate
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		}
	}
	name := r.URL.Query().Get("fromImage")
	if tag := r.URL.Query().Get("tag"); tag != "" {
		name += ":" + tag
	}
	var auth struct{ Username, Password string }
	raw, _ := base64.URLEncoding.DecodeString(r.Header.Get("X-Registry-Auth"))
	_ = json.Unmarshal(raw, &auth)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulled = append(f.pulled, strings.TrimSpace(name+" "+auth.Username))
	a.send(200, map[string]string{"status": "pulling"})
	password, ok := f.registry[name]
	switch {
	case !ok:
		a.body = append(a.body, `{"error":"manifest for `+name+` not found"}`...)
	case password != auth.Password:
		a.body = append(a.body, `{"error":"unauthorized: wrong credentials"}`...)
	default:
		f.images[r.URL.Query().Get("fromImage")] = true
	}
}

func (f *fakeEngine) serveContainers(a *recorded, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/containers/"), "/")
	switch parts[0] {
	case "create":
		f.createLocked(a, r)
		return
	case "json":
		a.send(200, f.listLocked())
		return
	}
	c := f.findLocked(parts[0])
	if c == nil {
		a.fail(404, "No such container: %s", parts[0])
		return
	}
	verb := r.Method
	if len(parts) > 1 {
		verb = parts[1]
	}
	switch verb {
	case "json":
		a.send(200, c.ContainerInspect)
	case "start":
		if f.startLacks != "" {
			a.fail(404, "%s", f.startLacks)
			return
		}
		f.starts++
		c.State.Status, c.State.Running, c.State.Pid, c.State.StartedAt = "running", true, 4711, time.Now()
		if h := c.body.Healthcheck; h != nil {
			c.State.Health = &types.Health{Status: "starting"}
		}
		f.publishLocked(c, "start", nil)
		if f.exitAtOnce != nil {
			f.endLocked(c, *f.exitAtOnce)
		}
		a.send(204, nil)
	case "stop":
		if !c.State.Running {
			a.send(304, nil)
			return
		}
		f.publishLocked(c, "kill", map[string]string{"signal": "15"})
		f.endLocked(c, 0)
		a.send(204, nil)
	case "kill":
		if !c.State.Running {
			a.fail(409, "container is not running")
			return
		}
		f.endLocked(c, 137)
		a.send(204, nil)
	case http.MethodDelete:
		delete(f.containers, c.ID)
		f.publishLocked(c, "destroy", nil)
		a.send(204, nil)
	}
}

func (f *fakeEngine) createLocked(a *recorded, r *http.Request) {
	var body types.ContainerCreate
	raw, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(raw, &body); err != nil {
		a.fail(400, "%v", err)
		return
	}
	name := r.URL.Query().Get("name")
	switch {
	case f.findLocked(name) != nil:
		a.fail(409, "Conflict. The container name %q is already in use", name)
	case !f.images[strings.TrimSuffix(body.Image, ":latest")]:
		a.fail(404, "No such image: %s", body.Image)
	default:
		c := f.addLocked(name, body)
		a.send(201, types.ContainerCreated{ID: c.ID, Warnings: []string{"limit discarded"}})
	}
}

// addLocked makes a container that has not run.
func (f *fakeEngine) addLocked(name string, body types.ContainerCreate) *fakeContainer {
	c := &fakeContainer{name: name, body: body}
	c.ID, c.Name = fmt.Sprintf("%064x", len(f.calls)<<16+len(f.containers)+1), "/"+name
	c.State.Status = "created"
	c.Config.Config = body.Config
	f.containers[c.ID] = c
	return c
}

func (f *fakeEngine) findLocked(ref string) *fakeContainer {
	for _, c := range f.containers {
		if c.ID == ref || c.name == ref {
			return c
		}
	}
	return nil
}

func (f *fakeEngine) listLocked() []types.ContainerSummary {
	list := make([]types.ContainerSummary, 0, len(f.containers))
	for _, c := range f.containers {
		list = append(list, types.ContainerSummary{ID: c.ID, Names: []string{"/" + c.name}, Labels: c.Config.Labels})
	}
	return list
}

func (f *fakeEngine) endLocked(c *fakeContainer, code int) {
	c.State.Status, c.State.Running, c.State.Pid, c.State.ExitCode = "exited", false, 0, code
	f.publishLocked(c, "die", nil)
}

// change changes the one container there is and tells of it.
func (f *fakeEngine) change(action string, attributes map[string]string, change func(c *fakeContainer)) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.containers) != 1 {
		f.t.Fatalf("%d containers, want one", len(f.containers))
	}
	for _, c := range f.containers {
		if change != nil {
			change(c)
		}
		if action == "destroy" {
			delete(f.containers, c.ID)
		}
		if action != "" {
			f.publishLocked(c, action, attributes)
		}
	}
}

// exit ends the container by itself.
func (f *fakeEngine) exit(code int) {
	f.change("die", nil, func(c *fakeContainer) {
		c.State.Status, c.State.Running, c.State.Pid, c.State.ExitCode = "exited", false, 0, code
	})
}

// set changes how the engine behaves.
func (f *fakeEngine) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.changed.Broadcast()
}

// awaitCall waits for so many calls that begin like that.
func (f *fakeEngine) awaitCall(prefix string, count int) {
	f.t.Helper()
	defer time.AfterFunc(20*time.Second, f.changed.Broadcast).Stop()
	limit := time.Now().Add(20 * time.Second)
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.countLocked(prefix) < count {
		if time.Now().After(limit) {
			f.t.Fatalf("%d calls of %s, want %d; all: %q", f.countLocked(prefix), prefix, count, f.calls)
		}
		f.changed.Wait()
	}
}

func (f *fakeEngine) countLocked(prefix string) (n int) {
	for _, call := range f.calls {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

func (f *fakeEngine) count(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.countLocked(prefix)
}

// names lists the containers' names.
func (f *fakeEngine) names() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, len(f.containers))
	for _, c := range f.containers {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// one returns a copy of the one container.
func (f *fakeEngine) one() fakeContainer {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.containers {
		return *c
	}
	f.t.Fatal("there is no container, want " + strconv.Itoa(1))
	return fakeContainer{}
}
