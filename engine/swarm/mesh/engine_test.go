package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/swarm/status"
	"moss/engine/swarm/table"
	"moss/engine/swarm/tunnel"
)

// fakeEngine answers moss-swarm, by a socket or without one.
type fakeEngine struct {
	mu       sync.Mutex // guards what follows
	status   int
	problems []string
	refused  map[string]string
	away     bool
	views    []table.Hosted
	times    []time.Time // of the views
	left     chan struct{}
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{status: http.StatusOK, left: make(chan struct{})}
}

// ServeHTTP answers by a socket.
func (f *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, text := f.take(r)
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

// RoundTrip answers without a socket, which a bubble cannot wait for.
func (f *fakeEngine) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	away, left := f.away, f.left
	f.mu.Unlock()
	if away {
		return nil, errors.New("connection refused")
	}
	answer := func(code int, body io.Reader) *http.Response {
		return &http.Response{StatusCode: code, Body: io.NopCloser(body)}
	}
	if strings.HasSuffix(r.URL.Path, "/events") {
		return answer(http.StatusOK, awaiting{r.Context(), left}), nil
	}
	code, text := f.take(r)
	return answer(code, strings.NewReader(text)), nil
}

// awaiting is a stream that says nothing and ends with the engine.
type awaiting struct {
	ctx  context.Context //nolint:containedctx // of the request
	left <-chan struct{}
}

func (a awaiting) Read([]byte) (int, error) {
	select {
	case <-a.left:
		return 0, io.EOF
	case <-a.ctx.Done():
		return 0, a.ctx.Err()
	}
}

func (f *fakeEngine) take(r *http.Request) (code int, text string) {
	var h table.Hosted
	if r.Method != http.MethodPut || r.URL.Path != status.ViewPath || json.NewDecoder(r.Body).Decode(&h) != nil {
		return http.StatusNotFound, "no such path"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status != http.StatusOK {
		return f.status, `{"message":"no"}`
	}
	f.views, f.times = append(f.views, h), append(f.times, time.Now())
	body, _ := json.Marshal(table.Problems{Problems: f.problems, Refused: f.refused})
	return http.StatusOK, string(body)
}

func (f *fakeEngine) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// leave ends the engine, and come begins another one.
func (f *fakeEngine) leave() {
	f.set(func() {
		f.away = true
		close(f.left)
	})
}

func (f *fakeEngine) come() { f.set(func() { f.away, f.left = false, make(chan struct{}) }) }

func (f *fakeEngine) taken() []table.Hosted {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.views
}

// newMesh has no tunnel, and this engine.
func newMesh(t *testing.T, f *fakeEngine, log io.Writer) *Mesh {
	t.Helper()
	m, err := New(Options{Dir: t.TempDir(), Engine: "/nowhere", Log: zerolog.New(log)})
	check(t, err)
	m.engine = &http.Client{Transport: f}
	return m
}

// view is a table with one network.
func view(version uint64) *table.Table {
	return &table.Table{
		Version: version,
		Networks: map[string]table.Network{
			"red": {Name: "front", Subnet: netip.MustParsePrefix("10.208.1.0/24"), Gateway: addr("10.208.1.1")},
		},
		Tasks: map[string]table.Task{"t1": {
			Service: "s1", Node: "n1", Ready: true, Attachments: map[string]table.Attachment{"red": {Addr: addr("10.208.1.7")}},
		}},
	}
}

func TestNewWantsItsPlaces(t *testing.T) {
	for _, opt := range []Options{{}, {Dir: "/d"}, {Engine: "/e"}} {
		if _, err := New(opt); err == nil {
			t.Errorf("New(%+v) is no error", opt)
		}
	}
}

func TestViewByTheSocket(t *testing.T) {
	f := newFakeEngine()
	f.problems = []string{"a port is in use"}
	socket := filepath.Join(t.TempDir(), "e.sock")
	m, err := New(Options{Dir: t.TempDir(), Engine: socket, Log: zerolog.Nop()})
	check(t, err)
	defer m.Close()
	if _, err := m.putView(t.Context(), "n1", view(1)); err == nil {
		t.Error("an engine that is away takes a view")
	}
	l, err := net.Listen("unix", socket)
	check(t, err)
	server := &http.Server{Handler: f} //nolint:gosec // a test's own client
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	done, err := m.putView(t.Context(), "n1", view(1))
	if err != nil || !reflect.DeepEqual(done.Problems, f.problems) {
		t.Errorf("problems %q, %v, want %q", done.Problems, err, f.problems)
	}
	want := table.Hosted{Node: "n1", Tunnel: Device, MTU: tunnel.DefaultMTU, Table: view(1)}
	if got := f.taken(); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("the engine got %+v, want %+v", got, want)
	}
	f.set(func() { f.status = http.StatusBadRequest })
	if _, err := m.putView(t.Context(), "n1", view(1)); err == nil || !strings.Contains(err.Error(), `400: {"message":"no"}`) {
		t.Errorf("a view that the engine refuses: %v", err)
	}
}

