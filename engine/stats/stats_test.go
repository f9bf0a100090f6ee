package stats

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/task"
)

// fakeContainers holds one container, whose processes are those of a proc tree.
type fakeContainers struct {
	task.Task
	mu       sync.Mutex // guards the fields below
	record   *container.Record
	readings int  // how often its processes were asked for
	ended    bool // its processes have gone, and its record does not say so yet
}

func (f *fakeContainers) Get(string) (*container.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.record == nil {
		return nil, fault.NotFound("No such container: web")
	}
	return f.record, nil
}

func (f *fakeContainers) Running(ref string) (*container.Record, task.Task, error) {
	r, err := f.Get(ref)
	if err == nil && !r.State.HasProcess() {
		err = container.NotRunning(ref)
	}
	return r, f, err
}

func (f *fakeContainers) Pids(context.Context) ([]int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readings++
	if f.ended {
		return nil, container.NotRunning("task")
	}
	return []int{42}, nil
}

func (f *fakeContainers) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readings
}

// set replaces the container; nil removes it.
func (f *fakeContainers) set(r *container.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record = r
}

func running(startedAt time.Time) *container.Record {
	return &container.Record{ID: ctrID, Name: "web", State: container.Running, Pid: 42, StartedAt: startedAt}
}

// newService makes a service with one running container. It is called outside of bubbles: it writes files.
func newService(t *testing.T) (*Service, *fakeContainers) {
	t.Helper()
	dir := t.TempDir()
	plant(t, dir, machine())
	f := &fakeContainers{record: running(time.Unix(1448064000, 0))}
	return New(Options{Containers: f, Cgroups: t.TempDir(), Proc: dir}), f
}

func TestOnce(t *testing.T) {
	s, f := newService(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		got, err := s.Once(t.Context(), "web", false)
		if err != nil || got.ID != ctrID || got.Name != "web" || got.CPU.Total == 0 || got.PreviousCPU.Total == 0 {
			t.Fatalf("Once = %+v, %v", got, err)
		}
		if between := got.Read.Sub(got.PreviousRead); between != time.Second || time.Since(begin) != time.Second || f.count() != 2 {
			t.Errorf("Once took %v and %d readings %v apart, want two a second apart", time.Since(begin), f.count(), between)
		}
		if len(s.samplers) != 0 {
			t.Errorf("%d samplers are left", len(s.samplers))
		}
	})
}

// TestOnceAtOnce takes what the first look gives: nothing comes before it.
func TestOnceAtOnce(t *testing.T) {
	s, f := newService(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		got, err := s.Once(t.Context(), "web", true)
		if err != nil || got.CPU.Total == 0 || !got.PreviousRead.IsZero() || time.Since(begin) != 0 || f.count() != 1 {
			t.Errorf("Once = %+v, %v after %v and %d readings, want the first at once", got, err, time.Since(begin), f.count())
		}
	})
}

// TestOnceAtTheEnd asks for the use of a container whose process has ended a moment ago.
func TestOnceAtTheEnd(t *testing.T) {
	s, f := newService(t)
	f.ended = true
	got, err := s.Once(t.Context(), "web", false)
	if want := (&Sample{ID: ctrID, Name: "web"}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Once = %+v, %v, want zeros", got, err)
	}
}

func TestOnceWithoutProcess(t *testing.T) {
	s, f := newService(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		for _, state := range []container.State{container.Created, container.Exited, container.Restarting, container.Dead} {
			f.set(&container.Record{ID: ctrID, Name: "web", State: state})
			got, err := s.Once(t.Context(), "web", false)
			if want := (&Sample{ID: ctrID, Name: "web"}); err != nil || !reflect.DeepEqual(got, want) || time.Since(begin) != 0 {
				t.Errorf("%s: Once = %+v, %v after %v, want zeros at once", state, got, err, time.Since(begin))
			}
		}
		f.set(nil)
		if got, err := s.Once(t.Context(), "web", false); !fault.Is(err, fault.NotFound) {
			t.Errorf("Once of none = %+v, %v, want fault.NotFound", got, err)
		}
	})
}

