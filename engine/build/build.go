package build

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"moss/engine/build/source"
	"moss/engine/dockerfile"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/image"
)

// build is one build that runs.
type build struct {
	s    *Service
	req  Request
	plan *dockerfile.Plan
	tree *source.Tree // what instructions see of the context

	names   []string // of the result, whole
	private string   // tells the steps of this build from the same of others; empty: they may be shared
	limits  string   // digest of what steps of this build run with beside their key
	stages  []*stage // by index; nil: not needed
	console *console
	slots   chan struct{} // holds a token for each step that is at work
	bases   *bases
	sources *pastSources // nil: all of the cache counts

	mu      sync.Mutex // guards the fields below
	holders int        // who needs what undo frees: the build, and steps that other builds wait for too
	undo    []func() error
	kept    map[string]bool // ids of images that are kept
	extra   map[int]*stage  // by index: those that only triggers need
}

// run carries the build out. The client's messages come from the goroutine of the caller.
func (b *build) run(ctx context.Context, emit func(image.Progress)) (string, error) {
	defer b.console.discardUnread()
	if err := b.s.registerWork(&b.s.works); err != nil {
		return "", err
	}
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		failed  = make(chan int, 1) // the stage that ended the build
		stopped = len(b.stages)     // nothing is shown of stages after it
		done    = make(chan error, 1)
	)
	go func() {
		defer b.s.works.Done()
		done <- b.runStages(work, cancel, failed)
	}()
	if b.req.Quiet {
		return b.runQuiet(ctx, done, failed, emit)
	}
	go b.console.sendAll(ctx, func(stage int) bool {
		select {
		case stopped = <-failed:
		default:
		}
		return stage >= stopped
	})
	for p := range b.console.lines {
		emit(p)
	}
	if err := <-done; err != nil {
		return "", err
	}
	result := b.stages[b.plan.Target.Index].image
	if err := b.s.opt.Steps.Finish(ctx, result.ID, b.names); err != nil {
		return "", err
	}
	b.tellResult(result, emit)
	return result.ID, nil
}

// runQuiet tells the id of the result, or all if there is none.
func (b *build) runQuiet(ctx context.Context, done <-chan error, failed <-chan int, emit func(image.Progress)) (string, error) {
	err := <-done
	result := b.stages[b.plan.Target.Index].image
	if err == nil {
		err = b.s.opt.Steps.Finish(ctx, result.ID, b.names)
	}
	if err == nil {
		emit(image.Progress{Stream: result.ID + "\n"})
		return result.ID, nil
	}
	stopped := len(b.stages)
	select {
	case stopped = <-failed:
	default:
	}
	go b.console.sendAll(ctx, func(stage int) bool { return stage >= stopped })
	for p := range b.console.lines {
		emit(p)
	}
	return "", err
}

// tellResult tells the lines that clients look for at the end.
func (b *build) tellResult(result *image.Image, emit func(image.Progress)) {
	if names := b.plan.Unconsumed(); len(names) > 0 {
		emit(image.Progress{Stream: formatUnconsumed(names)})
	}
	emit(image.Progress{Aux: Result{ID: result.ID}})
	emit(image.Progress{Stream: "Successfully built " + id.Short(result.ID) + "\n"})
	for _, name := range b.names {
		emit(image.Progress{Stream: "Successfully tagged " + name + "\n"})
	}
}

// runStages runs the stages: all at once, each waiting for the stages it needs. It returns when nothing runs any more. The
// first error counts; the stage it comes from goes into failed.
func (b *build) runStages(ctx context.Context, cancel context.CancelCauseFunc, failed chan<- int) error {
	defer b.console.close()
	var (
		all   sync.WaitGroup
		once  sync.Once
		first error
	)
	for i, st := range b.stages {
		if st == nil {
			b.console.stages[i].close()
			continue
		}
		all.Go(func() {
			defer b.console.stages[i].close()
			if err := catchPanic(func() error { return st.carryOut(ctx) }); err != nil {
				once.Do(func() {
					first = err
					failed <- i
					cancel(err)
				})
			}
		})
	}
	all.Wait()
	if first == nil && b.stages[b.plan.Target.Index].image == nil {
		return errNoImage
	}
	return first
}

// catchPanic calls do and returns a panic of it as an error: the parsers of Dockerfiles are not all ours, and nothing above a
// stage would catch it.
func catchPanic(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.Internal("the build has come upon a defect of the engine: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}

// errNoImage is what a Dockerfile of FROM scratch alone makes.
var errNoImage = errors.New("No image was generated. Is your Dockerfile empty?") //nolint:staticcheck // as clients know it

// holdImage returns an image and holds it until the build is over. fault.NotFound if it is gone.
func (b *build) holdImage(ctx context.Context, imageID string) (*image.Image, error) {
	b.mu.Lock()
	known := b.kept[imageID]
	b.mu.Unlock()
	if !known {
		release, err := b.s.opt.Images.Hold(ctx, imageID, "used by a build")
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		b.kept[imageID] = true
		b.mu.Unlock()
		b.addCleanup(func() error { release(); return nil })
	}
	return b.s.opt.Images.Get(ctx, imageID)
}

// listHeldImages returns the ids of all images that the build holds, which are those it has used.
func (b *build) listHeldImages() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]string, 0, len(b.kept))
	for imageID := range b.kept {
		ids = append(ids, imageID)
	}
	return ids
}

// addCleanup adds a function that is called when nobody needs the build's things any more.
func (b *build) addCleanup(free func() error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.undo = append(b.undo, free)
}

// retainBuild keeps the build's things until the function that it returns is called.
func (b *build) retainBuild() (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holders++
	return b.release
}

// release frees the build's things if it is the last one's.
func (b *build) release() {
	b.mu.Lock()
	b.holders--
	var undo []func() error
	if b.holders == 0 {
		undo, b.undo = b.undo, nil
	}
	b.mu.Unlock()
	for _, free := range slices.Backward(undo) {
		if err := free(); err != nil {
			b.s.opt.Log.Warn().Err(err).Msg("free what a build used")
		}
	}
}

// creationTime is the time of what the build makes.
func (b *build) creationTime() time.Time {
	if at, ok := b.plan.Epoch(); ok {
		return at
	}
	return time.Now().UTC()
}
