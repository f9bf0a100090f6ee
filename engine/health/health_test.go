package health

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/image"
)

// world is one container that runs, and whose checks answer what the test says.
type world struct {
	mu      sync.Mutex // guards the fields below
	record  *container.Record
	answer  func(ctx context.Context, timeout time.Duration) (int, []byte, error)
	asked   []time.Time
	args    []string
	actions []string
}

func newWorld(check image.Healthcheck) *world {
	r := &container.Record{ID: "c1", Name: "web", State: container.Running, StartedAt: time.Now()}
	r.Config.Healthcheck = &check
	r.Health = container.NewHealth(&r.Config)
	return &world{record: r, answer: gives(0, "fine")}
}

func gives(code int, text string) func(context.Context, time.Duration) (int, []byte, error) {
	return func(context.Context, time.Duration) (int, []byte, error) { return code, []byte(text), nil }
}

func (w *world) Get(string) (*container.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.record, nil
}

func (w *world) SetHealth(began *container.Record, health container.Health) (*container.Record, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.record.StartedAt.Equal(began.StartedAt) {
		return w.record, false, nil
	}
	next := *w.record
	next.Health = &health
	w.record = &next
	return w.record, true, nil
}

func (w *world) Run(ctx context.Context, _ string, args []string, timeout time.Duration, most int) (int, []byte, error) {
	w.mu.Lock()
	w.asked, w.args = append(w.asked, time.Now()), args
	answer := w.answer
	w.mu.Unlock()
	code, out, err := answer(ctx, timeout)
	return code, out[:min(len(out), most)], err
}

func (w *world) Publish(e event.Event) { w.set(func() { w.actions = append(w.actions, e.Action) }) }

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) health() container.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.record.Health
}

func (w *world) times() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.asked)
}

func (w *world) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.actions, "; ")
}

func (w *world) service(t *testing.T) *Service {
	t.Helper()
	s := New(t.Context(), Options{Containers: w, Commands: w, Events: w, Log: zerolog.Nop()})
	t.Cleanup(s.Close)
	return s
}

// after lets time go by and what it brings about happen.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bubble runs a test whose time is its own.
func bubble(t *testing.T, check image.Healthcheck, test func(t *testing.T, w *world, s *Service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(check)
		s := w.service(t)
		test(t, w, s)
		s.Close()
	})
}

func TestHealthyAndBack(t *testing.T) {
	check := image.Healthcheck{Test: []string{"CMD-SHELL", "check"}, Interval: 10 * time.Second, Retries: 2}
	bubble(t, check, func(t *testing.T, w *world, s *Service) {
		s.Began(w.record)
		after(9 * time.Second)
		if got := w.health(); got.Status != "starting" || w.times() != 0 {
			t.Errorf("before the first interval: %+v after %d checks, want starting after none", got, w.times())
		}
		after(time.Second)
		if got := w.health(); got.Status != "healthy" || len(got.Log) != 1 || got.Log[0].Output != "fine" || got.Log[0].ExitCode != 0 {
			t.Errorf("after a good check: %+v, want healthy", got)
		}
		if want := []string{"/bin/sh", "-c", "check"}; !slices.Equal(w.args, want) {
			t.Errorf("command = %q, want %q", w.args, want)
		}
		w.set(func() { w.answer = gives(1, "bad") })
		after(10 * time.Second)
		if got := w.health(); got.Status != "healthy" || got.FailingStreak != 1 {
			t.Errorf("after one failure: %+v, want healthy still", got)
		}
		after(10 * time.Second)
		if got := w.health(); got.Status != "unhealthy" || got.FailingStreak != 2 {
			t.Errorf("after two failures: %+v, want unhealthy", got)
		}
		after(50 * time.Second)
		if got := w.health(); len(got.Log) != 5 || got.FailingStreak != 7 {
			t.Errorf("later: %+v, want the last 5 results and 7 failures", got)
		}
		w.set(func() { w.answer = gives(0, "fine") })
		after(10 * time.Second)
		if got := w.health(); got.Status != "healthy" || got.FailingStreak != 0 {
			t.Errorf("after a good check again: %+v, want healthy", got)
		}
		if got, want := w.said(), "health_status: healthy; health_status: unhealthy; health_status: healthy"; got != want {
			t.Errorf("events = %q, want %q", got, want)
		}
	})
}

