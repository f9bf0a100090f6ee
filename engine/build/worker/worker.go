// Package worker runs the commands of builds: each RUN is a container of the engine over the image of the step before, with
// the mounts that the instruction asks for. It reads no Dockerfile, keeps no image, and knows nothing of a cache of steps.
package worker

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/rs/zerolog"

	"moss/engine/build/source"
	"moss/engine/container"
	"moss/engine/image"
	"moss/engine/tree"
)

// steps makes and gives up containers that run what builds run. A container of CreateStep is gone with the engine; its verbs are
// those of any other.
type steps interface {
	// CreateStep makes a container that takes nothing of its image but the files.
	CreateStep(ctx context.Context, step container.Step) (containerID string, warnings []string, err error)
	// Surrender removes such a container once it has ended, after take has had its writable layer, which is not mounted.
	// skip are the paths that are there only because something was mounted over them. The container goes in any case.
	Surrender(ctx context.Context, containerID string, take func(ctx context.Context, skip []string) error) error
	// Keep makes it a container like any other.
	Keep(ctx context.Context, containerID string) error
	// Layer opens what it has written, as a plain archive. The caller closes that.
	Layer(ctx context.Context, containerID string) (io.ReadCloser, error)
}

// containers are the verbs of containers that a run needs.
type containers interface {
	Start(ctx context.Context, containerID string) error
	Kill(ctx context.Context, containerID, signal string) error
	Remove(ctx context.Context, containerID string, opt container.RemoveOptions) error
}

// inventory tells what has become of containers.
type inventory interface {
	Get(containerID string) (*container.Record, error)
	// Wait returns the exit code of a container once it does not run any more.
	Wait(ctx context.Context, containerID string) (code int, err error)
}

// viewers connects what runs to the output of a build.
type viewers interface {
	Attach(ctx context.Context, containerID string, opt container.AttachOptions, open func() (io.ReadWriteCloser, error)) error
}

// images show the files of images. The caller closes the view.
type images interface {
	Open(ctx context.Context, imageID string) (*image.View, error)
}

// Options is what a Worker is made of. Every field is needed unless it says otherwise.
type Options struct {
	Root       string // <data folder>/build: caches go to cache, copies of files to mounts
	RunDir     string // this boot's folder: secrets go to <RunDir>/build
	Steps      steps
	Containers containers
	Inventory  inventory
	Viewers    viewers
	Images     images
	Trash      *tree.Trash // for what commands have shaped; nil: it is deleted at once
	CacheSize  int64       // bytes that cache mounts may take before the oldest go; 0: no bound
	Damage     damaged
	Log        zerolog.Logger
}

// damaged takes files that are not what they should be.
type damaged interface {
	SetAside(path string, why error) error
}

// Worker runs commands. Make one with New; Close it at the end, when no build runs any more.
type Worker struct {
	opt    Options
	caches *caches

	mu     sync.Mutex // guards the fields below
	copies map[copyKey]*copied
	held   map[source.Source]int // the builds that hold them

	background sync.WaitGroup
	life       context.Context //nolint:containedctx // of the worker itself, for work that no build owns
	end        context.CancelFunc
}

// New returns a worker. What an earlier engine left half done is removed; ctx bounds the start only.
func New(ctx context.Context, opt Options) (*Worker, error) {
	w := &Worker{opt: opt, copies: map[copyKey]*copied{}, held: map[source.Source]int{}}
	for _, dir := range []string{w.copyDir(), w.secretDir()} {
		if err := opt.Trash.Take(dir); err != nil {
			return nil, fmt.Errorf("sweep what is left of builds: %w", err)
		}
	}
	var err error
	if w.caches, err = openCaches(filepath.Join(opt.Root, "cache"), opt.Trash, opt.Damage); err != nil {
		return nil, fmt.Errorf("open caches of builds: %w", err)
	}
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	return w, nil
}

// Close ends what goes on in the background.
func (w *Worker) Close() {
	w.end()
	w.background.Wait()
}

// copyDir holds copies of files, each below a name that is not used again.
func (w *Worker) copyDir() string { return filepath.Join(w.opt.Root, "mounts") }

// secretDir is on a file system in memory.
func (w *Worker) secretDir() string { return filepath.Join(w.opt.RunDir, "build") }
