package build

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/build/worker"
	"moss/engine/fault"
)

// fill builds n images of one step each; only steps stay, as after rmi of results without their parents.
func (r *rig) fill(n int) []string {
	r.t.Helper()
	ids := make([]string, 0, n)
	for i := range n {
		got := r.must(request(fmt.Sprintf("FROM base\nRUN command %d\n", i), nil))
		ids = append(ids, got.id)
		r.service.flights.background.Wait()
		r.images.mu.Lock()
		delete(r.images.result, got.id)
		r.images.mu.Unlock()
		time.Sleep(time.Hour)
	}
	return ids
}

// here tells which of the images are still there.
func (r *rig) here(ids []string) []int {
	r.images.mu.Lock()
	defer r.images.mu.Unlock()
	var list []int
	for i, id := range ids {
		if r.images.byID[id] != nil {
			list = append(list, i)
		}
	}
	return list
}

func TestTheCacheIsBoundedBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.service.opt.CacheSize = 30 // three steps of 10
		ids := r.fill(3)
		r.must(request("FROM base\nRUN command 0\n", nil)) // used again: it is a result once more
		r.service.flights.background.Wait()
		delete(r.images.result, ids[0])
		time.Sleep(time.Hour)
		r.must(request("FROM base\nRUN more\n", nil))
		r.service.flights.background.Wait()
		if got := r.here(ids); !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("left %v of three steps within the bound, want all", got)
		}
		r.service.opt.CacheSize = 15
		r.must(request("FROM base\nRUN most\n", nil))
		r.service.flights.background.Wait()
		if got := r.here(ids); !slices.Equal(got, []int{0}) {
			t.Errorf("left %v, want the one that was used last", got)
		}
		r.service.Close()
	})
}

func TestTheCacheIsBoundedByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ids := r.fill(2)
		time.Sleep(cacheAge - 90*time.Minute)
		r.must(request("FROM base\nRUN more\n", nil))
		r.service.flights.background.Wait()
		if got := r.here(ids); !slices.Equal(got, []int{1}) {
			t.Errorf("left %v, want the younger one", got)
		}
		r.service.Close()
	})
}

func TestUsesSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ids := r.fill(2)
		r.must(request("FROM base\nRUN command 0\n", nil))
		r.service.flights.background.Wait()
		delete(r.images.result, ids[0])
		r.open()
		records, err := r.service.Usage(t.Context())
		if err != nil || len(records) != 2 || records[0].ID != ids[0] || records[0].Used != 2 || records[1].Used != 1 {
			t.Errorf("Usage = %+v, %v; want %s, used twice, first", records, err, ids[0])
		}
		r.service.Close()
	})
}