func TestStartPeriod(t *testing.T) {
	check := image.Healthcheck{Test: []string{"CMD", "x"}, Interval: time.Second, StartPeriod: 10 * time.Second, Retries: 2}
	bubble(t, check, func(t *testing.T, w *world, s *Service) {
		w.answer = gives(1, "not yet")
		s.Began(w.record)
		after(9500 * time.Millisecond)
		if got := w.health(); got.Status != "starting" || got.FailingStreak != 0 || len(got.Log) != 5 {
			t.Errorf("within the start period: %+v, want starting without failures", got)
		}
		after(2 * time.Second)
		if got := w.health(); got.Status != "unhealthy" || got.FailingStreak != 2 {
			t.Errorf("after it: %+v, want unhealthy", got)
		}
	})
	bubble(t, check, func(t *testing.T, w *world, s *Service) {
		s.Began(w.record)
		after(1500 * time.Millisecond)
		w.set(func() { w.answer = gives(1, "bad") })
		after(2 * time.Second)
		if got := w.health(); got.Status != "unhealthy" {
			t.Errorf("failing after a success within the start period: %+v, want unhealthy", got)
		}
	})
}

// TestStartInterval: checks come more often while a container starts, and as the rest once it is healthy or its time is over.
func TestStartInterval(t *testing.T) {
	check := image.Healthcheck{
		Test: []string{"CMD", "x"}, Interval: time.Minute, StartPeriod: 20 * time.Second, StartInterval: 3 * time.Second, Retries: 1,
	}
	bubble(t, check, func(t *testing.T, w *world, s *Service) {
		w.answer = gives(1, "not yet")
		s.Began(w.record)
		after(7 * time.Second)
		if got := w.health(); got.Status != "starting" || len(got.Log) != 2 {
			t.Errorf("while it starts: %+v, want two checks", got)
		}
		w.set(func() { w.answer = gives(0, "here") })
		after(3 * time.Second)
		if got := w.health(); got.Status != "healthy" || len(got.Log) != 3 {
			t.Errorf("after 10 s: %+v, want healthy", got)
		}
		after(58 * time.Second)
		if got := w.health(); len(got.Log) != 3 {
			t.Errorf("within the interval: %+v, want no check", got)
		}
		after(2 * time.Second)
		if got := w.health(); len(got.Log) != 4 {
			t.Errorf("after the interval: %+v, want a check", got)
		}
	})
}

func TestTimeout(t *testing.T) {
	check := image.Healthcheck{Test: []string{"CMD", "x"}, Interval: time.Second, Timeout: 3 * time.Second, Retries: 1}
	bubble(t, check, func(t *testing.T, w *world, s *Service) {
		w.answer = func(_ context.Context, timeout time.Duration) (int, []byte, error) {
			time.Sleep(timeout)
			return -1, []byte("so far"), context.DeadlineExceeded
		}
		s.Began(w.record)
		after(4 * time.Second)
		got := w.health()
		if got.Status != "unhealthy" || got.Log[0].ExitCode != -1 || got.Log[0].Output != "Health check exceeded timeout (3s): so far" {
			t.Errorf("health = %+v, want unhealthy for the timeout", got)
		}
		if d := got.Log[0].End.Sub(got.Log[0].Start); d != 3*time.Second {
			t.Errorf("the check took %s, want 3s", d)
		}
	})
}

func TestCheckThatCannotRun(t *testing.T) {
	check := image.Healthcheck{Test: []string{"CMD", "x"}, Interval: time.Second, Retries: 1}
	bubble(t, check, func(t *testing.T, w *world, s *Service) {
		w.answer = func(context.Context, time.Duration) (int, []byte, error) {
			return -1, nil, errors.New(strings.Repeat("x", 5000))
		}
		s.Began(w.record)
		after(time.Second)
		if got := w.health(); got.Status != "unhealthy" || got.Log[0].ExitCode != -1 || len(got.Log[0].Output) != 4096 {
			t.Errorf("health = %+v, want a failure with 4096 bytes of why", got)
		}
	})
}

