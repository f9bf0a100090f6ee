package lifecycle

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/damage"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/ocispec"
	"moss/engine/task"
	"moss/engine/task/tasktest"
	"moss/engine/volume"
)

// world is everything around a Manager, in memory but for its files.
type world struct {
	t      *testing.T
	root   string
	run    string
	boot   string
	tasks  *tasktest.Fake
	layers *fakeLayers
	nets   *fakeNetworks
	images *fakeImages
	log    *eventLog
	trace  func(what string) // of every deed and event; nil: nobody listens
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, root: t.TempDir(), run: t.TempDir(), boot: "boot-1", tasks: &tasktest.Fake{},
		layers: &fakeLayers{dir: t.TempDir(), made: map[string]bool{}, mounted: map[string]bool{}, reclaimed: map[string]int{}},
		nets:   newFakeNetworks(),
		images: &fakeImages{img: &image.Image{ID: "sha256:" + strings.Repeat("ab", 32), Parent: "sha256:base", Config: image.Config{Cmd: []string{"sh"}}}},
		log:    &eventLog{},
	}
	w.tasks.Trace = func(_, deed string) { w.tell("task " + deed) }
	w.layers.trace, w.nets.trace, w.log.trace = w.tell, w.tell, w.tell
	return w
}

// tell passes on what has happened.
func (w *world) tell(what string) {
	if w.trace != nil {
		w.trace(what)
	}
}

// engine starts a Manager on the world, as a new engine would.
func (w *world) engine() *Manager {
	w.t.Helper()
	m := w.open()
	m.Run()
	return m
}

