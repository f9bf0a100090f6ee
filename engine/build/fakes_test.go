package build

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"moss/engine/build/source"
	"moss/engine/build/worker"
	"moss/engine/fault"
	"moss/engine/image"
)

// fakeImages keeps images in memory. The file system of each is an empty folder.
type fakeImages struct {
	t *testing.T

	mu     sync.Mutex // guards the fields below
	byID   map[string]*image.Image
	keys   map[string]string // by id
	past   map[string][]image.Past
	specs  map[string]image.Step
	layers map[string][]string // names in the archive of a layer, by the image's id
	names  map[string]string
	result map[string]bool
	held   map[string]int
	views  int
	pulls  []image.PullOptions
	remote map[string]*image.Image // what can be pulled, by name
	full   error                   // what PutStep says; nil: it works
}

func newFakeImages(t *testing.T) *fakeImages {
	f := &fakeImages{
		t: t, byID: map[string]*image.Image{}, keys: map[string]string{}, past: map[string][]image.Past{}, specs: map[string]image.Step{},
		layers: map[string][]string{}, names: map[string]string{}, result: map[string]bool{}, held: map[string]int{},
		remote: map[string]*image.Image{},
	}
	f.put("base:latest", image.Config{Env: []string{"PATH=/bin"}})
	return f
}

// put makes an image of one layer with a name.
func (f *fakeImages) put(name string, config image.Config) *image.Image {
	img := &image.Image{ID: hashed("image", name), OS: "linux", Architecture: "amd64", Layers: []string{hashed("layer", name)}, Size: 100, Config: config}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byID[img.ID], f.names[name] = img, img.ID
	f.past[img.ID] = []image.Past{{Created: time.Unix(1, 0), CreatedBy: "made " + name}}
	return img
}

func hashed(parts ...any) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(parts...)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (f *fakeImages) Get(_ context.Context, ref string) (*image.Image, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if img, ok := f.byID[ref]; ok {
		return img, nil
	}
	l, err := image.ParseLookup(ref)
	if err != nil {
		return nil, err
	}
	if img, ok := f.byID[f.names[l.Ref.Familiar()]]; ok {
		return img, nil
	}
	return nil, image.NoSuch(ref)
}

func (f *fakeImages) Pull(_ context.Context, opts image.PullOptions, progress func(image.Progress)) error {
	ref, err := image.ParseRef(opts.Repo)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulls = append(f.pulls, opts)
	img, ok := f.remote[ref.Familiar()]
	if !ok {
		return fault.NotFound("manifest for %s not found", ref.Familiar())
	}
	progress(image.Progress{ID: "layer", Status: "Downloading"})
	f.byID[img.ID], f.names[ref.Familiar()] = img, img.ID
	return nil
}

func (f *fakeImages) Past(_ context.Context, imageID string) ([]image.Past, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.past[imageID], nil
}

func (f *fakeImages) Open(context.Context, string) (*image.View, error) {
	dir := f.t.TempDir()
	root, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	f.count(&f.views, 1)
	return &image.View{Dir: dir, Root: root, Release: func() error {
		f.count(&f.views, -1)
		return root.Close()
	}}, nil
}

func (f *fakeImages) count(n *int, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n += by
}

func (f *fakeImages) Hold(_ context.Context, imageID, _ string) (func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID[imageID] == nil {
		return nil, image.NoSuch(imageID)
	}
	f.held[imageID]++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.held[imageID]--; f.held[imageID] == 0 {
			delete(f.held, imageID)
		}
	}), nil
}

func (f *fakeImages) Room(int64, int64) error { return nil }

func (f *fakeImages) PutStep(ctx context.Context, step image.Step, layer io.Reader) (*image.Image, error) {
	var names []string
	sum := ""
	if layer != nil {
		h := sha256.New()
		archive := tar.NewReader(io.TeeReader(layer, h))
		for {
			entry, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read the layer: %w", err)
			}
			names = append(names, entry.Name)
		}
		if _, err := io.Copy(io.Discard, layer); err != nil {
			return nil, err
		}
		sum = hex.EncodeToString(h.Sum(nil))
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	full := f.full
	f.mu.Unlock()
	if full != nil {
		return nil, full
	}
	return f.add(step, sum, names)
}

func (f *fakeImages) SealStep(_ context.Context, step image.Step, containerID string, _ []string) (*image.Image, error) {
	return f.add(step, hashed("written by", containerID), nil)
}

func (f *fakeImages) GraftStep(_ context.Context, step image.Step, from string, layers int) (*image.Image, error) {
	f.mu.Lock()
	src := f.byID[from]
	f.mu.Unlock()
	parent := 0
	if step.Parent != "" {
		img, err := f.Get(context.Background(), step.Parent)
		if err != nil {
			return nil, err
		}
		parent = len(img.Layers)
	}
	sum := ""
	if layers > parent {
		sum = src.Layers[layers-1]
	}
	return f.add(step, sum, nil)
}

