package handler_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"moss/api/handler"
	"moss/api/route"
	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/stdio"
	"moss/engine/system"
)

// logLine is one line that a fake container has written.
type logLine struct {
	stream stdio.Stream
	text   string
}

// containers is a fake that records calls and answers what the test sets.
type containers struct {
	mu    sync.Mutex // guards calls
	calls []string

	record   *container.Record
	err      error // of every verb and of Get
	warnings []string
	lines    []logLine
	logsErr  error
	sizeErr  error
	waiting  chan struct{} // Wait blocks on it
	waitErr  error         // what it returns then
	waitDone chan error    // gets what Wait saw of its context
	attach   func(ctx context.Context, opt container.AttachOptions, open func() (io.ReadWriteCloser, error)) error

	commit  container.CommitOptions
	created container.Config
	host    container.HostConfig
	nets    map[string]container.EndpointConfig
}

func (f *containers) note(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.err
}

// said returns the calls since the last time.
func (f *containers) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	said := strings.Join(f.calls, "; ")
	f.calls = nil
	return said
}

func (f *containers) Create(_ context.Context, name string, cfg container.Config, host container.HostConfig,
	endpoints map[string]container.EndpointConfig,
) (string, []string, error) {
	f.created, f.host, f.nets = cfg, host, endpoints
	return "4fa6", f.warnings, f.note("create %s", name)
}

func (f *containers) Reconfigure(_ context.Context, ref string, host container.HostConfig) error {
	return f.note("reconfigure %s privileged=%v", ref, host.Privileged)
}

func (f *containers) SetDetachKeys(ref string, keys []byte) error {
	return f.note("detach keys %s %q", ref, keys)
}

func (f *containers) Update(_ context.Context, ref string, asked container.HostConfig) ([]string, error) {
	f.host = asked
	return f.warnings, f.note("update %s", ref)
}

func (f *containers) Commit(_ context.Context, ref string, opt container.CommitOptions) (string, error) {
	f.commit = opt
	return "sha256:9f86", f.note("commit %s", ref)
}

func (f *containers) Pause(_ context.Context, ref string) error { return f.note("pause %s", ref) }

func (f *containers) Unpause(_ context.Context, ref string) error { return f.note("unpause %s", ref) }

func (f *containers) Prune(_ context.Context, filters map[string][]string) ([]string, int64, error) {
	return []string{"4fa6"}, 7, f.note("prune %v", filters)
}

func (f *containers) Start(_ context.Context, ref string) error { return f.note("start %s", ref) }

func (f *containers) Stop(_ context.Context, ref string, opt container.StopOptions) error {
	return f.note("stop %s %s", ref, show(opt))
}

func (f *containers) Restart(_ context.Context, ref string, opt container.StopOptions) error {
	return f.note("restart %s %s", ref, show(opt))
}

func show(opt container.StopOptions) string {
	if opt.Timeout == nil {
		return "default" + opt.Signal
	}
	return opt.Timeout.String() + opt.Signal
}

func (f *containers) Kill(_ context.Context, ref, signal string) error {
	return f.note("kill %s %q", ref, signal)
}

func (f *containers) Remove(_ context.Context, ref string, opt container.RemoveOptions) error {
	err := f.note("remove %s {Force:%v Volumes:%v Link:%v}", ref, opt.Force, opt.Volumes, opt.Link)
	if err == nil && !opt.Link {
		opt.Gone()
	}
	return err
}

func (f *containers) Rename(_ context.Context, ref, name string) error {
	return f.note("rename %s %s", ref, name)
}

func (f *containers) Resize(_ context.Context, ref string, width, height uint16) error {
	return f.note("resize %s %dx%d", ref, width, height)
}

func (f *containers) Get(ref string) (*container.Record, error) {
	if err := f.note("get %s", ref); err != nil && f.record == nil {
		return nil, err
	}
	return f.record, nil
}

func (f *containers) List(_ context.Context, opt container.ListOptions) ([]*container.Record, error) {
	if err := f.note("list %+v", opt); err != nil {
		return nil, err
	}
	if f.record == nil {
		return nil, nil
	}
	return []*container.Record{f.record}, nil
}

func (f *containers) Size(_ context.Context, ref string) (rw, rootfs int64, err error) {
	return 10, 20, errors.Join(f.note("size %s", ref), f.sizeErr)
}

func (f *containers) WaitFor(ctx context.Context, ref string, condition container.WaitCondition, begun func()) (int, error) {
	if err := f.note("wait %s %d", ref, condition); err != nil {
		return 0, err
	}
	if f.waiting != nil {
		begun()
		select {
		case <-f.waiting:
			return 3, f.waitErr
		case <-ctx.Done():
			f.waitDone <- ctx.Err()
			return 0, ctx.Err()
		}
	}
	return 3, nil
}