func TestPrune(t *testing.T) {
	for _, tc := range []struct {
		name    string
		opts    PruneOptions
		want    []int
		bytes   int64
		folders int
	}{
		{"all that nothing needs", PruneOptions{}, []int{2}, 40, 1},
		{"folders too", PruneOptions{All: true}, []int{2}, 47, 0},
		{"keep", PruneOptions{Keep: 25}, []int{2}, 20, 1},
		{"keep all, folders too", PruneOptions{All: true, Keep: 47}, []int{0, 1, 2}, 0, 1},
		{"keep less than the folders", PruneOptions{All: true, Keep: 6}, []int{2}, 47, 0},
		{"keep the folders", PruneOptions{All: true, Keep: 7}, []int{2}, 40, 1},
		{"a bound, folders too", PruneOptions{All: true, MaxUsed: 25}, []int{2}, 30, 1},
		{"room that is there, folders too", PruneOptions{All: true, MinFree: 1}, []int{0, 1, 2}, 0, 1},
		{"a bound", PruneOptions{MaxUsed: 25}, []int{2}, 20, 1},
		{"a bound below what is kept", PruneOptions{MaxUsed: 5, Keep: 25}, []int{2}, 20, 1},
		{"room that is there", PruneOptions{MinFree: 1}, []int{0, 1, 2}, 0, 1},
		{"room that no disk has", PruneOptions{MinFree: 1 << 62}, []int{2}, 40, 1},
		{"room, but some is kept", PruneOptions{MinFree: 1 << 62, Keep: 25}, []int{2}, 20, 1},
		{"until", PruneOptions{Filters: map[string][]string{"until": {"150m"}}}, []int{1, 2}, 10, 1},
		{"steps alone", PruneOptions{All: true, Filters: map[string][]string{"type": {"regular"}}}, []int{2}, 40, 1},
		{"folders alone", PruneOptions{All: true, Filters: map[string][]string{"type": {"exec.cachemount"}}}, []int{0, 1, 2}, 7, 0},
		{"folders by their type", PruneOptions{Filters: map[string][]string{"type": {"exec.cachemount"}}}, []int{0, 1, 2}, 7, 0},
		{"a folder by its id", PruneOptions{Filters: map[string][]string{"id": {"fold"}}}, []int{0, 1, 2}, 7, 0},
		{"a folder, but all may stay", PruneOptions{Keep: 47, Filters: map[string][]string{"id": {"fold"}}}, []int{0, 1, 2}, 0, 1},
		{"what is shared", PruneOptions{All: true, Filters: map[string][]string{"shared": {"true"}}}, []int{0, 1, 2}, 0, 1},
		{"what is not shared", PruneOptions{All: true, Filters: map[string][]string{"private": {"1"}, "inuse": {"0"}}}, []int{2}, 47, 0},
		{"by its instruction", PruneOptions{Filters: map[string][]string{"description": {"no such"}}}, []int{0, 1, 2}, 0, 1},
		{"by its last use", PruneOptions{Filters: map[string][]string{"unused-for": {"150m"}}}, []int{1, 2}, 10, 1},
		{"by a label", PruneOptions{All: true, Filters: map[string][]string{"label": {"x"}}}, []int{0, 1, 2}, 0, 1},
		{"without a label", PruneOptions{Filters: map[string][]string{"label!": {"x"}}}, []int{2}, 40, 1},
		{"by its parent", PruneOptions{Filters: map[string][]string{"parent": {"no such"}}}, []int{0, 1, 2}, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.caches.list = []worker.Cache{{ID: "folder", Bytes: 7}}
				ids := r.fill(2)
				// Of the next one the result stays; the last has several steps without a result.
				ids = append(ids, r.must(request("FROM base\nRUN needed\nRUN result\n", nil)).id)
				chain := r.must(request("FROM base\nRUN x\nENV A=1\nRUN y\n", nil))
				r.service.flights.background.Wait()
				delete(r.images.result, chain.id)
				time.Sleep(time.Hour)
				got, err := r.service.Prune(t.Context(), tc.opts)
				if err != nil {
					t.Fatal(err)
				}
				if records, err := r.service.Usage(t.Context()); err != nil || tc.bytes >= 40 && len(records) != 2+tc.folders {
					t.Errorf("after it the cache holds %+v, %v; want the two steps of the result alone", records, err)
				}
				if left := r.here(ids); !slices.Equal(left, tc.want) || got.Bytes != tc.bytes || len(r.caches.list) != tc.folders {
					t.Errorf("left %v and %d folders after %+v; want %v, %d and %d bytes", left, len(r.caches.list), got, tc.want, tc.folders, tc.bytes)
				}
				r.must(request("FROM base\nRUN x\nENV A=1\nRUN y\n", nil)) // what is gone is not found
				r.idle()
				r.service.Close()
			})
		})
	}
}

func TestPruneRefusesUnknownFilters(t *testing.T) {
	r := newRig(t)
	for key, values := range map[string][]string{"x": {"y"}, "type": {"regular", "source.local"}, "inuse": {"perhaps"}, "until": {"never"}} {
		if _, err := r.service.Prune(t.Context(), PruneOptions{Filters: map[string][]string{key: values}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, want an invalid fault", key, err)
		}
	}
}

func TestAStepThatWasRemovedIsMadeAgain(t *testing.T) {
	r := newRig(t)
	first := r.must(request("FROM base\nRUN one\n", nil))
	delete(r.images.byID, first.id)
	delete(r.images.keys, first.id)
	if r.must(request("FROM base\nRUN one\n", nil)); r.runner.count != 2 {
		t.Errorf("%d commands ran, want 2", r.runner.count)
	}
}