// add makes an image on top of the step's parent.
func (f *fakeImages) add(step image.Step, layer string, names []string) (*image.Image, error) {
	config, err := json.Marshal(step.Config)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	img := &image.Image{
		ID: hashed(step.Parent, step.CreatedBy, string(config), layer, step.Created), Parent: step.Parent, OS: step.OS,
		Architecture: step.Architecture, Config: step.Config, Created: step.Created,
	}
	if below := f.byID[step.Parent]; below != nil {
		img.Layers, img.Size = slices.Clone(below.Layers), below.Size
	} else if step.Parent != "" {
		return nil, image.NoSuch(step.Parent)
	}
	if layer != "" {
		img.Layers, img.Size = append(img.Layers, layer), img.Size+10
	}
	f.byID[img.ID], f.keys[img.ID], f.layers[img.ID], f.specs[img.ID] = img, step.Key, names, step
	f.past[img.ID] = append(slices.Clone(f.past[step.Parent]), image.Past{
		Created: step.Created, CreatedBy: step.CreatedBy, Empty: layer == "",
	})
	return img, nil
}

func (f *fakeImages) Steps(context.Context) ([]image.Built, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]image.Built, 0, len(f.keys))
	for _, id := range slices.Sorted(maps.Keys(f.keys)) {
		img, step := f.byID[id], image.Built{ID: id, Key: f.keys[id], Result: f.result[id]}
		step.Parent, step.Created, step.Size = img.Parent, img.Created, img.Size
		if below := f.byID[img.Parent]; below != nil {
			step.Size -= below.Size
		}
		list = append(list, step)
	}
	return list, nil
}

func (f *fakeImages) Finish(ctx context.Context, imageID string, names []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.result[imageID] = true
	for _, name := range names {
		f.names[name] = imageID
	}
	return nil
}

func (f *fakeImages) DropStep(_ context.Context, imageID string) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	img := f.byID[imageID]
	if img == nil {
		return 0, image.NoSuch(imageID)
	}
	for _, other := range f.byID {
		if other.Parent == imageID {
			return 0, fault.Conflict("another image is made on it")
		}
	}
	if f.result[imageID] || f.held[imageID] > 0 {
		return 0, fault.Conflict("it is needed")
	}
	delete(f.byID, imageID)
	delete(f.keys, imageID)
	if below := f.byID[img.Parent]; below != nil {
		return img.Size - below.Size, nil
	}
	return img.Size, nil
}

// fakeRunner runs commands in memory.
type fakeRunner struct {
	mu    sync.Mutex // guards the fields below
	ran   []worker.Step
	left  map[string]string // containers and what became of them: ran, kept
	count int

	run    func(ctx context.Context, step worker.Step) error // nil: it works
	refuse error                                             // what Seal and Keep say; nil: they work
}

func (r *fakeRunner) Run(ctx context.Context, step worker.Step) (worker.Result, error) {
	r.mu.Lock()
	r.count++
	id := fmt.Sprintf("%012d%052d", r.count, 0)
	r.ran = append(r.ran, step)
	if r.left == nil {
		r.left = map[string]string{}
	}
	r.left[id] = "ran"
	run := r.run
	r.mu.Unlock()
	step.Started(id, nil)
	var err error
	if run != nil {
		err = run(ctx, step)
	}
	var exit *worker.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.set(id, "")
		return worker.Result{}, err
	}
	made, _ := json.Marshal(map[string]any{"Env": step.Env, "Cmd": step.Command})
	return worker.Result{ContainerID: id, Config: made}, err
}

func (r *fakeRunner) set(id, state string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if state == "" {
		delete(r.left, id)
	} else {
		r.left[id] = state
	}
}

func (r *fakeRunner) Seal(ctx context.Context, run worker.Result, take func(context.Context, []string) error) error {
	if r.refuse != nil {
		return r.refuse
	}
	defer r.set(run.ContainerID, "")
	return take(ctx, nil)
}

func (r *fakeRunner) Layer(context.Context, worker.Result) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(archiveOf(map[string]string{"written": "x"}))), nil
}

func (r *fakeRunner) Keep(_ context.Context, run worker.Result) error {
	if r.refuse != nil {
		return r.refuse
	}
	r.set(run.ContainerID, "kept")
	return nil
}

func (r *fakeRunner) Drop(_ context.Context, run worker.Result) error {
	r.set(run.ContainerID, "")
	return nil
}

func (r *fakeRunner) Hold(source.Source) func() error { return func() error { return nil } }

// commands returns what has run, sorted.
func (r *fakeRunner) commands() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]string, 0, len(r.ran))
	for _, step := range r.ran {
		list = append(list, step.Command[len(step.Command)-1])
	}
	slices.Sort(list)
	return list
}

type fakeCaches struct{ list []worker.Cache }

func (c *fakeCaches) Caches(context.Context) ([]worker.Cache, error) { return c.list, nil }

func (c *fakeCaches) PruneCaches(_ context.Context, drop func(worker.Cache) bool) (gone []worker.Cache, err error) {
	c.list = slices.DeleteFunc(c.list, func(one worker.Cache) bool {
		if drop(one) {
			gone = append(gone, one)
			return true
		}
		return false
	})
	return gone, nil
}