// TestAnswersOfAStrangeEngine: what does not say what is wrong is an error.
func TestAnswersOfAStrangeEngine(t *testing.T) {
	for _, body := range []string{"", "x", `{"problems":"x"}`, "[]", `{"problems":[` + strings.Repeat(`"x",`, answerLimit) + `""]}`} {
		m := newMesh(t, newFakeEngine(), io.Discard)
		m.engine.Transport = answering(body)
		if done, err := m.putView(t.Context(), "n1", view(1)); err == nil {
			t.Errorf("the answer %.20q is taken for %+v", body, done)
		}
	}
}

type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

// told runs tellEngine and watchEngine in a bubble until the test ends.
func told(t *testing.T, m *Mesh) {
	t.Helper()
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	work.Go(func() { m.tellEngine(ctx, "n1") })
	work.Go(func() { m.watchEngine(ctx) })
	t.Cleanup(func() {
		cancel()
		work.Wait()
	})
	synctest.Wait()
}

func versions(all []table.Hosted) (list []uint64) {
	for _, h := range all {
		list = append(list, h.Table.Version)
	}
	return list
}

func expectVersions(t *testing.T, f *fakeEngine, want ...uint64) {
	t.Helper()
	synctest.Wait()
	if got := versions(f.taken()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the engine got the versions %v, want %v", got, want)
	}
}

func TestEngineHearsOfEachView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		m := newMesh(t, f, io.Discard)
		told(t, m)
		time.Sleep(time.Hour)
		expectVersions(t, f)
		for v := range uint64(3) {
			check(t, m.takeView("n1", view(v+1)))
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		expectVersions(t, f, 1, 2, 3)
		now, _ := m.viewState()
		if now.done != now.turn || now.hosted.Version != 3 {
			t.Errorf("the turn %d, done %d, hosted %+v", now.turn, now.done, now.hosted)
		}
	})
}

// TestRefusedNetworks: packets of a network that the engine refuses are not led into the tunnel, and no task waits for it in vain
// once it is there.
func TestRefusedNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.problems, f.refused = []string{"the subnet is another network's"}, map[string]string{"red": "it overlaps"}
		m := newMesh(t, f, io.Discard)
		told(t, m)
		all := view(1)
		all.Nodes = map[string]table.Node{"n2": {Key: table.Key{1}}}
		all.Tasks["t2"] = table.Task{Node: "n2", Attachments: map[string]table.Attachment{"red": {Addr: addr("10.208.1.8")}}}
		check(t, m.takeView("n1", all))
		synctest.Wait()
		if now, _ := m.viewState(); len(now.hosted.Networks) != 0 || len(now.view.Networks) != 1 {
			t.Errorf("hosted networks %v of %v, want none of one", now.hosted.Networks, now.view.Networks)
		}
		for _, p := range m.carrier.peers {
			if len(p.Addrs) > 0 {
				t.Errorf("packets to %v go to another node", p.Addrs)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Await(ctx, []string{"red"}); err == nil || !strings.Contains(err.Error(), "it overlaps") {
			t.Errorf("a wait for it ends with %v, want the reason", err)
		}
		f.set(func() { f.problems, f.refused = nil, nil })
		time.Sleep(problemPause)
		synctest.Wait()
		check(t, m.Await(t.Context(), []string{"red"}))
		if len(m.carrier.peers) == 0 || len(m.carrier.peers[0].Addrs) == 0 {
			t.Errorf("peers %+v, want one with an address", m.carrier.peers)
		}
	})
}

