package imagesvc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// faulty is a store that fails where a test says so.
type faulty struct {
	*storage.Store

	put  func(p storage.Pulled) error // before the store's own; nil: never fails
	room error
}

func (f *faulty) PutPulled(ctx context.Context, p storage.Pulled) (*image.Image, error) {
	if f.put != nil {
		if err := f.put(p); err != nil {
			return nil, err
		}
	}
	return f.Store.PutPulled(ctx, p)
}

func (f *faulty) Room(bytes, files int64) error {
	if f.room != nil {
		return f.room
	}
	return f.Store.Room(bytes, files)
}

func faultyPuller(t *testing.T) (*Service, *faulty) {
	t.Helper()
	s, st, _ := puller(t, nil)
	f := &faulty{Store: st}
	s.store = partsOf(f)
	return s, f
}

func TestPullWhenLayersGo(t *testing.T) {
	reg := newStock(t)
	s, f := faultyPuller(t)
	g := reg.pack(oneFile(t, "a", 1000), oneFile(t, "b", 1000))
	reg.put(g, "v")
	opts := image.PullOptions{Repo: reg.repo(), Tag: "v"}
	tries := 0
	f.put = func(storage.Pulled) error { // for ever
		tries++
		return storage.ErrLayersGone
	}
	if err := s.Pull(t.Context(), opts, nil); !errors.Is(err, storage.ErrLayersGone) || tries != maxRounds {
		t.Errorf("Pull = %v after %d tries, want %v after %d", err, tries, storage.ErrLayersGone, maxRounds)
	}
	nothingLeft(t, f.Store)
	noFlights(t, s)
	before := reg.count("blobs/*")
	tries = 0
	f.put = func(storage.Pulled) error { // once
		if tries++; tries == 1 {
			return storage.ErrLayersGone
		}
		return nil
	}
	if err := s.Pull(t.Context(), opts, nil); err != nil || tries != 2 {
		t.Errorf("Pull = %v after %d tries, want nil after 2", err, tries)
	}
	if n := reg.count("blobs/*") - before; n != 3 {
		t.Errorf("%d blobs were fetched, want the config and each layer once", n)
	}
}

// TestPullWithoutRoom: the store says so before anything is fetched.
func TestPullWithoutRoom(t *testing.T) {
	reg := newStock(t)
	s, f := faultyPuller(t)
	g := reg.pack(oneFile(t, "a", 1000))
	reg.put(g, "v")
	f.room = fault.Internal("no room")
	err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "v"}, nil)
	if !errors.Is(err, f.room) || reg.count("blobs/"+g.layers[0]["digest"].(digest.Digest).String()) != 0 {
		t.Errorf("Pull = %v, want the store's error and no layer fetched", err)
	}
	nothingLeft(t, f.Store)
	noFlights(t, s)
}

// TestPullAfterAnothersPutFailed: what was staged goes with a failure to put it, and who waited for it fetches again.
func TestPullAfterAnothersPutFailed(t *testing.T) {
	reg := newStock(t)
	s, f := faultyPuller(t)
	g := reg.pack(oneFile(t, "base", 300_000))
	reg.put(g, "v")
	gate := gated(reg, g)
	var puts atomic.Int32
	f.put = func(p storage.Pulled) error {
		if puts.Add(1) > 1 {
			return nil
		}
		for _, staged := range p.Layers {
			if err := staged.Discard(); err != nil {
				t.Error(err)
			}
		}
		return fault.Internal("the disk is full")
	}
	errs := make(chan error, 2)
	seen := make(chan struct{}, 2)
	for range 2 {
		go func() {
			told := false
			errs <- s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "v"}, func(p image.Progress) {
				if !told && p.Status == "Downloading" && p.Current > 0 {
					told = true
					seen <- struct{}{}
				}
			})
		}()
	}
	<-seen
	<-seen
	close(gate)
	one, two := <-errs, <-errs
	if (one == nil) == (two == nil) {
		t.Errorf("the pulls = %v and %v, want one failure", one, two)
	}
	if _, err := s.Get(t.Context(), reg.repo()+":v"); err != nil {
		t.Error(err)
	}
	noFlights(t, s)
}

// TestPullWaits: with one slot the second layer waits, and the client is told.
func TestPullWaits(t *testing.T) {
	reg := newStock(t)
	s, _, _ := puller(t, func(o *Options) { o.MaxDownloads = 1 })
	g := reg.pack(oneFile(t, "large", 300_000), oneFile(t, "b", 10))
	reg.put(g, "v")
	gate := gated(reg, g)
	other := "blobs/" + g.layers[1]["digest"].(digest.Digest).String()
	waited := false
	var shown lines
	err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "v"}, func(p image.Progress) {
		shown.add(p)
		if p.Status == "Waiting" && !waited {
			waited = true
			if p.ID != blobID(g, 1) || reg.count(other) != 0 {
				t.Errorf("layer %s waits, and the small one was asked for %d times", p.ID, reg.count(other))
			}
			close(gate)
		}
	})
	if err != nil || !waited {
		t.Errorf("Pull = %v, progress:\n%s", err, shown.once())
	}
}