func (f *containers) Attach(ctx context.Context, ref string, opt container.AttachOptions, open func() (io.ReadWriteCloser, error)) error {
	if err := f.note("attach %s %+v", ref, opt); err != nil {
		return err
	}
	return f.attach(ctx, opt, open)
}

func (f *containers) Logs(ctx context.Context, ref string, opt container.LogsOptions,
	emit func(stream stdio.Stream, at time.Time, line []byte, attrs map[string]string) error,
) error {
	if err := f.note("logs %s out=%v err=%v follow=%v tail=%d since=%d", ref, opt.Stdout, opt.Stderr, opt.Follow, opt.Tail, unix(opt.Since)); err != nil {
		return err
	}
	for _, l := range f.lines {
		if err := emit(l.stream, time.Unix(1448064000, 5), []byte(l.text), map[string]string{"a": "1", "E": "2,3"}); err != nil {
			return err
		}
	}
	if opt.Follow && f.logsErr == nil {
		<-ctx.Done()
		f.waitDone <- ctx.Err()
		return ctx.Err()
	}
	return f.logsErr
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

type about struct{ err error }

func (a about) Info(context.Context) (system.Info, error) {
	return system.Info{Facts: system.Facts{ID: "X", Version: "1.2.3"}, Counts: system.Counts{Running: 2}}, a.err
}

func (about) Version() system.Version { return system.Version{Version: "1.2.3", OS: "linux"} }

// api is a served API with its fakes behind it.
type api struct {
	t          *testing.T
	path       string
	containers *containers
	execs      *execs
	images     *images
	builds     *builds
	volumes    *volumes
	networks   *networks
	usage      *usage
	about      *about
	events     *event.Bus
}

func newAPI(t *testing.T) *api {
	t.Helper()
	return newAPIIn(t, nil)
}

// newAPIIn is newAPI of a node with a part in a swarm.
func newAPIIn(t *testing.T, swarm handler.Swarm) *api {
	t.Helper()
	a := &api{
		t: t, path: filepath.Join(t.TempDir(), "s"), about: &about{}, usage: &usage{}, events: event.NewBus(), images: &images{}, builds: &builds{}, execs: &execs{}, volumes: &volumes{}, networks: &networks{},
		containers: &containers{record: &container.Record{
			ID: "4fa6e0", Name: "web", Created: time.Unix(1448064000, 0), State: container.Running, LogPath: "/log",
			Config: container.Config{Labels: map[string]string{"a": "1"}, Env: []string{"E=2"}},
		}},
	}
	h := handler.New(handler.Services{
		Containers: a.containers, Settings: a.containers, Commits: a.containers, Inventory: a.containers, Viewers: a.containers,
		Execs: a.execs, Stats: a.usage, Top: a.usage,
		Images: a.images, ImageVerbs: a.images, ImageArchives: a.images, Registries: a.images,
		Builds: a.builds, Volumes: a.volumes, Networks: a.networks, Members: a.networks,
		System: a.about, Events: a.events, Swarm: swarm, StorageDriver: "overlay",
	})
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "unix", a.path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(route.New(h.Routes(), route.Options{Version: "1.2.3", Log: zerolog.Nop()}))
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return a
}

func (a *api) dial() *net.UnixConn {
	a.t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: a.path, Net: "unix"})
	if err != nil {
		a.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { c.Close() }) //nolint:errcheck // It may be closed already.
	return c
}

// open sends a request, with names and values of headers, and returns the answer with its body still to be read.
func (a *api) open(method, path, body string, header ...string) *http.Response {
	a.t.Helper()
	c := a.dial()
	req, err := http.NewRequestWithContext(a.t.Context(), method, "http://moss"+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if err := req.Write(c); err != nil {
		a.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		c.Close()         //nolint:errcheck // First: closing the body would read it to its end.
		resp.Body.Close() //nolint:errcheck // It was read, or the test has failed.
	})
	return resp
}

// ask sends a request and returns the whole answer.
func (a *api) ask(method, path, body string, header ...string) (int, string) {
	a.t.Helper()
	resp := a.open(method, path, body, header...) //nolint:bodyclose // The cleanup of open does.
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// field returns one field of a JSON object by its path.
func field(t *testing.T, raw string, path ...string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// noSuch is a not found fault as the engine makes it.
func noSuch() error { return fault.NotFound("No such container: nope") }