// TestProblemsAreTriedAgain every five seconds, and are told when they change.
func TestProblemsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := newFakeEngine()
		f.problems = []string{"port 80 is in use"}
		m := newMesh(t, f, &log)
		told(t, m)
		check(t, m.takeView("n1", view(1)))
		time.Sleep(2*problemPause + time.Millisecond)
		expectVersions(t, f, 1, 1, 1)
		f.set(func() { f.problems = nil })
		time.Sleep(time.Hour)
		expectVersions(t, f, 1, 1, 1, 1)
		if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "port 80 is in use") {
			t.Errorf("the log has %d lines, want one of the problem and one of its end:\n%s", lines, log.String())
		}
		// A new view does not wait.
		f.set(func() { f.problems = []string{"again"} })
		check(t, m.takeView("n1", view(2)))
		synctest.Wait()
		check(t, m.takeView("n1", view(3)))
		expectVersions(t, f, 1, 1, 1, 1, 2, 3)
	})
}

func TestEngineThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := newFakeEngine()
		f.leave()
		m := newMesh(t, f, &log)
		told(t, m)
		check(t, m.takeView("n1", view(1)))
		time.Sleep(time.Minute)
		check(t, m.takeView("n1", view(2)))
		time.Sleep(time.Minute)
		expectVersions(t, f)
		f.come()
		time.Sleep(lastAway)
		synctest.Wait()
		if got := f.taken(); len(got) == 0 || got[0].Table.Version != 2 {
			t.Errorf("a second after it came the engine has %v", versions(got))
		}
		if lines := strings.Count(log.String(), "does not take the view"); lines != 1 {
			t.Errorf("the log says so %d times:\n%s", lines, log.String())
		}
	})
}

// TestEngineThatComesBack has forgotten everything.
func TestEngineThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		m := newMesh(t, f, io.Discard)
		told(t, m)
		check(t, m.takeView("n1", view(1)))
		time.Sleep(time.Hour)
		expectVersions(t, f, 1)
		f.leave()
		time.Sleep(time.Hour)
		f.come()
		time.Sleep(2 * lastAway)
		expectVersions(t, f, 1, 1)
		f.leave() // for less than a moment
		f.come()
		time.Sleep(2 * lastAway)
		expectVersions(t, f, 1, 1, 1)
	})
}

// TestRefusedViewIsNotTheLast: the engine refuses a view in words, and takes the next one.
func TestRefusedViewIsNotTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := newFakeEngine()
		f.status = http.StatusBadRequest
		m := newMesh(t, f, &log)
		told(t, m)
		err := m.applyView(t.Context(), "n1", view(1))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a view that the engine refuses: %v, want it to come again", err)
		}
		if !strings.Contains(log.String(), "400") {
			t.Errorf("the log does not tell why:\n%s", log.String())
		}
		f.set(func() { f.status = http.StatusOK })
		check(t, m.applyView(t.Context(), "n1", view(2)))
		if got := versions(f.taken()); got[len(got)-1] != 2 {
			t.Errorf("the engine has %v, want 2 at last", got)
		}
	})
}
