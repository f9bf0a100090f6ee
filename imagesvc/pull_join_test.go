package imagesvc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/image"
)

// gated holds the first layer of an image back until the gate is closed, and tells how many pulls have joined it.
func gated(reg *stock, g *goods) (gate chan struct{}) {
	gate = make(chan struct{})
	first := g.layers[0]["digest"].(digest.Digest).String()
	reg.spoil = func(w http.ResponseWriter, r *http.Request, what string) bool {
		if what != "blobs/"+first {
			return false
		}
		slow(w, reg.blobs[first], gate, r)
		return true
	}
	return gate
}

func TestPullsJoin(t *testing.T) {
	reg := newStock(t)
	s, _, _ := puller(t, nil)
	base := oneFile(t, "base", 300_000)
	g := reg.pack(base, oneFile(t, "one", 10))
	_, config := reg.put(g, "one")
	reg.put(reg.pack(base, oneFile(t, "two", 10)), "two")
	gate := gated(reg, g)

	// Three pulls of one image and one of another over the same layer. The gate opens when all of them see it come.
	var seen, done sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		tag := "one"
		if i == 3 {
			tag = "two"
		}
		seen.Add(1)
		var once sync.Once
		done.Go(func() {
			errs[i] = s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: tag}, func(p image.Progress) {
				if p.ID == blobID(g, 0) && p.Status == "Downloading" && p.Current > 0 {
					once.Do(seen.Done)
				}
			})
		})
	}
	seen.Wait()
	close(gate)
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, l := range g.layers {
		if n := reg.count("blobs/" + l["digest"].(digest.Digest).String()); n != 1 {
			t.Errorf("layer %v was fetched %d times, want once", l["digest"], n)
		}
	}
	if img, err := s.Get(t.Context(), reg.repo()+":one"); err != nil || img.ID != config.String() {
		t.Errorf("Get = %v, %v", img, err)
	}
	if _, err := s.Get(t.Context(), reg.repo()+":two"); err != nil {
		t.Error(err)
	}
	noFlights(t, s)
}

func TestPullGoesOnWithoutTheFirst(t *testing.T) {
	reg := newStock(t)
	s, _, _ := puller(t, nil)
	g := reg.pack(oneFile(t, "base", 300_000))
	reg.put(g, "v")
	gate := gated(reg, g)
	coming := func(then func()) func(image.Progress) {
		var once sync.Once
		return func(p image.Progress) {
			if p.Status == "Downloading" && p.Current > 0 {
				once.Do(then)
			}
		}
	}
	opts := image.PullOptions{Repo: reg.repo(), Tag: "v"}
	ctx, cancel := context.WithCancel(t.Context())
	began, joined := make(chan struct{}), make(chan struct{})
	var first, second error
	var done sync.WaitGroup
	done.Go(func() { first = s.Pull(ctx, opts, coming(func() { close(began) })) })
	<-began
	done.Go(func() { second = s.Pull(t.Context(), opts, coming(func() { close(joined) })) })
	<-joined
	cancel()
	for s.flightRefs() > 1 { // until the first has left
		runtime.Gosched()
	}
	close(gate)
	done.Wait()
	if !errors.Is(first, context.Canceled) || second != nil {
		t.Errorf("the cancelled pull = %v, the other = %v, want cancelled and nil", first, second)
	}
	if n := reg.count("blobs/" + g.layers[0]["digest"].(digest.Digest).String()); n != 1 {
		t.Errorf("the layer was fetched %d times, want once", n)
	}
	noFlights(t, s)
}

// flightRefs returns how many pulls want the layers under way.
func (s *Service) flightRefs() (n int) {
	s.flights.mu.Lock()
	defer s.flights.mu.Unlock()
	for _, f := range s.flights.m {
		n += f.refs
	}
	return n
}

// TestPullTriesItself: what another pull could not bring is no failure of this one.
func TestPullTriesItself(t *testing.T) {
	reg := newStock(t)
	s, _, _ := puller(t, nil)
	g := reg.pack(oneFile(t, "base", 300_000))
	reg.put(g, "v")
	layer := g.layers[0]["digest"].(digest.Digest).String()
	gate := make(chan struct{})
	reg.spoil = func(w http.ResponseWriter, r *http.Request, what string) bool {
		if what != "blobs/"+layer || reg.count(what) > 1 {
			return false
		}
		raw := append([]byte(nil), reg.blobs[layer]...)
		raw[len(raw)-1] ^= 1
		slow(w, raw, gate, r)
		return true
	}
	var seen, done sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		seen.Add(1)
		var once sync.Once
		done.Go(func() {
			errs[i] = s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "v"}, func(p image.Progress) {
				if p.Status == "Downloading" && p.Current > 0 {
					once.Do(seen.Done)
				}
			})
		})
	}
	seen.Wait()
	close(gate)
	done.Wait()
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
			if !strings.Contains(err.Error(), "verification failed") {
				t.Error(err)
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d of 3 pulls failed, want the one that fetched what was spoilt: %v", failed, errs)
	}
	noFlights(t, s)
}

// TestPullsOfManyImages pulls images that share layers in different orders, all at once, while others remove them.
func TestPullsOfManyImages(t *testing.T) {
	reg := newStock(t)
	s, _, _ := puller(t, func(o *Options) { o.MaxDownloads = 2 })
	parts := make([][]byte, 4)
	for i := range parts {
		parts[i] = oneFile(t, fmt.Sprintf("part%d", i), 20_000)
	}
	for i := range parts {
		reg.put(reg.pack(parts[i], parts[(i+1)%4], parts[(i+2)%4]), fmt.Sprintf("v%d", i))
	}
	var done sync.WaitGroup
	for i := range 12 {
		done.Go(func() {
			tag := fmt.Sprintf("v%d", i%4)
			if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: tag}, nil); err != nil {
				t.Errorf("pull %d: %v", i, err)
			}
			if i >= 8 {
				// It may be gone already: others remove the same.
				_, _ = s.Remove(t.Context(), reg.repo()+":"+tag, image.RemoveOptions{Force: true})
			}
		})
	}
	done.Wait()
	noFlights(t, s, 2)
	for i := range 4 {
		if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: fmt.Sprintf("v%d", i)}, nil); err != nil {
			t.Error(err)
		}
	}
	list, err := s.List(t.Context(), image.ListOptions{})
	if err != nil || len(list) != 4 {
		t.Errorf("List = %d images, %v, want 4", len(list), err)
	}
}
