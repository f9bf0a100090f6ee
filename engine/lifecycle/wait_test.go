package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

// waiter is a client that waits for something.
type waiter struct {
	t     *testing.T
	heard chan string
}

// waits begins to wait for a container in a bubble.
func (w *world) waits(m *Manager, id string, condition container.WaitCondition) *waiter {
	w.t.Helper()
	c := &waiter{w.t, make(chan string, 1)}
	go func() {
		code, err := m.inventory.WaitFor(w.t.Context(), id, condition, func() {})
		c.heard <- fmt.Sprint(code, err)
	}()
	synctest.Wait()
	return c
}

// hears checks what the client has heard so far; empty if it goes on waiting.
func (c *waiter) hears(when, want string) {
	c.t.Helper()
	synctest.Wait()
	got := ""
	select {
	case got = <-c.heard:
	default:
	}
	if got != want {
		c.t.Errorf("%s: the client hears %q, want %q", when, got, want)
	}
}

// beginRemoval makes a container whose removal has come no further than its record.
func (w *world) beginRemoval(m *Manager, name string) *ctr {
	w.t.Helper()
	c, err := m.index.find(w.create(m, name))
	w.must(err)
	_, err = m.lives.applyEvent(c, life.RemovalBegun{})
	w.must(err)
	return c
}

// TestWaitNextExitOfWhatIsGone: who has found the container before its removal, and waits after it, waits for nothing.
func TestWaitNextExitOfWhatIsGone(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	c, err := m.index.find(w.create(m, "web"))
	w.must(err)
	w.must(m.Remove(t.Context(), "web", container.RemoveOptions{}))
	select {
	case <-c.awaitedMoment(container.WaitNextExit).done:
	default:
		t.Error("the next exit of a removed container is still to come")
	}
}

// TestWaitNextExit: the next exit is one to come, whether the container runs or not; that of a failed start counts.
func TestWaitNextExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		codes := make(chan int)
		w.tasks.Script = func(task.Spec, *tasktest.Proc) int { return <-codes }
		m := w.engine()
		id := w.create(m, "web")
		first := w.waits(m, id, container.WaitNextExit)
		first.hears("before the start", "")
		w.must(m.Start(t.Context(), id))
		first.hears("after the start", "")
		late := w.waits(m, id, container.WaitNextExit)
		codes <- 3
		first.hears("after the end", "3 <nil>")
		late.hears("after the end, who came while it ran", "3 <nil>")

		second := w.waits(m, id, container.WaitNextExit)
		second.hears("at rest", "")
		w.waits(m, id, container.WaitNotRunning).hears("at rest, who waits for that", "3 <nil>")
		w.tasks.StartErr = func(task.Spec) error { return fault.NotFound("no such command") }
		if err := m.Start(t.Context(), id); !fault.Is(err, fault.NotFound) {
			t.Errorf("Start = %v, want not found", err)
		}
		second.hears("after a start that failed", "127 <nil>")

		third := w.waits(m, id, container.WaitNextExit)
		w.must(m.Remove(t.Context(), id, container.RemoveOptions{}))
		third.hears("after the removal", "127 <nil>")
		m.Close()
	})
}

// TestWaitRemoved: the removal is told once the container is not found any more; one that fails is told too.
func TestWaitRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		codes := make(chan int)
		w.tasks.Script = func(task.Spec, *tasktest.Proc) int { return <-codes }
		m := w.engine()
		once := w.create(m, "once", func(_ *container.Config, h *container.HostConfig) { h.AutoRemove = true })
		gone := w.waits(m, once, container.WaitRemoved)
		w.must(m.Start(t.Context(), once))
		gone.hears("while it runs", "")
		codes <- 7
		gone.hears("after its end", "7 <nil>")
		if _, err := m.inventory.Get(once); !fault.Is(err, fault.NotFound) {
			t.Errorf("Get of what is removed = %v, want not found", err)
		}

		kept := w.create(m, "kept")
		gone = w.waits(m, kept, container.WaitRemoved)
		w.must(m.Start(t.Context(), kept))
		codes <- 2
		gone.hears("of one that is kept", "")
		w.must(m.Remove(t.Context(), kept, container.RemoveOptions{}))
		gone.hears("after rm", "2 <nil>")
		if _, err := m.inventory.WaitFor(t.Context(), kept, container.WaitRemoved, func() {}); !fault.Is(err, fault.NotFound) {
			t.Errorf("WaitFor of what is removed = %v, want not found", err)
		}
		m.Close()
	})
}

// TestWaitRemovedFails: whoever waits for a removal that fails hears of it, and the next one is waited for anew.
func TestWaitRemovedFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		c := w.beginRemoval(m, "web")
		id := c.id
		gone := w.waits(m, id, container.WaitRemoved)
		cause := errors.New("disk on fire")
		if err := m.remover.markDead(c, cause); !errors.Is(err, cause) {
			t.Errorf("markDead = %v, want its cause", err)
		}
		gone.hears("after a removal that failed", "0 disk on fire")
		gone = w.waits(m, id, container.WaitRemoved)
		gone.hears("before another", "")
		w.must(m.Remove(context.WithoutCancel(t.Context()), id, container.RemoveOptions{}))
		gone.hears("after another", "0 <nil>")
		m.Close()
	})
}
