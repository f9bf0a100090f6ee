package build

import (
	"context"
	"errors"
	"sync"

	"moss/engine/image"
)

// errNobodyWaits ends a step whose last build has been given up.
var errNobodyWaits = errors.New("the build was given up")

// flights are the steps that are being carried out, so that builds which want the same at the same time share one.
type flights struct {
	dir string // for what they tell

	mu    sync.Mutex // guards byKey and the numbers of its flights
	byKey map[string]*flight

	background sync.WaitGroup
}

// flight is one step that is being carried out.
type flight struct {
	output *output
	cancel context.CancelCauseFunc

	waiting int // builds that want the result
	reading int // transcripts that show the output, and the step itself

	done  chan struct{} // closed at the end; the fields below hold then
	image *image.Image
	err   error
}

// flown carries a step out. What it writes is for all who wait.
type flown func(ctx context.Context, out *output) (*image.Image, error)

// joinOrStart returns the flight of key. If there is none, it starts one with do: beside the caller, until it is done or nobody
// waits any more. known is asked first for the image that an earlier flight has made: its id is returned then. began is called
// before do, and what it returns after it.
func (f *flights) joinOrStart(
	life context.Context, key string, known func() string, began func() (ended func()), do flown,
) (*flight, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.byKey[key]; ok {
		fl.waiting++
		fl.reading++
		return fl, ""
	}
	if id := known(); id != "" {
		return nil, id
	}
	ctx, cancel := context.WithCancelCause(life)
	fl := &flight{output: newOutput(f.dir), cancel: cancel, waiting: 1, reading: 2, done: make(chan struct{})}
	f.byKey[key] = fl
	ended := began()
	f.background.Go(func() {
		defer ended()
		defer f.releaseReader(fl)
		defer cancel(nil)
		fl.err = catchPanic(func() (err error) { fl.image, err = do(ctx, fl.output); return err })
		fl.output.close()
		f.mu.Lock()
		if f.byKey[key] == fl {
			delete(f.byKey, key)
		}
		f.mu.Unlock()
		close(fl.done)
	})
	return fl, ""
}

// waitForResult returns the result of the step. The last one whose ctx ends cancels it, and waits until nothing of it is left.
func (f *flights) waitForResult(ctx context.Context, key string, fl *flight) (*image.Image, error) {
	select {
	case <-fl.done:
		return fl.image, fl.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	fl.waiting--
	last := fl.waiting == 0
	if last && f.byKey[key] == fl {
		delete(f.byKey, key) // who comes now begins anew
	}
	f.mu.Unlock()
	if last {
		fl.cancel(errNobodyWaits)
		<-fl.done
	}
	return nil, context.Cause(ctx)
}

// releaseReader records that one reader of the output has ended. The last one frees the output.
func (f *flights) releaseReader(fl *flight) {
	f.mu.Lock()
	fl.reading--
	last := fl.reading == 0
	f.mu.Unlock()
	if last {
		fl.output.freeSpool()
	}
}
