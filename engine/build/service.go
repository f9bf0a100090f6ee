package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/tree"
)

// defaultCacheSize is how many bytes of layers steps may hold that no image needs.
const defaultCacheSize = 20 << 30

// Options is what a Service is made of. Every field is needed unless it says otherwise.
type Options struct {
	Dir       string // of what builds write while they run, below the data folder; the service's own, emptied at the start
	Images    images
	Steps     steps
	Runner    runner
	Caches    caches
	Platform  image.Platform // of this machine
	CacheSize int64          // bytes that steps' layers may take before the oldest go; 0: 20 GiB, less than 0: no bound
	Parallel  int            // steps of one build that run at the same time; 0: as many as there are processors, at least two
	UserAgent string         // for downloads; empty: moss
	Log       zerolog.Logger
	Trash     *tree.Trash // for what an earlier engine left; nil: it is deleted at once
	Damage    damaged
}

// damaged takes files that are not what they should be.
type damaged interface {
	SetAside(path string, why error) error
}

// Service builds images. Make one with New; Close it at the end.
type Service struct {
	opt     Options
	cache   *cache
	flights flights
	digests digests

	mu     sync.Mutex // guards closed and adding to the groups below
	closed bool
	builds sync.WaitGroup // calls of Build
	works  sync.WaitGroup // builds whose stages are being carried out

	tending chan struct{}   // holds a token while the cache is put in order
	life    context.Context //nolint:containedctx // of the service itself, for steps that several builds wait for
	end     context.CancelCauseFunc
}

// New returns a service that knows the steps which earlier engines made. ctx bounds the start only.
func New(ctx context.Context, opt Options) (*Service, error) {
	if opt.CacheSize == 0 {
		opt.CacheSize = defaultCacheSize
	}
	if opt.Parallel <= 0 {
		opt.Parallel = max(2, runtime.GOMAXPROCS(0))
	}
	if err := emptyDir(opt.spoolDir(), opt.Trash); err != nil {
		return nil, err
	}
	known, err := openCache(ctx, opt.Dir, opt.Steps, opt.Damage)
	if err != nil {
		return nil, err
	}
	s := &Service{opt: opt, cache: known, tending: make(chan struct{}, 1)}
	s.flights.dir, s.flights.byKey = opt.spoolDir(), map[string]*flight{}
	s.life, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return s, nil
}

// spoolDir is the folder of what is gone with the engine: contexts, downloads and checkouts, outputs.
func (o Options) spoolDir() string { return filepath.Join(o.Dir, "tmp") }

// emptyDir makes an empty folder.
func emptyDir(dir string, trash *tree.Trash) error {
	if err := trash.Take(dir); err != nil {
		return fmt.Errorf("empty the folder of builds: %w", err)
	}
	return os.MkdirAll(dir, 0o700)
}

// errClosing ends what runs when the engine does.
var errClosing = errors.New("the engine is shutting down")

// Stop ends the builds that run and waits until nothing is at work for them. It waits for no client: one may stop in the
// middle of its context, or not read what it is told.
func (s *Service) Stop() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(errClosing)
	s.works.Wait()
	s.flights.background.Wait()
}

// Close is Stop and waits for the calls of Build too.
func (s *Service) Close() {
	s.Stop()
	s.builds.Wait()
	s.flights.background.Wait()
}

// registerWork adds work of a build to a group, unless the service is closed. The caller calls group.Done at its end.
func (s *Service) registerWork(group *sync.WaitGroup) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.Unavailable("%w", errClosing)
	}
	group.Add(1)
	return nil
}

// Result is what the last message of a build tells under aux.
type Result struct {
	ID string // sha256:…
}

// Build makes an image as the request says, tells how far it is, and returns the image's id (sha256:…). Nothing is told
// before the Dockerfile has been read and checked; errors are of the kinds of fault, a RUN that fails is an ExitError. emit
// is called by the caller's goroutine alone. The end of ctx ends the build: at once and so that nothing of it is left but the
// steps that were done.
func (s *Service) Build(ctx context.Context, req Request, emit func(image.Progress)) (id string, err error) {
	if err := s.registerWork(&s.builds); err != nil {
		return "", err
	}
	defer s.builds.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(errClosing) })() //nolint:contextcheck // the service has a life of its own
	b, err := s.prepareBuild(ctx, req)
	if err != nil {
		return "", err
	}
	defer b.release()
	id, err = b.run(ctx, emit)
	s.cache.recordUse(b.listHeldImages(), time.Now())
	s.maintainCache()
	return id, err
}