func TestTell(t *testing.T) {
	var m meter
	l := layerLine{id: "id", total: 100}
	var shown []image.Progress
	tell := func() string {
		shown = nil
		l.reportChanges(&m, func(p image.Progress) { shown = append(shown, p) })
		words := make([]string, 0, len(shown))
		for _, p := range shown {
			words = append(words, p.Status)
		}
		return strings.Join(words, ", ")
	}
	for _, tc := range []struct {
		reach phase
		bytes int64
		want  string
	}{
		{phaseKnown, 0, ""},
		{phaseWaiting, 0, "Waiting"},
		{phaseDownloading, 10, "Downloading"},
		{phaseDownloading, 10, ""},
		{phaseDownloading, 60, "Downloading"},
		{phaseKnown, 60, ""}, // it never goes back
		{phaseStaged, 100, "Verifying Checksum, Download complete, Extracting"},
		{phaseStaged, 100, ""},
	} {
		m.reachPhase(tc.reach)
		m.bytes.Store(tc.bytes)
		if got := tell(); got != tc.want {
			t.Errorf("at %s with %d bytes: told %q, want %q", tc.reach, tc.bytes, got, tc.want)
		}
		if len(shown) > 0 && shown[0].Status == "Downloading" && (shown[0].Current != tc.bytes || shown[0].Total != 100) {
			t.Errorf("told %+v, want %d of 100", shown[0], tc.bytes)
		}
	}
	l.reportEnd(&m, func(p image.Progress) { shown = append(shown, p) })
	if len(shown) != 1 || shown[0].Status != "Pull complete" {
		t.Errorf("finish told %+v", shown)
	}
}

// TestFlightsLeave: a flight that nobody began ends with the last who left, and so does one that waits for a slot.
func TestFlightsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFlights(1)
		before := fs.slots.requestTurn()
		key := blobKey{size: 1}
		a, b := fs.joinFlight(t.Context(), key), fs.joinFlight(t.Context(), key)
		if a != b {
			t.Fatal("two flights for one layer")
		}
		if err := fs.leaveFlight(a); err != nil || len(fs.m) != 1 {
			t.Errorf("leave of one of two = %v, %d flights", err, len(fs.m))
		}
		ended := 0
		work := func(context.Context, *meter) (*storage.Staged, error) {
			t.Error("worked without a slot")
			return nil, nil
		}
		if !fs.startFlight(a, work, func() { ended++ }) || fs.startFlight(a, work, func() { ended++ }) {
			t.Error("the first start is to work, and the second is not")
		}
		synctest.Wait()
		if phase(a.at.Load()) != phaseWaiting {
			t.Errorf("the flight is at %s, want waiting", phase(a.at.Load()))
		}
		if err := fs.leaveFlight(b); err != nil || len(fs.m) != 0 || ended != 2 || !errors.Is(b.err, context.Canceled) {
			t.Errorf("leave of the last = %v, %d flights, %d of 2 ends, the flight's error %v", err, len(fs.m), ended, b.err)
		}
		fs.slots.releaseTurn(before)
		if fs.slots.free != 1 {
			t.Errorf("%d slots free, want all", fs.slots.free)
		}
		c := fs.joinFlight(t.Context(), key)
		if err := fs.leaveFlight(c); err != nil || len(fs.m) != 0 {
			t.Errorf("leave of what was not begun = %v, %d flights", err, len(fs.m))
		}
	})
}

func TestTurns(t *testing.T) {
	q := &turns{free: 1}
	is := func(turn chan struct{}) bool {
		select {
		case <-turn:
			return true
		default:
			return false
		}
	}
	a, b, c, d := q.requestTurn(), q.requestTurn(), q.requestTurn(), q.requestTurn()
	if !is(a) || is(b) {
		t.Error("the first is not the only one")
	}
	q.releaseTurn(c) // gave up
	q.releaseTurn(a)
	if !is(b) || is(d) {
		t.Error("it is not the second one's turn alone")
	}
	q.releaseTurn(b)
	q.releaseTurn(d)
	if q.free != 1 || !is(d) || is(c) {
		t.Errorf("%d free at the end, want 1", q.free)
	}
}

func TestLeaseCloses(t *testing.T) {
	src := &closing{}
	l := newLease(src)
	l.addUser()
	l.release()
	if src.closed != 0 {
		t.Error("closed while somebody has it")
	}
	l.release()
	if src.closed != 1 {
		t.Errorf("closed %d times, want once", src.closed)
	}
}

type closing struct {
	source

	closed int
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

// TestPullStopsReading: a cancelled pull ends its connection instead of reading on.
func TestPullStopsReading(t *testing.T) {
	reg := newStock(t)
	s, st, _ := puller(t, nil)
	g := reg.pack(oneFile(t, "a", 300_000))
	reg.put(g, "v")
	gone := make(chan struct{})
	reg.spoil = func(w http.ResponseWriter, r *http.Request, what string) bool {
		if !strings.HasPrefix(what, "blobs/"+g.layers[0]["digest"].(digest.Digest).String()) {
			return false
		}
		slow(w, reg.blobs[g.layers[0]["digest"].(digest.Digest).String()], nil, r)
		close(gone)
		return true
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := s.Pull(ctx, image.PullOptions{Repo: reg.repo(), Tag: "v"}, func(p image.Progress) {
		if p.Status == "Downloading" && p.Current > 0 {
			cancel()
		}
	})
	<-gone
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Pull = %v, want cancelled", err)
	}
	nothingLeft(t, st)
}
