package build

import (
	"context"
	"strconv"
	"sync"

	"moss/engine/image"
)

// progressHeld is how many messages of a pull are kept of a stage whose turn has not come. They tell of moments that are over
// by then: more are dropped.
const progressHeld = 200

// transcript is all that one stage tells, in order. Telling never waits for who listens.
type transcript struct {
	id string // of its messages; empty if the lines of all stages go out in order

	mu      sync.Mutex // guards the fields below
	items   []item
	pulled  int // of items that are a pull's
	closed  bool
	changed chan struct{} // closed at each change
}

// item is a message, or the output of a step as it comes.
type item struct {
	message image.Progress
	output  *output
	done    func() // called when the output has been read or will not be
}

func newTranscript(id string) *transcript { return &transcript{id: id, changed: make(chan struct{})} }

// addText adds a line or several.
func (t *transcript) addText(s string) { t.addItem(item{message: image.Progress{Stream: s}}) }

// addAux adds something for programs.
func (t *transcript) addAux(v any) { t.addItem(item{message: image.Progress{Aux: v}}) }

// addProgress adds a report of how far a pull is.
func (t *transcript) addProgress(p image.Progress) { t.addItem(item{message: p}) }

// addOutput adds the output of a step, to its end. done is called once, when the output is not needed any more.
func (t *transcript) addOutput(o *output, done func()) { t.addItem(item{output: o, done: done}) }

// addItem keeps an item unless the transcript is over.
func (t *transcript) addItem(it item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if it.output == nil && it.message.Stream == "" && it.message.Aux == nil {
		if t.pulled++; t.pulled > progressHeld {
			return
		}
	}
	if t.id != "" && it.output == nil && it.message.ID == "" {
		it.message.ID = t.id
	}
	t.items = append(t.items, it)
	t.changeLocked()
}

// close says that nothing more comes.
func (t *transcript) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.changeLocked()
}

func (t *transcript) changeLocked() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// takeItems returns what has been told since the last time.
func (t *transcript) takeItems() (items []item, closed bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	items, t.items, t.pulled = t.items, nil, 0
	return items, t.closed, t.changed
}

// discardUnread drops all items that have not been read.
func (t *transcript) discardUnread() {
	items, _, _ := t.takeItems()
	for _, it := range items {
		if it.output != nil {
			it.done()
		}
	}
}

// copyTo sends everything until the transcript is closed.
func (t *transcript) copyTo(ctx context.Context, send func(image.Progress) error) error {
	for {
		items, closed, changed := t.takeItems()
		for i, it := range items {
			if err := t.sendItem(ctx, it, send); err != nil {
				for _, rest := range items[i+1:] {
					if rest.output != nil {
						rest.done()
					}
				}
				return err
			}
		}
		if len(items) > 0 {
			continue
		}
		if closed {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sendItem sends one item; of a step's output all, to its end.
func (t *transcript) sendItem(ctx context.Context, it item, send func(image.Progress) error) error {
	if it.output == nil {
		return send(it.message)
	}
	defer it.done()
	return it.output.copyTo(ctx, func(s string) error { return send(image.Progress{ID: t.id, Stream: s}) })
}

// console brings the transcripts of a build's stages to the client.
type console struct {
	stages []*transcript // in the order of the Dockerfile
	lines  chan image.Progress
}

// newConsole returns a console for n stages. With apart their lines go out as they come and carry the stage's number.
func newConsole(n int, apart bool) *console {
	c := &console{lines: make(chan image.Progress)}
	for i := range n {
		id := ""
		if apart {
			id = strconv.Itoa(i)
		}
		c.stages = append(c.stages, newTranscript(id))
	}
	return c
}

// sendAll sends everything to lines, which it closes at the end: of the first stage until it is closed, then of the next, or of
// all at once. A stage is the last that is shown if last says so.
func (c *console) sendAll(ctx context.Context, last func(stage int) bool) {
	defer close(c.lines)
	send := func(p image.Progress) error {
		select {
		case c.lines <- p:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if len(c.stages) > 0 && c.stages[0].id != "" {
		var all sync.WaitGroup
		for _, t := range c.stages {
			all.Go(func() { _ = t.copyTo(ctx, send) }) // an error is the end of ctx
		}
		all.Wait()
		return
	}
	for i, t := range c.stages {
		if t.copyTo(ctx, send) != nil || last(i) {
			return
		}
	}
}

// close ends all transcripts that are still open.
func (c *console) close() {
	for _, t := range c.stages {
		t.close()
	}
}

// discardUnread drops all that was not shown.
func (c *console) discardUnread() {
	for _, t := range c.stages {
		t.discardUnread()
	}
}
