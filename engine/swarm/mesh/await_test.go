package mesh

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, newFakeEngine(), io.Discard)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check(t, m.Await(ctx, nil))
		ended := make(chan error, 1)
		go func() { ended <- m.Await(ctx, []string{"red"}) }()
		m.changeState(func() { m.now.view = view(1) }) // the engine has not got it yet
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("before the engine has the network: %v", err)
		default:
		}
		m.changeState(func() { m.now.hosted = view(1) })
		check(t, <-ended)

		begun := time.Now()
		err := m.Await(ctx, []string{"red", "blue"})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "network blue") || time.Since(begun) != time.Minute {
			t.Errorf("a network that does not come: %v after %v", err, time.Since(begun))
		}
	})
}

func TestTakenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, newFakeEngine(), io.Discard)
		takes := func(task string, meanwhile ...func()) time.Duration {
			begun := time.Now()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				m.TakenOut(t.Context(), task)
			}()
			for _, do := range meanwhile {
				time.Sleep(100 * time.Millisecond)
				m.changeState(do)
				synctest.Wait()
			}
			<-ended
			return time.Since(begun)
		}
		if got := takes("t1"); got != 0 {
			t.Errorf("without a view it takes %v", got)
		}
		m.changeState(func() { m.now.view, m.now.settled = view(1), 1 })
		if got := takes("t1"); got != drainLimit {
			t.Errorf("a task that is not taken out takes %v, want %v", got, drainLimit)
		}
		if got := takes("unknown"); got != 0 {
			t.Errorf("an unknown task takes %v", got)
		}
		out := view(2)
		task := out.Tasks["t1"]
		task.Ready = false
		out.Tasks["t1"] = task
		later := view(3)
		later.Tasks = nil
		got := takes("t1",
			func() { m.now.view = out },
			func() { m.now.settled = 1 },
			func() { m.now.view = later }, // what comes after it is not waited for
			func() { m.now.settled = 2 },
		)
		if want := 400 * time.Millisecond; got != want {
			t.Errorf("a task that all nodes take out takes %v, want %v", got, want)
		}
		if got := takes("t1"); got != drainLimit {
			t.Errorf("a node that never answers takes %v, want %v", got, drainLimit)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m.TakenOut(ctx, "t1")
	})
}
