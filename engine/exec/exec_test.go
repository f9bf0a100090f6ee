package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/ocispec"
	"moss/engine/stdio"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

// world is one running container, with a service around it.
type world struct {
	t    *testing.T
	fake *tasktest.Fake
	dir  string

	mu      sync.Mutex // guards the fields below
	record  *container.Record
	task    task.Task
	gone    bool
	killed  []int // families that were to be killed
	actions []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, fake: &tasktest.Fake{}, dir: t.TempDir(), record: &container.Record{
		ID: strings.Repeat("c", 64), Name: "web", Image: "busybox", State: container.Running, Pid: 1,
		Config: container.Config{Cmd: []string{"sh"}, Env: []string{"A=b"}, WorkingDir: "/srv"},
	}}
	tk, err := w.fake.Prepare(t.Context(), task.Spec{ID: w.record.ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tk.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.task = tk
	t.Cleanup(func() { w.endTask() })
	return w
}

func (w *world) service() *Service {
	w.t.Helper()
	builder, err := ocispec.New(ocispec.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	opt := Options{Dir: w.dir, Containers: w, Specs: builder, Events: w, Log: zerolog.Nop()}
	// The pids of a fake are nobody's, or somebody else's: the real killing has a test of its own.
	s, err := newService(w.t.Context(), opt, func(pid int) { w.set(func() { w.killed = append(w.killed, pid) }) })
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s
}

// endTask ends the container's process.
func (w *world) endTask() { w.task.(*tasktest.FakeTask).End(task.Exit{Code: 137}) }

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) Get(ref string) (*container.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone || ref != w.record.ID && ref != w.record.Name {
		return nil, fault.NotFound("No such container: %s", ref)
	}
	return w.record, nil
}

func (w *world) Running(ref string) (*container.Record, task.Task, error) {
	r, err := w.Get(ref)
	if err != nil {
		return nil, nil, err
	}
	if !r.State.HasProcess() {
		return nil, nil, container.NotRunning(ref)
	}
	return r, w.task, nil
}

func (w *world) CheckWorkingDir(string, string) error { return nil }

// LinkEnv tells of one neighbour, and of one with the name of a variable that the container has.
func (w *world) LinkEnv(*container.Record) []string {
	return []string{"DB_NAME=/web/db", "A=neighbour"}
}

func (w *world) User(_, user string) (container.UserIDs, error) {
	return container.ResolveUser(user, nil, []byte("root:x:0:0::/root:\nwww:x:33:33::/var/www:\n"), nil)
}

func (w *world) Publish(e event.Event) {
	w.set(func() { w.actions = append(w.actions, e.Action) })
}

func (w *world) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.actions, "; ")
}

// files counts what lies in the service's folder.
func (w *world) files() int {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(entries)
}

// conn is a client: what it sends, what it got, and whether its head is out.
type conn struct {
	io.Reader
	mu     sync.Mutex // guards got
	got    bytes.Buffer
	opened bool
	closed chan struct{}
	once   sync.Once
}

func newConn(in string) *conn {
	return &conn{Reader: strings.NewReader(in), closed: make(chan struct{})}
}

func (c *conn) open() (io.ReadWriteCloser, error) { c.opened = true; return c, nil }

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got.Write(p)
}

func (c *conn) CloseWrite() error { return nil }
func (c *conn) AwaitHangup()      { <-c.closed }
func (c *conn) Close() error      { c.once.Do(func() { close(c.closed) }); return nil }

// seen returns what the client got; of frames both outputs, with a bar between them.
func (c *conn) seen(raw bool) string {
	if raw {
		return c.got.String()
	}
	var stdout, stderr strings.Builder
	if err := stdio.Demux(bytes.NewReader(c.got.Bytes()), &stdout, &stderr); err != nil {
		return "not frames: " + c.got.String()
	}
	return stdout.String() + "|" + stderr.String()
}

// echo answers the first two bytes of its input on stdout, then a word on stderr, and ends with 3.
func echo(_ task.Spec, _ task.ExecSpec, p *tasktest.Proc) int {
	var two [2]byte
	n, _ := io.ReadFull(p.Stdin, two[:])             // there may be none; a terminal's does not end
	io.WriteString(p.Stdout, string(two[:n])+" out") //nolint:errcheck // a pipe in memory
	io.WriteString(p.Stderr, "err")                  //nolint:errcheck // likewise
	return 3
}

