package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/meter"
)

// How often the table is drawn: on a terminal, and where every table is kept.
const (
	screenPeriod = 500 * time.Millisecond
	streamPeriod = time.Second
)

// Where every table is kept, the first one waits for a sample of every container: at most firstReadings, and it looks
// for them every lookPeriod.
const (
	firstReadings = 3 * time.Second
	lookPeriod    = 50 * time.Millisecond
)

// board is the containers that are measured at the moment.
type board struct {
	app    *app
	engine *client.Client
	flags  statsFlags
	named  bool           // the containers were named: when none of them is left, that is the end
	group  sync.WaitGroup // the goroutines that measure

	drained chan struct{} // closed when the last of the named containers is gone

	mu   sync.Mutex // guards list
	list []*measured
}

// statsLive measures until the containers that were named are gone, or until it is interrupted.
func (a *app) statsLive(ctx context.Context, engine *client.Client, refs []string, flags statsFlags) error {
	ctx, cancel := context.WithCancel(ctx)
	b := &board{app: a, engine: engine, flags: flags, named: len(refs) > 0, drained: make(chan struct{})}
	defer b.group.Wait()
	defer cancel()
	begun := time.Now()
	list, err := a.toMeasure(ctx, engine, refs, flags.all)
	if err != nil {
		return err
	}
	for _, m := range list {
		b.startMeasuring(ctx, m)
	}
	broken := make(chan error, 1)
	b.group.Go(func() { broken <- b.watchEvents(ctx, begun) })
	return b.drawPeriodically(ctx, broken)
}

// startMeasuring begins to measure a container that is not measured yet.
func (b *board) startMeasuring(ctx context.Context, m *measured) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.ContainsFunc(b.list, func(other *measured) bool { return other.id == m.id }) {
		return
	}
	ctx, m.stop = context.WithCancel(ctx)
	b.list = append(b.list, m)
	b.group.Go(func() {
		defer m.stop()
		var before *types.Stats
		err := b.engine.ContainerStats(ctx, m.id, true, func(sample types.Stats) error {
			m.setReading(meter.Read(sample, before))
			before = &sample
			return nil
		})
		// When the engine is gone, the events end too, and that is told once.
		if status := client.StatusOf(err); status != 0 && status != statusNotFound {
			b.app.printError(err)
		}
		b.removeMatching(func(other *measured) bool { return other == m })
	})
}

func (b *board) removeMatching(which func(*measured) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	had := len(b.list) > 0
	b.list = slices.DeleteFunc(b.list, func(m *measured) bool {
		if !which(m) {
			return false
		}
		m.stop()
		return true
	})
	if b.named && had && len(b.list) == 0 {
		close(b.drained)
	}
}

// watchEvents adds and removes containers as they come and go, if all are measured, and follows their names. Events since
// begun are replayed: no container that starts meanwhile is missed.
func (b *board) watchEvents(ctx context.Context, begun time.Time) error {
	actions := []string{"destroy", "rename"}
	if !b.named {
		actions = append(actions, "start")
		if b.flags.all {
			actions = append(actions, "create")
		} else {
			actions = append(actions, "die")
		}
	}
	err := b.engine.Events(ctx, client.EventsOptions{
		Since:   arg.Seconds(begun),
		Filters: map[string][]string{"type": {"container"}, "event": actions},
	}, func(event types.Event, _ json.RawMessage) error {
		name := strings.TrimPrefix(event.Actor.Attributes["name"], "/")
		switch event.Action {
		case "start", "create":
			b.startMeasuring(ctx, &measured{id: event.Actor.ID, name: name, ref: event.Actor.ID})
		case "die", "destroy":
			b.removeMatching(func(m *measured) bool { return m.id == event.Actor.ID })
		case "rename":
			b.renameContainer(event.Actor.ID, name)
		}
		return nil
	})
	return cmp.Or(err, errors.New("the engine's events ended"))
}

func (b *board) renameContainer(id, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.list {
		if m.id == id {
			m.mu.Lock()
			m.name = name
			m.mu.Unlock()
		}
	}
}

// drawPeriodically shows the table again and again, over the one before on a terminal.
func (b *board) drawPeriodically(ctx context.Context, broken <-chan error) error {
	screen, period := b.app.onScreen(), streamPeriod
	first := time.NewTimer(firstReadings)
	defer first.Stop()
	if screen {
		period = screenPeriod
		first.Reset(0)
	}
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	begun := false
	for {
		var draw bool
		select {
		case <-first.C:
			draw = !begun
		case <-look.C:
			draw = !begun && b.allKnown()
		case <-ticks.C:
			draw = begun
		case <-b.drained:
			return nil
		case err := <-broken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		if !draw {
			continue
		}
		if err := b.drawTable(screen, !begun); err != nil {
			return err
		}
		if !begun {
			begun = true
			look.Stop()
			ticks.Reset(period)
		}
	}
}

// allKnown reports whether every container has been measured once.
func (b *board) allKnown() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.ContainsFunc(b.list, func(m *measured) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !m.known
	})
}

// Moves of the cursor: to the top, and the removal of what is left of an older table.
const (
	cursorHome   = "\x1b[H"
	clearScreen  = "\x1b[2J"
	clearLine    = "\x1b[K"
	clearToBelow = "\x1b[J"
)

// drawTable writes the table in one piece: on a terminal over the one before, and no longer than the terminal.
func (b *board) drawTable(screen, first bool) error {
	b.mu.Lock()
	list := slices.Clone(b.list)
	b.mu.Unlock()
	var table bytes.Buffer
	rows := statsRows(list, b.flags.full)
	if err := b.app.tableView(b.flags.full).Table(&table, b.flags.format, statsColumns(), statsTitles(), rows); err != nil {
		return err
	}
	text := table.String()
	if screen {
		lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
		if height, _ := b.app.windowSize(); height > 1 && len(lines) > height-1 {
			lines = lines[:height-1]
		}
		text = cursorHome + strings.ReplaceAll(strings.TrimSuffix(strings.Join(lines, ""), "\n"), "\n", clearLine+"\n") +
			clearLine + "\n" + clearToBelow
		if first {
			text = clearScreen + text
		}
	}
	_, err := io.WriteString(b.app.stdout, text)
	return err
}
