package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"
	"github.com/rs/zerolog"

	"moss/api/route"
	"moss/api/swarmroute"
	"moss/api/types"
	"moss/engine/fault"
	"moss/engine/swarm/member"
)

// swarm is the one manager of the tests, with the endpoints in front of it.
var swarm struct { //nolint:gochecknoglobals // one manager for all tests: each takes a second to start
	once   sync.Once
	member *member.Member
	api    *route.API
	nodeID string
	err    error
}

func TestMain(m *testing.M) {
	member.AdoptLog(zerolog.Nop())
	code := m.Run()
	if swarm.member != nil {
		if err := swarm.member.Leave(context.Background(), true); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		swarm.member.Close()
	}
	os.Exit(code)
}

// startSwarm makes the swarm of the tests through the endpoint.
func startSwarm() {
	dir, err := os.MkdirTemp("", "moss-control-")
	if err != nil {
		swarm.err = err
		return
	}
	addr, err := freeAddress()
	if err != nil {
		swarm.err = err
		return
	}
	swarm.member = member.Open(member.Options{
		Dir: filepath.Join(dir, "swarm"), Control: filepath.Join(dir, "control.sock"), Executor: &recorder{},
		RemoveTasks: func(context.Context) error { return os.RemoveAll(dir) }, Log: zerolog.Nop(),
	})
	swarm.api = newAPI(swarm.member)
	body := fmt.Sprintf(`{"ListenAddr":%q,"AdvertiseAddr":%q,"Availability":"active","Spec":{"Labels":{"of":"tests"},`+
		`"Orchestration":{"TaskHistoryRetentionLimit":3}}}`, addr, addr)
	a := ask(swarm.api, http.MethodPost, "/swarm/init", body)
	if swarm.err = json.Unmarshal(a.body, &swarm.nodeID); a.status != http.StatusOK || swarm.err != nil {
		swarm.err = fmt.Errorf("swarm/init answered %d: %s", a.status, a.body)
	}
}

