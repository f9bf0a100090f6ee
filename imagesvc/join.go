package imagesvc

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"

	"moss/storage"
)

// DefaultDownloads is how many layers are fetched at the same time if nothing else is said: enough to hide a registry's
// answer times, and not many more than there are processors to unpack them.
func DefaultDownloads() int { return max(3, min(runtime.NumCPU()+1, 6)) }

// blobKey says when two pulls want the same work: the same bytes that unpack to the same layer. nth tells apart the
// places of a layer that an image has several times, since what is staged becomes part of one place only.
type blobKey struct {
	digest digest.Digest
	size   int64
	diffID digest.Digest
	nth    int
}

// flights are the layers under way, for all pulls together. A layer that several pulls want is fetched once, as long as
// one of them still wants it; what it became lies here until a pull has put it into the store for good.
type flights struct {
	slots      *turns        // for the layers that are fetched at the moment
	committing chan struct{} // held by the one pull that takes layers out of flights

	mu sync.Mutex // guards m, and refs of all flights
	m  map[blobKey]*flight
}

func newFlights(downloads int) *flights {
	return &flights{slots: &turns{free: downloads}, committing: make(chan struct{}, 1), m: map[blobKey]*flight{}}
}

// flight is one layer under way.
type flight struct {
	meter

	key   blobKey
	begin sync.Once
	refs  int // pulls that want it; guarded by flights.mu

	stop   context.CancelFunc
	ctx    context.Context //nolint:containedctx // the flight outlives the request that started it
	done   chan struct{}   // closed when staged and err are final, but for what committing does
	err    error
	staged *storage.Staged // changed after done only by who holds committing, or the last to leave
}

// joinFlight returns the flight for a layer, new or under way. Every call is followed by one of leaveFlight.
func (fs *flights) joinFlight(ctx context.Context, key blobKey) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.m[key]
	if f == nil {
		f = &flight{key: key, done: make(chan struct{})}
		// The layer may be wanted by others when the client that came first has gone.
		f.ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
		fs.m[key] = f
	}
	f.refs++
	return f
}

// startFlight does the flight's work if nobody has begun it, and reports whether this call did. work gets the flight's own
// ctx; it runs in a goroutine that leaveFlight ends. end is called behind it, or instead if it is not wanted any more; without
// a goroutine it is called at once.
func (fs *flights) startFlight(f *flight, work func(ctx context.Context, m *meter) (*storage.Staged, error),
	end func(),
) (mine bool) {
	f.begin.Do(func() {
		mine = true
		turn := fs.slots.requestTurn()
		go func() {
			defer close(f.done)
			defer end()
			defer f.stop()
			if f.err = f.waitForTurn(turn); f.err == nil {
				f.staged, f.err = work(f.ctx, &f.meter)
			}
			fs.slots.releaseTurn(turn)
			if f.err != nil {
				fs.forgetFlight(f) // who wants the layer from now on tries again
			}
		}()
	})
	if !mine {
		end()
	}
	return mine
}

// waitForTurn returns when it is the flight's turn, or when nobody wants it any more.
func (f *flight) waitForTurn(turn <-chan struct{}) error {
	select {
	case <-turn:
		return nil
	default:
	}
	f.reachPhase(phaseWaiting)
	select {
	case <-turn:
		return nil
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
}

// forgetFlight keeps new pulls from joining.
func (fs *flights) forgetFlight(f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.m[f.key] == f {
		delete(fs.m, f.key)
	}
}

// leaveFlight ends a pull's interest. The last one to leave stops the work, waits for its end and removes what was staged.
func (fs *flights) leaveFlight(f *flight) error {
	fs.mu.Lock()
	f.refs--
	last := f.refs == 0
	if last && fs.m[f.key] == f {
		delete(fs.m, f.key)
	}
	fs.mu.Unlock()
	if !last {
		return nil
	}
	f.stop()
	f.begin.Do(func() { close(f.done) }) // nobody began
	<-f.done
	if f.staged == nil {
		return nil
	}
	return f.staged.Discard()
}

// runCommit gives the pull that calls it every flight's layer to itself while put runs. put takes layers from flights and
// says which of them it has spent.
func (fs *flights) runCommit(ctx context.Context, put func() (spent []*flight, err error)) error {
	select {
	case fs.committing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-fs.committing }()
	spent, err := put()
	for _, f := range spent {
		f.staged = nil
		fs.forgetFlight(f)
	}
	return err
}

// turns lets a number of layers at a time be fetched, in the order in which they came: a channel would take them in the
// order in which their goroutines happen to run, and the largest might come last.
type turns struct {
	mu    sync.Mutex // guards the fields below
	free  int
	queue []chan struct{}
}

// requestTurn takes a place and returns what is closed when it is its turn. Every call is followed by one of releaseTurn.
func (q *turns) requestTurn() chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn := make(chan struct{})
	if q.free > 0 {
		q.free--
		close(turn)
	} else {
		q.queue = append(q.queue, turn)
	}
	return turn
}

// releaseTurn gives a turn to the next, or a place up that has not come to it.
func (q *turns) releaseTurn(turn chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := slices.Index(q.queue, turn); at >= 0 {
		q.queue = slices.Delete(q.queue, at, at+1)
		return
	}
	if len(q.queue) == 0 {
		q.free++
		return
	}
	close(q.queue[0])
	q.queue = slices.Delete(q.queue, 0, 1)
}
