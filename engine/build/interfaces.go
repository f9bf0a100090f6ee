package build

import (
	"context"
	"io"
	"time"

	"moss/engine/build/source"
	"moss/engine/build/worker"
	"moss/engine/image"
)

// images are the stored images. Ids are whole ones (sha256:…), ref is what a client writes.
type images interface {
	// Get returns an image, fault.NotFound if there is none.
	Get(ctx context.Context, ref string) (*image.Image, error)
	// Pull fetches an image.
	Pull(ctx context.Context, opts image.PullOptions, progress func(image.Progress)) error
	// Past returns what an image's config tells of its making, the oldest first.
	Past(ctx context.Context, imageID string) ([]image.Past, error)
	// Open gives the file system of an image. The caller closes the view.
	Open(ctx context.Context, imageID string) (*image.View, error)
	// Hold keeps an image from being removed until release is called, which may be done more than once.
	Hold(ctx context.Context, imageID, why string) (release func(), err error)
	// Room fails if the disk has no room for so much more.
	Room(bytes, files int64) error
}

// steps are the images that steps of builds made. A step with the config and the layers of an image that is there already
// (a Created of the same second) is that image.
type steps interface {
	// PutStep makes an image of a step's layer, a plain tar archive; without a layer only the config differs.
	PutStep(ctx context.Context, step image.Step, layer io.Reader) (*image.Image, error)
	// SealStep makes the image of what the container wrote: its writable layer is moved, the container has none after it.
	// skip are paths in the container that do not belong to the layer. The container is not running.
	SealStep(ctx context.Context, step image.Step, containerID string, skip []string) (*image.Image, error)
	// GraftStep makes an image whose layers are the lowest ones of another image, with that image's past up to there.
	GraftStep(ctx context.Context, step image.Step, fromImageID string, layers int) (*image.Image, error)
	// Steps lists the images that have a key.
	Steps(ctx context.Context) ([]image.Built, error)
	// Finish makes an image the result of a build: it is listed also without a name, and gets these names.
	Finish(ctx context.Context, imageID string, names []string) error
	// DropStep removes the image of a step and returns how many bytes that freed. fault.Conflict: something needs it, be it
	// a name, a container, a hold, another image, or that it is a build's result.
	DropStep(ctx context.Context, imageID string) (bytes int64, err error)
}

// runner has commands run. See package worker.
type runner interface {
	Run(ctx context.Context, step worker.Step) (worker.Result, error)
	Seal(ctx context.Context, run worker.Result, take func(ctx context.Context, skip []string) error) error
	Layer(ctx context.Context, run worker.Result) (io.ReadCloser, error)
	Keep(ctx context.Context, run worker.Result) error
	Drop(ctx context.Context, run worker.Result) error
	// Hold keeps copies of the context's files, as mounts need them, for the next run of the build.
	Hold(files source.Source) (release func() error)
}

// caches are the folders of RUN --mount=type=cache.
type caches interface {
	Caches(ctx context.Context) ([]worker.Cache, error)
	PruneCaches(ctx context.Context, drop func(worker.Cache) bool) ([]worker.Cache, error)
}

// PruneOptions say what of the cache may go (API document 2, 4.2: build/prune of later versions).
type PruneOptions struct {
	All     bool                // the folders of RUN --mount=type=cache too, not only steps that no image needs
	Keep    int64               // bytes to leave of what may go, whatever the two below say
	MaxUsed int64               // bytes of it that may stay; 0: no bound if MinFree has one, else what Keep leaves
	MinFree int64               // bytes of the disk to be free after it; 0: no wish
	Filters map[string][]string // until: not used since; id: its beginning; others: one value of a field of CacheRecord
}

// Pruned is what a prune removed.
type Pruned struct {
	Deleted []string // ids of steps' images, and of cache mounts
	Bytes   int64
}

// CacheRecord is one piece of the cache: a step's image, or the folder of a RUN --mount=type=cache.
type CacheRecord struct {
	ID          string
	Parent      string
	Type        string // regular, exec.cachemount
	Description string
	InUse       bool
	Shared      bool // an image that is not of the cache has it too
	Size        int64
	Created     time.Time
	LastUsed    time.Time // zero: never since the engine started
	Used        int
}