func mustCreate(t *testing.T, s *Service, config Config) string {
	t.Helper()
	if config.Cmd == nil {
		config.Cmd = []string{"cat", "-u"}
	}
	execID, err := s.Create(t.Context(), "web", config)
	if err != nil {
		t.Fatal(err)
	}
	return execID
}

func TestAttachedStart(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config Config
		raw    bool
		want   string
	}{
		{"frames", Config{AttachStdin: true, AttachStdout: true, AttachStderr: true}, false, "in out|err"},
		{"terminal", Config{AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: true}, true, "in outerr"},
		{"terminal at create only", Config{AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: true}, false, "in outerr|"},
		{"terminal at start only", Config{AttachStdin: true, AttachStdout: true, AttachStderr: true}, true, "in outerr"},
		{"stderr alone", Config{AttachStdin: true, AttachStderr: true}, false, "|err"},
		{"without input", Config{AttachStdout: true}, false, " out|"},
	} {
		t.Run(tc.name, inBubble(func(t *testing.T) {
			w := newWorld(t)
			w.fake.ExecScript = echo
			s := w.service()
			execID := mustCreate(t, s, tc.config)
			if info, err := s.Inspect(execID); err != nil || info.Running || info.ExitCode != nil {
				t.Errorf("Inspect before the start = %+v, %v, want neither running nor ended", info, err)
			}
			c := newConn("in")
			if err := s.Start(t.Context(), execID, StartOptions{Raw: tc.raw}, c.open); err != nil {
				t.Fatal(err)
			}
			if got := c.seen(tc.raw); got != tc.want {
				t.Errorf("client got %q, want %q", got, tc.want)
			}
			info, err := s.Inspect(execID)
			if err != nil || info.Running || info.ExitCode == nil || *info.ExitCode != 3 {
				t.Errorf("Inspect at the end of the output = %+v, %v, want exit code 3", info, err)
			}
			if err := s.Start(t.Context(), execID, StartOptions{}, c.open); !fault.Is(err, fault.Conflict) {
				t.Errorf("second Start = %v, want a conflict", err)
			}
			synctest.Wait() // what the client sees of the end comes before the event
			if got, want := w.said(), "exec_create: cat -u; exec_start: cat -u; exec_die"; got != want {
				t.Errorf("events = %q, want %q", got, want)
			}
		}))
	}
}

// inBubble returns a subtest that runs in a bubble of testing/synctest.
func inBubble(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

func TestProcessOfAnExec(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config Config
		want   func(p *rspec.Process) bool
	}{
		{"the container's environment and folder", Config{}, func(p *rspec.Process) bool {
			return slices.Contains(p.Env, "A=b") && slices.Contains(p.Env, "HOME=/root") && p.Cwd == "/srv" &&
				slices.Equal(p.Args, []string{"cat", "-u"}) && !p.Terminal && len(p.Capabilities.Bounding) == 14
		}},
		{"what the container's neighbours tell, behind what it has itself", Config{}, func(p *rspec.Process) bool {
			return slices.Contains(p.Env, "DB_NAME=/web/db") && !slices.Contains(p.Env, "A=neighbour")
		}},
		{"terminal", Config{Tty: true}, func(p *rspec.Process) bool { return p.Terminal && slices.Contains(p.Env, "TERM=xterm") }},
		{"user", Config{User: "www:5"}, func(p *rspec.Process) bool {
			return p.User.UID == 33 && p.User.GID == 5 && slices.Contains(p.Env, "HOME=/var/www") && len(p.Capabilities.Effective) == 0
		}},
		{"privileged", Config{Privileged: true}, func(p *rspec.Process) bool {
			return slices.Contains(p.Capabilities.Effective, "CAP_SYS_ADMIN")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			var got task.ExecSpec
			w.fake.ExecScript = func(_ task.Spec, spec task.ExecSpec, _ *tasktest.Proc) int { got = spec; return 0 }
			s := w.service()
			execID := mustCreate(t, s, tc.config)
			if err := s.Start(t.Context(), execID, StartOptions{Raw: tc.config.Tty}, newConn("").open); err != nil {
				t.Fatal(err)
			}
			var p rspec.Process
			if err := json.Unmarshal(got.Process, &p); err != nil || !tc.want(&p) {
				t.Errorf("process = %s, %v", got.Process, err)
			}
		})
	}
}

