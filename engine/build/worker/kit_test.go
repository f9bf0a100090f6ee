package worker

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/damage"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/stdio"
)

// world is everything around a Worker.
type world struct {
	t    *testing.T
	root string
	run  string
	ctrs *fakeContainers
	imgs *fakeImages
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{
		t: t, root: t.TempDir(), run: t.TempDir(), imgs: &fakeImages{dir: t.TempDir()},
		ctrs: &fakeContainers{records: map[string]*container.Record{}, ended: map[string]chan struct{}{}},
	}
}

// worker starts a Worker on the world, as a new engine would.
func (w *world) worker(change ...func(*Options)) *Worker {
	w.t.Helper()
	opt := Options{Root: w.root, RunDir: w.run, Steps: w.ctrs, Containers: w.ctrs, Inventory: w.ctrs, Viewers: w.ctrs, Images: w.imgs, Log: zerolog.Nop(), Damage: damage.New(w.root, nil)}
	for _, f := range change {
		f(&opt)
	}
	k, err := New(w.t.Context(), opt)
	must(w.t, err)
	w.t.Cleanup(k.Close)
	return k
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// left lists what lies below the folders of the worker, but for the caches.
func (w *world) left() []string {
	w.t.Helper()
	var found []string
	for _, dir := range []string{filepath.Join(w.root, "mounts"), filepath.Join(w.run, "build")} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			w.t.Fatal(err)
		}
		for _, e := range entries {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found
}

// fakeContainers plays the engine's containers. A command is a script of the test.
type fakeContainers struct {
	// script plays a container's process; nil ends with 0. kill is closed when it is killed.
	script func(step container.Step, out, errs io.Writer, kill <-chan struct{}) (code int)
	// startErr refuses a start with an exit code.
	startErr  error
	startCode int
	oom       bool

	mu      sync.Mutex // guards the fields below
	steps   []container.Step
	records map[string]*container.Record
	ended   map[string]chan struct{} // closed when the process has ended
	kill    chan struct{}
	killed  bool
	view    io.ReadWriteCloser
	viewed  chan struct{}
	kept    []string
	removed []string
}

func (f *fakeContainers) CreateStep(_ context.Context, step container.Step) (id string, warnings []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = append(f.steps, step)
	id = strings.Repeat("c", 63) + string(rune('0'+len(f.steps)))
	f.records[id] = &container.Record{ID: id, Config: step.Config, Host: step.Host}
	f.ended[id], f.kill, f.killed, f.viewed = make(chan struct{}), make(chan struct{}), false, make(chan struct{})
	return id, []string{"a warning"}, nil
}

func (f *fakeContainers) last() container.Step {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.steps[len(f.steps)-1]
}

func (f *fakeContainers) Surrender(ctx context.Context, id string, take func(context.Context, []string) error) error {
	err := take(ctx, []string{"/proc"})
	return errorsFirst(err, f.Remove(ctx, id, container.RemoveOptions{}))
}

func errorsFirst(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeContainers) Keep(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = append(f.kept, id)
	return nil
}

func (f *fakeContainers) Layer(_ context.Context, id string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("layer of " + id)), nil
}

func (f *fakeContainers) Get(id string) (*container.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.records[id]; r != nil {
		return r, nil
	}
	return nil, fault.NotFound("No such container: %s", id)
}

func (f *fakeContainers) Remove(_ context.Context, id string, _ container.RemoveOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.records[id] == nil {
		return fault.NotFound("No such container: %s", id)
	}
	delete(f.records, id)
	f.removed = append(f.removed, id)
	return nil
}

func (f *fakeContainers) Attach(
	_ context.Context, _ string, _ container.AttachOptions, open func() (io.ReadWriteCloser, error),
) error {
	conn, err := open()
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.view = conn
	viewed := f.viewed
	f.mu.Unlock()
	<-viewed
	return conn.Close()
}

func (f *fakeContainers) Start(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.startErr != nil {
		next := *f.records[id]
		next.ExitCode = f.startCode
		f.records[id] = &next
		close(f.viewed)
		return f.startErr
	}
	step, view, kill, viewed, ended := f.steps[len(f.steps)-1], f.view, f.kill, f.viewed, f.ended[id]
	go func() {
		code := 0
		if f.script != nil {
			code = f.script(step, stdio.NewFrameWriter(view, stdio.Stdout), stdio.NewFrameWriter(view, stdio.Stderr), kill)
		}
		f.mu.Lock()
		if f.records[id] != nil {
			next := *f.records[id]
			next.ExitCode, next.OOMKilled = code, f.oom
			f.records[id] = &next
		}
		f.mu.Unlock()
		close(viewed)
		close(ended)
	}()
	return nil
}

func (f *fakeContainers) Wait(ctx context.Context, id string) (int, error) {
	f.mu.Lock()
	ended := f.ended[id]
	f.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	r, err := f.Get(id)
	if err != nil {
		return 0, err
	}
	return r.ExitCode, nil
}

func (f *fakeContainers) Kill(_ context.Context, _, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.killed {
		f.killed = true
		close(f.kill)
	}
	return nil
}

// fakeImages shows one folder as the files of every image.
type fakeImages struct {
	dir string

	mu   sync.Mutex // guards open
	open int
}

func (f *fakeImages) Open(context.Context, string) (*image.View, error) {
	root, err := os.Open(f.dir)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open++
	return &image.View{Dir: f.dir, Root: root, Release: func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.open--
		return root.Close()
	}}, nil
}
