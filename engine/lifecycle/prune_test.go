package lifecycle

import (
	"errors"
	"slices"
	"testing"

	"moss/engine/container"
	"moss/engine/fault"
)

func TestPrune(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	label := func(c *container.Config, _ *container.HostConfig) { c.Labels = map[string]string{"keep": "1"} }
	running, kept, idle := w.create(m, "running"), w.create(m, "kept", label), w.create(m, "idle")
	w.must(m.Start(t.Context(), running))
	removed, reclaimed, err := m.Prune(t.Context(), map[string][]string{"label!": {"keep"}})
	w.must(err)
	if !slices.Equal(removed, []string{idle}) || reclaimed != 1 { // each has written one byte by the fake's account
		t.Errorf("pruned %q, %d bytes, want %s and 1", removed, reclaimed, idle)
	}
	if removed, _, err := m.Prune(t.Context(), map[string][]string{"until": {"1h"}}); err != nil || len(removed) > 0 {
		t.Errorf("pruned what is an hour old: %q, %v, want nothing", removed, err)
	}
	removed, _, err = m.Prune(t.Context(), nil)
	w.must(err)
	if _, err := m.inventory.Get(running); err != nil || !slices.Equal(removed, []string{kept}) {
		t.Errorf("pruned %q, the running one is there: %v, want only %s to go", removed, err, kept)
	}
	if _, _, err := m.Prune(t.Context(), map[string][]string{"dangling": {"true"}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("another filter: got %v, want fault.Invalid", err)
	}
	w.must(m.Stop(t.Context(), running, container.StopOptions{}))
	broken := errors.New("broken")
	w.layers.fail = map[string]error{"remove": broken}
	if removed, _, err := m.Prune(t.Context(), nil); !errors.Is(err, broken) || len(removed) > 0 {
		t.Errorf("prune with a broken store = %q, %v, want its error", removed, err)
	}
	last := w.create(m, "last")
	w.layers.fail = map[string]error{"remove " + last: broken}
	if removed, _, err := m.Prune(t.Context(), nil); !errors.Is(err, broken) || !slices.Equal(removed, []string{running}) {
		t.Errorf("prune beside a broken layer = %q, %v, want its error, and %s to go", removed, err, running)
	}
}