// open is engine of one that does not run yet.
func (w *world) open() *Manager {
	w.t.Helper()
	specs, err := ocispec.New(ocispec.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	stored, err := volume.Open(volume.Options{Dir: filepath.Join(w.root, "volumes"), Damage: damage.New(w.root, nil), Events: w.log, Log: zerolog.Nop()})
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := New(w.t.Context(), Options{
		Volumes: stored, VolumeMounts: stored, Damage: damage.New(w.root, nil),
		Root: w.root, RunDir: w.run, Layers: w.layers, LayerMounts: w.layers, Images: w.images, Networks: w.nets, NetworkStore: w.nets, Events: w.log, Tasks: w.tasks,
		Specs: specs, Runtime: task.Runtime{Path: "/usr/bin/crun", Root: w.run}, Log: zerolog.Nop(), BootID: w.boot,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(m.Close)
	return m
}

// create makes a container and fails the test if that does not work.
func (w *world) create(m *Manager, name string, change ...func(*container.Config, *container.HostConfig)) string {
	w.t.Helper()
	cfg, host := container.Config{Image: "busybox"}, container.HostConfig{}
	for _, f := range change {
		f(&cfg, &host)
	}
	id, _, err := m.Create(w.t.Context(), name, cfg, host, nil)
	if err != nil {
		w.t.Fatalf("create %s: %v", name, err)
	}
	return id
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// state returns the container's state and fails the test if it is not there.
func (w *world) state(m *Manager, ref string) container.State {
	w.t.Helper()
	r, err := m.inventory.Get(ref)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.State
}

type fakeLayers struct {
	mu      sync.Mutex // guards the fields below
	dir     string
	made    map[string]bool
	mounted map[string]bool
	fail    map[string]error // by verb; of remove also by "remove ID"
	diffed  bool             // the last diff was of a mounted layer

	reclaimed map[string]int // process ids
	volatile  map[string]bool
	trace     func(what string) // is told of every verb that has worked
}

func (f *fakeLayers) do(verb string, change func()) error {
	f.mu.Lock()
	err := f.fail[verb]
	if err == nil {
		change()
	}
	f.mu.Unlock()
	if err == nil {
		f.trace("layer " + verb)
	}
	return err
}

func (f *fakeLayers) Create(_ context.Context, id, _ string) error {
	return f.do("create", func() { f.made[id] = true })
}

func (f *fakeLayers) Mount(_ context.Context, id string) (string, error) {
	return f.dir, f.do("mount", func() { f.mounted[id] = true })
}

func (f *fakeLayers) Unmount(_ context.Context, id string) error {
	return f.do("unmount", func() { delete(f.mounted, id) })
}

func (f *fakeLayers) SetVolatile(_ context.Context, id string, volatile bool) error {
	return f.do("volatile", func() { f.volatile = map[string]bool{id: volatile} })
}

func (f *fakeLayers) Detach(_ context.Context, id string) error {
	return f.do("detach", func() { delete(f.mounted, id) })
}

func (f *fakeLayers) Reclaim(_ context.Context, id string, pid int) error {
	return f.do("reclaim", func() { f.reclaimed[id] = pid })
}

func (f *fakeLayers) Remove(_ context.Context, id string) error {
	if err := f.fail["remove "+id]; err != nil {
		return err
	}
	return f.do("remove", func() { delete(f.made, id) })
}

func (f *fakeLayers) Size(context.Context, string) (rw, rootfs int64, err error) { return 1, 2, nil }

func (f *fakeLayers) Containers(context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]string, 0, len(f.made))
	for id := range f.made {
		ids = append(ids, id)
	}
	return ids, nil
}

func (f *fakeLayers) Diff(_ context.Context, id string, _ []string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("changes of " + id)), f.do("diff", func() { f.diffed = f.mounted[id] })
}

func (f *fakeLayers) Driver() string { return "fake" }

type fakeImages struct {
	img       *image.Image
	committed image.Commit // the last one
	layer     string       // of the last commit
	fail      error        // of Commit, once the layer has been read
	files     string       // a folder: the files of all images
	held      atomic.Int32 // holds and views
}

func (f *fakeImages) Commit(
	ctx context.Context, c image.Commit, open func(context.Context) (io.ReadCloser, error),
) (id, name string, err error) {
	layer, err := open(ctx)
	if err != nil {
		return "", "", err
	}
	raw, err := io.ReadAll(layer)
	f.committed, f.layer = c, string(raw)
	return "sha256:made", c.Repo, errors.Join(err, f.fail, layer.Close())
}

func (f *fakeImages) Get(_ context.Context, ref string) (*image.Image, error) {
	switch ref {
	case "busybox", f.img.ID:
		return f.img, nil
	case "base", f.img.Parent:
		return &image.Image{ID: f.img.Parent}, nil
	default:
		return nil, fault.NotFound("no image %s", ref)
	}
}

// Hold counts the holds that there are.
func (f *fakeImages) Hold(ctx context.Context, ref, _ string) (func(), error) {
	if _, err := f.Get(ctx, ref); err != nil {
		return nil, err
	}
	f.held.Add(1)
	return sync.OnceFunc(func() { f.held.Add(-1) }), nil
}

// Open shows the folder files of any image that there is.
func (f *fakeImages) Open(ctx context.Context, imageID string) (*image.View, error) {
	if _, err := f.Get(ctx, imageID); err != nil {
		return nil, err
	}
	f.held.Add(1)
	return &image.View{Dir: f.files, Release: sync.OnceValue(func() error { f.held.Add(-1); return nil })}, nil
}

type eventLog struct {
	trace func(what string) // is told of every event

	mu   sync.Mutex // guards list
	list []event.Event
}

func (l *eventLog) Publish(e event.Event) {
	l.mu.Lock()
	l.list = append(l.list, e)
	l.mu.Unlock()
	what := "event " + e.Action
	if e.Type != event.TypeContainer {
		what = "event " + e.Type + " " + e.Action
	}
	if code, ok := e.Attributes["exitCode"]; ok {
		what += " exitCode=" + code
	}
	if signal, ok := e.Attributes["signal"]; ok {
		what += " signal=" + signal
	}
	l.trace(what)
}

// actions returns what happened to containers, in order.
func (l *eventLog) actions() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var actions []string
	for _, e := range l.list {
		if e.Type == event.TypeContainer {
			actions = append(actions, e.Action)
		}
	}
	return actions
}

func (l *eventLog) last(action string) (event.Event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range slices.Backward(l.list) {
		if e.Action == action {
			return e, true
		}
	}
	return event.Event{}, false
}

// wire is a client's connection that is a pipe.
type wire struct {
	io.Reader
	out    *io.PipeWriter
	closed chan struct{}
	once   sync.Once
}

func newWire(in io.Reader) (client *io.PipeReader, server *wire) {
	r, w := io.Pipe()
	return r, &wire{Reader: in, out: w, closed: make(chan struct{})}
}

func (w *wire) Write(p []byte) (int, error) { return w.out.Write(p) }

func (w *wire) CloseWrite() error { return w.out.Close() }

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return errors.Join(w.out.Close())
}