func TestPausedIsNotChecked(t *testing.T) {
	check := image.Healthcheck{Test: []string{"CMD", "x"}, Interval: time.Second, Timeout: time.Minute, Retries: 1}
	bubble(t, check, func(t *testing.T, w *world, s *Service) {
		state := func(state container.State) {
			w.set(func() { r := *w.record; r.State = state; w.record = &r })
		}
		s.Began(w.record)
		state(container.Paused)
		after(5 * time.Second)
		if w.times() != 0 {
			t.Errorf("%d checks of a paused container, want none", w.times())
		}
		w.set(func() {
			w.answer = func(_ context.Context, timeout time.Duration) (int, []byte, error) {
				time.Sleep(timeout)
				return -1, nil, context.DeadlineExceeded
			}
		})
		state(container.Running)
		after(2 * time.Second)
		state(container.Paused) // while a check is at work
		after(2 * time.Minute)
		if got := w.health(); got.Status != "starting" || len(got.Log) != 0 {
			t.Errorf("health = %+v, want a check that was frozen not to count", got)
		}
		w.set(func() {
			w.answer = func(context.Context, time.Duration) (int, []byte, error) {
				return -1, nil, fault.Conflict("Container c1 is paused") // since the look
			}
		})
		state(container.Running)
		after(time.Minute)
		if got := w.health(); len(got.Log) != 0 {
			t.Errorf("health = %+v, want nothing to be learned from a conflict", got)
		}
	})
}

func TestEndsWithTheContainer(t *testing.T) {
	check := image.Healthcheck{Test: []string{"CMD", "x"}, Interval: time.Second}
	bubble(t, check, func(t *testing.T, w *world, s *Service) {
		w.answer = func(ctx context.Context, _ time.Duration) (int, []byte, error) {
			<-ctx.Done()
			return -1, nil, ctx.Err()
		}
		s.Began(w.record)
		after(2 * time.Second)
		s.Ended("c1")
		s.Ended("c1")
		after(time.Minute)
		if got := w.health(); w.times() != 1 || len(got.Log) != 0 {
			t.Errorf("%d checks, health %+v, want one that counts for nothing", w.times(), got)
		}
		w.set(func() {
			r := *w.record
			r.StartedAt, r.Health = time.Now(), container.NewHealth(&r.Config)
			w.record, w.answer = &r, gives(0, "")
		})
		s.Began(w.record)
		s.Began(w.record) // as a new engine may
		after(time.Second)
		if got := w.health(); w.times() != 2 || got.Status != "healthy" {
			t.Errorf("%d checks, health %+v, want the next start checked once", w.times(), got)
		}
	})
}

func TestTheNextEngineGoesOn(t *testing.T) {
	check := image.Healthcheck{Test: []string{"CMD", "x"}, Interval: 10 * time.Second, Retries: 3}
	bubble(t, check, func(t *testing.T, w *world, s *Service) {
		w.answer = gives(1, "bad")
		s.Began(w.record)
		after(25 * time.Second)
		s.Close()
		next := w.service(t)
		next.Began(w.record)
		after(4 * time.Second)
		if w.times() != 2 {
			t.Errorf("%d checks, want the next one 10s after the last", w.times())
		}
		after(time.Second)
		if got := w.health(); got.Status != "unhealthy" || got.FailingStreak != 3 || len(got.Log) != 3 {
			t.Errorf("health = %+v, want three failures over two engines", got)
		}
		next.Close()
		s.Began(w.record) // too late
	})
}

func TestWithoutCheck(t *testing.T) {
	bubble(t, image.Healthcheck{Test: []string{"NONE"}}, func(t *testing.T, w *world, s *Service) {
		s.Began(w.record)
		after(time.Hour)
		if w.times() != 0 || len(s.monitors) != 0 {
			t.Errorf("%d checks, %d monitors, want none", w.times(), len(s.monitors))
		}
	})
}
