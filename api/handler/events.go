package handler

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"moss/api/apierr"
	"moss/api/apiver"
	"moss/api/conn"
	"moss/api/route"
	"moss/api/wire"
	"moss/engine/event"
	"moss/engine/fault"
)

// Events is where the engine's events can be listened to.
type Events interface {
	Subscribe(opt event.Options) *event.Subscription
	Publish(e event.Event)
}

// tellPruned publishes that what is unused of a type is gone.
func (h *Handler) tellPruned(kind string, reclaimed int64) {
	h.events.Publish(event.Event{
		Type: kind, Action: event.ActionPrune, Attributes: map[string]string{"reclaimed": strconv.FormatInt(reclaimed, 10)},
	})
}

func (h *Handler) systemEvents(c *route.Call) error {
	opt, err := eventOptions(c)
	if err != nil {
		return err
	}
	stream := conn.NewJSON(c.Writer(), c.Request())
	sub := h.events.Subscribe(opt)
	defer sub.Close()
	// The head must not wait for an event: clients start a container once they see it.
	if stream.Open() != nil {
		return nil // the client has gone
	}
	for {
		if sub.Wait(c.Ctx()) != nil {
			return nil // the client has gone, or the server ends
		}
		if more, err := h.sendEvents(c, sub, stream); !more {
			return err
		}
		if c.Ctx().Err() != nil {
			return nil
		}
	}
}

func eventOptions(c *route.Call) (event.Options, error) {
	var opt event.Options
	filters, err := c.Filters()
	if err != nil {
		return opt, err
	}
	filter, err := event.NewFilter(filters)
	if err != nil {
		return opt, err
	}
	now := time.Now()
	if opt.Since, err = parseTimestamp("since", c.Text("since"), now); err != nil {
		return opt, err
	}
	opt.Past = opt.Since.IsZero() && (c.Has("since") || c.Has("until"))
	if opt.Until, err = parseTimestamp("until", c.Text("until"), now); err != nil {
		return opt, err
	}
	if c.Has("until") && opt.Until.IsZero() {
		opt.Until = time.Unix(0, 0) // a time that is over, and not that there is none
	}
	if !opt.Until.IsZero() && opt.Until.Before(opt.Since) {
		return opt, fault.Invalid("until must not be before since")
	}
	version := c.Version()
	opt.Filter = func(e *event.Event) bool { return hasEvent(version, e) && filter.Match(e) }
	return opt, nil
}

const (
	// eventsAtOnce is how many events are written to a client at a time.
	eventsAtOnce = 256
	// eventBytes is about how many bytes they have at most.
	eventBytes = 64 << 10
)

// eventBatch is what sendEvents works with. There are as many as listeners that are busy, not as there are listeners.
type eventBatch struct {
	events [eventsAtOnce]*event.Published
	lines  []byte
}

// eventBatches keeps the batches that are not in use.
type eventBatches struct{ pool sync.Pool }

func (b *eventBatches) takeBatch() *eventBatch {
	if batch, ok := b.pool.Get().(*eventBatch); ok {
		return batch
	}
	return &eventBatch{}
}

func (b *eventBatches) returnBatch(batch *eventBatch) {
	clear(batch.events[:])
	if cap(batch.lines) <= 2*eventBytes { // not one in which a giant was
		b.pool.Put(batch)
	}
}

// sendEvents sends what there is now. It returns false when the stream has come to its end.
func (h *Handler) sendEvents(c *route.Call, sub *event.Subscription, stream *conn.JSON) (more bool, err error) {
	batch := h.batches.takeBatch()
	defer h.batches.returnBatch(batch)
	n, err := sub.Take(c.Ctx(), batch.events[:])
	switch {
	case errors.Is(err, io.EOF), err != nil && c.Ctx().Err() != nil:
		return false, nil
	case err != nil:
		_ = stream.Send(apierr.StreamMessage(err)) // The client may have gone.
		return false, nil
	}
	version := c.Version()
	encode := func(e *event.Event) ([]byte, error) {
		raw, err := wire.Encode(wire.NewEvent(e), version)
		return append(raw, '\n'), err
	}
	batch.lines = batch.lines[:0]
	for i, p := range batch.events[:n] {
		line, err := p.Line(eventForm(version), encode)
		if err != nil {
			return false, err
		}
		batch.lines = append(batch.lines, line...)
		if len(batch.lines) < eventBytes && i < n-1 {
			continue
		}
		if stream.Send(batch.lines) != nil {
			return false, nil // the client has gone
		}
		batch.lines = batch.lines[:0]
	}
	return true, nil
}

// eventForm numbers the forms of an event's JSON.
func eventForm(version apiver.Version) int { return int(version) }

// hasEvent reports whether an event is one that a version knows (document 3, section 6): volumes and networks came with
// 1.21, the end of an exec with 1.36, prune with 1.41, the end of a build with 1.46, the rest that is withheld with 1.24.
func hasEvent(version apiver.Version, e *event.Event) bool {
	switch {
	case e.Action == event.ActionPrune:
		return version >= v(41)
	case e.Type == event.TypeImage && e.Action == event.ActionCreate:
		return version >= v(46)
	case e.Action == event.ActionExecDie:
		return version >= v(36)
	case version >= v(24):
		return true
	}
	switch e.Type {
	case event.TypeContainer:
		action, _, _ := strings.Cut(e.Action, ":")
		return action != "detach" && action != "exec_detach" && action != "health_status"
	case event.TypeImage:
		return e.Action != "load" && e.Action != "save"
	case event.TypeVolume, event.TypeNetwork:
		return version >= v(21)
	default:
		return false
	}
}