// freeAddress returns an address that nobody listens on. Its port is below those that the kernel gives to connections, which
// would take it before it is used, and no port of other tests.
func freeAddress() (addr string, err error) {
	for range 1000 {
		addr = fmt.Sprintf("127.0.0.1:%d", 29000+rand.IntN(1000))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", err
}

func newAPI(m Member) *route.API {
	s := New(Options{Member: m, Networks: allNetworks{}, Local: localNetworks{"backend", "front"}, Log: zerolog.Nop()})
	return route.New(swarmroute.Routes(s), route.Options{Log: zerolog.Nop()})
}

// allNetworks can all be had.
type allNetworks struct{}

func (allNetworks) CheckNetwork(*api.NetworkSpec, []*api.Network) error { return nil }

// localNetworks are the names of networks that are of this node alone.
type localNetworks []string

func (l localNetworks) FindNetwork(_ context.Context, ref string) (string, error) {
	if slices.Contains(l, ref) {
		return ref, nil
	}
	return "", fault.NotFound("network %s not found", ref)
}

// answer is what a client gets.
type answer struct {
	status int
	body   []byte
}

// text is the message of an error, otherwise the body.
func (a answer) text() string {
	var said struct{ Message string }
	if a.status >= http.StatusBadRequest && json.Unmarshal(a.body, &said) == nil {
		return said.Message
	}
	return string(a.body)
}

// ask sends a request as a client of version 1.24 does. headers are names and values.
func ask(to http.Handler, method, path, body string, headers ...string) answer {
	return askContext(context.Background(), to, method, path, body, headers...)
}

func askContext(ctx context.Context, to http.Handler, method, path, body string, headers ...string) answer {
	r := httptest.NewRequestWithContext(ctx, method, "/v1.24"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	return answer{status: w.Code, body: w.Body.Bytes()}
}

// rig is a test's view of the swarm.
type rig struct{ t *testing.T }

// newRig returns the swarm of the tests. What a test makes in it, the test removes.
func newRig(t *testing.T) rig {
	t.Helper()
	swarm.once.Do(startSwarm)
	if swarm.err != nil {
		t.Fatal(swarm.err)
	}
	return rig{t}
}

// do wants a status and returns the answer.
func (r rig) do(status int, method, path, body string, headers ...string) answer {
	r.t.Helper()
	a := ask(swarm.api, method, path, body, headers...)
	if a.status != status {
		r.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, a.status, a.body, status)
	}
	return a
}

// refused wants the error of a request.
func (r rig) refused(status int, words, method, path, body string, headers ...string) {
	r.t.Helper()
	requireError(r.t, ask(swarm.api, method, path, body, headers...), status, words)
}

func requireError(t *testing.T, a answer, status int, words string) {
	t.Helper()
	if a.status != status || !strings.Contains(a.text(), words) {
		t.Errorf("got %d %q, want %d with %q", a.status, a.text(), status, words)
	}
}

// get decodes the answer to a GET.
func get[T any](r rig, path string) T {
	r.t.Helper()
	var v T
	a := r.do(http.StatusOK, http.MethodGet, path, "")
	if err := json.Unmarshal(a.body, &v); err != nil {
		r.t.Fatalf("GET %s: %v in %s", path, err, a.body)
	}
	return v
}

// made counts what tests have made, for names of their own.
var made atomic.Int64 //nolint:gochecknoglobals // see above

func uniqueName(of string) string { return fmt.Sprintf("%s%d", of, made.Add(1)) }

// service makes a service that ends with the test, and returns its id.
func (r rig) service(spec types.ServiceSpec, headers ...string) string {
	r.t.Helper()
	a := r.do(http.StatusCreated, http.MethodPost, "/services/create", encode(r.t, spec), headers...)
	var created types.ServiceCreated
	if err := json.Unmarshal(a.body, &created); err != nil || created.ID == "" {
		r.t.Fatalf("created %s: %v", a.body, err)
	}
	r.t.Cleanup(func() { ask(swarm.api, http.MethodDelete, "/services/"+created.ID, "") })
	return created.ID
}

// plainService is a service of one task.
func plainService(name string) types.ServiceSpec {
	return types.ServiceSpec{
		Annotations:  types.Annotations{Name: name},
		TaskTemplate: types.TaskSpec{ContainerSpec: types.ContainerSpec{Image: "busybox"}},
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// filtered is a path with filters.
func filtered(path string, filters map[string][]string) string {
	raw, _ := json.Marshal(filters) //nolint:errchkjson // maps of lists of strings can be encoded
	return path + "?filters=" + url.QueryEscape(string(raw))
}

// await waits for a condition that SwarmKit has no event for.
func (r rig) await(what string, holds func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: not within a minute", what)
		}
	}
}

// running waits for so many tasks of a service that run, and returns all of its tasks.
func (r rig) running(service string, count int) []types.Task {
	r.t.Helper()
	var tasks []types.Task
	r.await(fmt.Sprintf("%d running tasks", count), func() bool {
		tasks = get[[]types.Task](r, filtered("/tasks", map[string][]string{"service": {service}, "desired-state": {"running"}}))
		up := 0
		for _, task := range tasks {
			if task.Status.State == "running" {
				up++
			}
		}
		return up == count && len(tasks) == count
	})
	return tasks
}

// recorder is an executor of tasks that run nothing and go on until they are told to end.
type recorder struct {
	mu    sync.Mutex // guards tasks
	tasks map[string]*api.Task
}

func (*recorder) Describe(context.Context) (*api.NodeDescription, error) {
	return &api.NodeDescription{
		Hostname: "here", Platform: &api.Platform{Architecture: "x86_64", OS: "linux"},
		Resources: &api.Resources{NanoCPUs: 64e9, MemoryBytes: 64 << 30},
		Engine:    &api.EngineDescription{EngineVersion: "1.2.3", Labels: map[string]string{"disk": "fast"}},
	}, nil
}

func (*recorder) Configure(context.Context, *api.Node) error         { return nil }
func (*recorder) SetNetworkBootstrapKeys([]*api.EncryptionKey) error { return nil }

func (e *recorder) Controller(t *api.Task) (exec.Controller, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tasks == nil {
		e.tasks = map[string]*api.Task{}
	}
	e.tasks[t.ID] = t.Copy()
	return &idleTask{id: t.ID, end: make(chan struct{})}, nil
}

// idleTask is a task without a container.
type idleTask struct {
	id   string
	once sync.Once
	end  chan struct{}
}

func (*idleTask) Update(context.Context, *api.Task) error { return nil }
func (*idleTask) Prepare(context.Context) error           { return nil }
func (*idleTask) Start(context.Context) error             { return nil }

// Wait returns when the task is told to end, which is complete then. With the error of ctx SwarmKit's agent would look again a
// second later, and meet a data race of its own (taskManager.run: errs) where the task is gone by then.
func (i *idleTask) Wait(ctx context.Context) error {
	select {
	case <-i.end:
	case <-ctx.Done():
	}
	return nil
}

func (i *idleTask) Shutdown(context.Context) error {
	i.once.Do(func() { close(i.end) })
	return nil
}

func (i *idleTask) Terminate(ctx context.Context) error { return i.Shutdown(ctx) }
func (*idleTask) Remove(context.Context) error          { return nil }
func (*idleTask) Close() error                          { return nil }

func (i *idleTask) ContainerStatus(context.Context) (*api.ContainerStatus, error) {
	return &api.ContainerStatus{ContainerID: "container-of-" + i.id, PID: 4242}, nil
}

func (*idleTask) PortStatus(context.Context) (*api.PortStatus, error) { return &api.PortStatus{}, nil }

// compact is JSON without spaces, for comparing.
func compact(t *testing.T, raw []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return b.String()
}

// change reads an object, changes its specification and sends it, as often as the managers have changed the object meanwhile. It
// returns the version that the change was made from.
func change[T any](r rig, path, update string, read func(T) (version uint64, spec any), headers ...string) (from uint64) {
	r.t.Helper()
	for range 100 {
		version, spec := read(get[T](r, path))
		a := ask(swarm.api, http.MethodPost, update+fmt.Sprintf("version=%d", version), encode(r.t, spec), headers...)
		switch {
		case a.status == http.StatusOK:
			if text := strings.TrimSpace(string(a.body)); strings.HasPrefix(path, "/services") != (text == "{}") || len(text) > 2 {
				r.t.Errorf("POST %s answers %q", update, a.body)
			}
			return version
		case a.text() != "update out of sequence":
			r.t.Fatalf("POST %s: %d %s", update, a.status, a.body)
		}
	}
	r.t.Fatalf("POST %s: 100 times out of sequence", update)
	return 0
}

// changeService changes the specification of a service.
func (r rig) changeService(id string, set func(*types.ServiceSpec), headers ...string) (from uint64) {
	r.t.Helper()
	return change(r, "/services/"+id, "/services/"+id+"/update?", func(s types.Service) (uint64, any) {
		set(&s.Spec)
		return s.Version.Index, s.Spec
	}, headers...)
}

// changeNode changes the specification of a node.
func (r rig) changeNode(id string, set func(*types.NodeSpec)) (from uint64) {
	r.t.Helper()
	return change(r, "/nodes/"+id, "/nodes/"+id+"/update?", func(n types.Node) (uint64, any) {
		set(&n.Spec)
		return n.Version.Index, n.Spec
	})
}

// changeSwarm changes the specification of the swarm. query ends in & or is empty.
func (r rig) changeSwarm(query string, set func(*types.SwarmSpec)) (before, after types.Swarm) {
	r.t.Helper()
	change(r, "/swarm", "/swarm/update?"+query, func(s types.Swarm) (uint64, any) {
		before = s
		set(&s.Spec)
		return s.Version.Index, s.Spec
	})
	return before, get[types.Swarm](r, "/swarm")
}