func TestCreateRefusals(t *testing.T) {
	w := newWorld(t)
	s := w.service()
	for _, tc := range []struct {
		name   string
		state  container.State
		ref    string
		config Config
		kind   fault.Constructor
		text   string
	}{
		{"no command", container.Running, "web", Config{}, fault.Invalid, "No exec command specified"},
		{"empty command", container.Running, "web", Config{Cmd: []string{""}}, fault.Invalid, "No exec command specified"},
		{"zero byte", container.Running, "web", Config{Cmd: []string{"a\x00"}}, fault.Invalid, "zero byte"},
		{"long", container.Running, "web", Config{Cmd: []string{"a", strings.Repeat("x", 32*os.Getpagesize())}}, fault.Invalid, "invalid Cmd"},
		{"detach keys", container.Running, "web", Config{Cmd: []string{"a"}, DetachKeys: "ctrl-1"}, fault.Invalid, "detach keys"},
		{"user", container.Running, "web", Config{Cmd: []string{"a"}, User: "a:b:c"}, fault.Invalid, "invalid User"},
		{"no container", container.Running, "nope", Config{Cmd: []string{"a"}}, fault.NotFound, "No such container: nope"},
		{"paused", container.Paused, "web", Config{Cmd: []string{"a"}}, fault.Conflict, "Container web is paused, unpause the container before exec"},
		{"not running", container.Exited, "web", Config{Cmd: []string{"a"}}, fault.Conflict, "web is not running"},
	} {
		w.set(func() { r := *w.record; r.State = tc.state; w.record = &r })
		if _, err := s.Create(t.Context(), tc.ref, tc.config); !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: Create = %v, want %q", tc.name, err, tc.text)
		}
	}
}

func TestStartRefusals(t *testing.T) {
	w := newWorld(t)
	s := w.service()
	pending := mustCreate(t, s, Config{})
	if err := s.Start(t.Context(), "nope", StartOptions{}, nil); !fault.Is(err, fault.NotFound) || err.Error() != "No such exec instance: nope" {
		t.Errorf("Start of nothing = %v", err)
	}
	w.set(func() { r := *w.record; r.State = container.Paused; w.record = &r })
	if err := s.Start(t.Context(), pending, StartOptions{Detach: true}, nil); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "is paused") {
		t.Errorf("Start in a paused container = %v", err)
	}
	w.set(func() { r := *w.record; r.State = container.Running; w.record = &r })
	if err := s.Start(t.Context(), pending, StartOptions{Detach: true}, nil); err != nil {
		t.Errorf("Start after that = %v", err)
	}
	if err := s.Start(t.Context(), pending, StartOptions{Detach: true}, nil); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "already running") {
		t.Errorf("Start of a running one = %v", err)
	}
	stranger := mustCreate(t, s, Config{User: "stranger"})
	if err := s.Start(t.Context(), stranger, StartOptions{Detach: true}, nil); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "unable to find user stranger") {
		t.Errorf("Start as a stranger = %v", err)
	}
	attached, c := mustCreate(t, s, Config{User: "stranger"}), newConn("")
	if err := s.Start(t.Context(), attached, StartOptions{}, c.open); err != nil || !strings.Contains(c.seen(false), "unable to find user stranger") {
		t.Errorf("attached Start as a stranger = %v, client got %q", err, c.got.String())
	}
	if info, err := s.Inspect(stranger); err != nil || info.ExitCode == nil || *info.ExitCode != 126 {
		t.Errorf("Inspect of it = %+v, %v, want 126", info, err)
	}
}

// TestAwaitEnd: a stream that ends before its process is not held back.
func TestAwaitEnd(t *testing.T) {
	w := newWorld(t)
	s := w.service()
	execID := mustCreate(t, s, Config{})
	if err := s.Start(t.Context(), execID, StartOptions{Detach: true}, nil); err != nil {
		t.Fatal(err)
	}
	in, err := s.findInstance(execID)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s.awaitEnd(ctx, in, in.process)
	if ctx.Err() != nil {
		t.Error("the end of a process that lives is waited for")
	}
}