func TestOnceIsCancelled(t *testing.T) {
	s, _ := newService(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := s.Once(ctx, "web", false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Once = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// TestWatchShares has viewers come and go: each gets a sample at once and one each second, and all of them share the
// readings.
func TestWatchShares(t *testing.T) {
	s, f := newService(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		view := func(after, during time.Duration) (at []time.Duration) {
			time.Sleep(after)
			ctx, cancel := context.WithTimeout(t.Context(), during)
			defer cancel()
			err := s.Watch(ctx, "web", func(sample *Sample) error {
				at = append(at, time.Since(begin))
				if age := time.Since(sample.Read); age >= period || len(at) > 1 && sample.Read.Sub(sample.PreviousRead) != period {
					t.Errorf("sample at %v is %v old and follows one of %v before", time.Since(begin), age, sample.Read.Sub(sample.PreviousRead))
				}
				return nil
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Watch = %v", err)
			}
			return at
		}
		const ms = time.Millisecond
		for _, tc := range []struct {
			after, during time.Duration
			want          []time.Duration
		}{
			{0, 2100 * ms, []time.Duration{0, 1000 * ms, 2000 * ms}}, // it leaves the others alone
			{300 * ms, 4000 * ms, []time.Duration{300 * ms, 1000 * ms, 2000 * ms, 3000 * ms, 4000 * ms}},
			{1500 * ms, 3000 * ms, []time.Duration{1500 * ms, 2000 * ms, 3000 * ms, 4000 * ms}},
		} {
			go func() {
				if at := view(tc.after, tc.during); !reflect.DeepEqual(at, tc.want) {
					t.Errorf("viewer from %v on got samples at %v, want %v", tc.after, at, tc.want)
				}
			}()
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if f.count() != 5 || len(s.samplers) != 0 {
			t.Errorf("%d readings and %d samplers left, want 5 and none", f.count(), len(s.samplers))
		}
	})
}

// TestSlowViewer looks away for longer than a reading is worth anything.
func TestSlowViewer(t *testing.T) {
	s, f := newService(t)
	synctest.Test(t, func(t *testing.T) {
		var ages []string
		err := s.Watch(t.Context(), "web", func(sample *Sample) error {
			ages = append(ages, fmt.Sprint(time.Since(sample.Read), sample.PreviousRead.IsZero()))
			switch len(ages) {
			case 1:
				time.Sleep(3 * time.Second)
			case 2:
				time.Sleep(time.Minute)
			case 3:
				return errEnough
			}
			return nil
		})
		if want := []string{"0s true", "0s false", "0s true"}; !errors.Is(err, errEnough) || !reflect.DeepEqual(ages, want) || f.count() != 3 {
			t.Errorf("Watch = %v with ages %q in %d readings, want %q", err, ages, f.count(), want)
		}
	})
}

// TestWatchThroughLife has the container end, start again and be removed.
func TestWatchThroughLife(t *testing.T) {
	s, f := newService(t)
	synctest.Test(t, func(t *testing.T) {
		start := f.record.StartedAt
		var seen []string
		done := make(chan error)
		go func() {
			done <- s.Watch(t.Context(), "web", func(sample *Sample) error {
				seen = append(seen, told(sample))
				return nil
			})
		}()
		time.Sleep(1500 * time.Millisecond)
		f.set(&container.Record{ID: ctrID, Name: "web", State: container.Exited})
		time.Sleep(time.Second)
		f.set(running(start.Add(time.Minute)))
		time.Sleep(2 * time.Second)
		f.set(running(start.Add(time.Hour))) // another process at once
		time.Sleep(time.Second)
		f.set(nil)
		if err := <-done; err != nil {
			t.Errorf("Watch of a removed container = %v, want its end", err)
		}
		const first, next, none = "read", "read after read", "not read"
		want := []string{first, next, none, first, next, first}
		if !reflect.DeepEqual(seen, want) {
			t.Errorf("samples = %q, want %q", seen, want)
		}
	})
}

func told(s *Sample) string {
	switch {
	case s.Read.IsZero():
		return "not read"
	case s.PreviousRead.IsZero():
		return "read"
	default:
		return "read after read"
	}
}
