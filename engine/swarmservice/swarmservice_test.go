package swarmservice

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/fault"
	"moss/engine/swarm/status"
)

// TestMain makes this program a small moss-swarm where it is started as such: it keeps the record and its own watchers.
func TestMain(m *testing.M) {
	if os.Args[0] != "moss-swarm" {
		os.Exit(m.Run())
	}
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		os.Exit(1)
	}
	serveSwarm(l, os.Args[1])
}

func serveSwarm(l net.Listener, record string) {
	var watchers atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc(status.WatchPath, func(w http.ResponseWriter, r *http.Request) {
		watchers.Add(1)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		if _, err := os.Stat(record); watchers.Add(-1) == 0 && err != nil {
			os.Exit(0)
		}
	})
	mux.HandleFunc(status.NodePath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(status.Node{ID: "me", State: status.Active})
	})
	mux.HandleFunc(status.EndPath, func(http.ResponseWriter, *http.Request) { os.Exit(0) })
	mux.HandleFunc("/v1.24/swarm/init", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("fail") != "" || os.WriteFile(record, []byte("{}"), 0o600) != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	mux.HandleFunc("/v1.24/swarm/leave", func(http.ResponseWriter, *http.Request) { _ = os.Remove(record) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.String()+" "+r.Header.Get("X-Test")+" "+string(body))
	})
	_ = http.Serve(l, mux) //nolint:gosec // a test's
}

// rig is a service with what it starts.
type rig struct {
	*Service

	starts, open atomic.Int32
}

// newRig makes a service over the folder of another one, or a new one.
func newRig(t *testing.T, dir string) *rig {
	t.Helper()
	r := &rig{}
	record := filepath.Join(dir, "member.json")
	r.Service = New(Options{
		Find: func() (string, error) {
			r.starts.Add(1)
			return os.Executable()
		},
		Args: []string{record}, Socket: filepath.Join(dir, "sock"), Record: record,
		Open: func() (io.Closer, error) {
			r.open.Add(1)
			return closer(func() { r.open.Add(-1) }), nil
		},
		Log: zerolog.New(zerolog.NewTestWriter(t)),
	})
	t.Cleanup(r.Close)
	t.Cleanup(func() {
		for _, pid := range children(t) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return r
}

type closer func()

// Close calls the function.
func (c closer) Close() error {
	c()
	return nil
}

// children lists the processes that this one has started and that run.
func children(t *testing.T) (pids []int) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tasks {
		list, _ := os.ReadFile(path) // a thread may have ended
		for word := range strings.FieldsSeq(string(list)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// await waits for a condition.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// pass sends a request and returns its answer.
func (r *rig) pass(t *testing.T, method, path, body string, enters bool) (int, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://moss-swarm"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Test", "kept")
	answer, err := r.Pass(request, enters)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(raw), err
}

func TestNoSwarmNoProgram(t *testing.T) {
	r := newRig(t, t.TempDir())
	r.Run()
	if _, _, err := r.pass(t, "GET", "/v1.24/nodes", "", false); !fault.Is(err, fault.NotAcceptable) {
		t.Errorf("Pass: got %v, want fault.NotAcceptable", err)
	}
	if node := r.Node(t.Context()); node.State != status.Inactive {
		t.Errorf("Node: got %+v, want inactive", node)
	}
	if r.MayBeInSwarm() {
		t.Error("MayBeInSwarm: got true")
	}
	r.End(t.Context())
	if n := r.starts.Load(); n != 0 || r.open.Load() != 0 {
		t.Errorf("%d programs were started, and %d sockets are open", n, r.open.Load())
	}
}

// TestLife: a failed way in ends the program, a good one keeps it over kills and over engines, and leaving ends it.
func TestLife(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, dir)
	if code, _, err := r.pass(t, "POST", "/v1.24/swarm/init?fail=1", "", true); code != http.StatusBadRequest || err != nil {
		t.Fatalf("init that fails: got %d, %v", code, err)
	}
	await(t, "its end", func() bool { return len(children(t)) == 0 && r.open.Load() == 0 })
	if r.MayBeInSwarm() {
		t.Error("MayBeInSwarm after an init that failed: got true")
	}
	if code, _, err := r.pass(t, "POST", "/v1.24/swarm/init", "", true); code != http.StatusOK || err != nil {
		t.Fatalf("init: got %d, %v", code, err)
	}
	if !r.MayBeInSwarm() {
		t.Error("MayBeInSwarm after init: got false")
	}
	code, body, err := r.pass(t, "POST", "/v1.24/services/create?x=a%2Fb", "{}", false)
	if want := "POST /v1.24/services/create?x=a%2Fb kept {}"; code != http.StatusOK || body != want || err != nil {
		t.Errorf("a request: got %d %q, %v, want %q", code, body, err, want)
	}
	if info, err := os.Stat(filepath.Join(dir, "sock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}
	before := children(t)
	for _, pid := range before {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	await(t, "the next start", func() bool { // and the reaping of the last one
		return r.starts.Load() == 3 && r.Node(t.Context()).ID == "me" && len(children(t)) == 1
	})
	if now := children(t); len(now) != 1 || now[0] == before[0] {
		t.Errorf("programs: got %v, want another than %v", now, before)
	}

	r.Close()
	if r.open.Load() != 0 {
		t.Error("the socket is open after Close")
	}
	next := newRig(t, dir) // of the next engine
	if !next.MayBeInSwarm() {
		t.Error("MayBeInSwarm of the next engine: got false")
	}
	next.Run()
	await(t, "the next engine's watch", func() bool { return next.open.Load() == 1 && next.Node(t.Context()).State == status.Active })
	if next.starts.Load() != 0 || len(children(t)) != 1 {
		t.Errorf("the next engine has started %d, %d run", next.starts.Load(), len(children(t)))
	}
	if code, _, err := next.pass(t, "POST", "/v1.24/swarm/leave", "", false); code != http.StatusOK || err != nil {
		t.Errorf("leave: got %d, %v", code, err)
	}
	await(t, "its end", func() bool { return len(children(t)) == 0 && next.open.Load() == 0 && !next.MayBeInSwarm() })
	if _, _, err := next.pass(t, "GET", "/v1.24/nodes", "", false); !fault.Is(err, fault.NotAcceptable) {
		t.Errorf("Pass after leave: got %v, want fault.NotAcceptable", err)
	}
}

func TestEnd(t *testing.T) {
	r := newRig(t, t.TempDir())
	if _, _, err := r.pass(t, "POST", "/v1.24/swarm/init", "", true); err != nil {
		t.Fatal(err)
	}
	r.End(t.Context())
	await(t, "its end", func() bool { return len(children(t)) == 0 })
	if n := r.starts.Load(); n != 1 {
		t.Errorf("it was started %d times, want once", n)
	}
	if _, _, err := r.pass(t, "GET", "/v1.24/nodes", "", false); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Pass after End: got %v, want fault.Unavailable", err)
	}
}

func TestNotFound(t *testing.T) {
	gone := errors.New("moss-swarm is nowhere")
	r := newRig(t, t.TempDir())
	r.opt.Find = func() (string, error) { return "", gone }
	if _, _, err := r.pass(t, "POST", "/v1.24/swarm/init", "", true); !errors.Is(err, gone) || !fault.Is(err, fault.Unavailable) {
		t.Errorf("Pass: got %v, want %v as fault.Unavailable", err, gone)
	}
	r.opt.Find = func() (string, error) { return "/bin/true", nil }
	if _, _, err := r.pass(t, "POST", "/v1.24/swarm/init", "", true); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Pass to a program that ends: got %v, want fault.Unavailable", err)
	}
}
