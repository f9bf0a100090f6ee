package wire

import "moss/engine/event"

// Event is one message of the stream of events (document 3, section 6).
type Event struct {
	Status string `json:"status,omitempty"` // Action again, for containers and images
	ID     string `json:"id,omitempty"`     // of the object, or an image's name
	From   string `json:"from,omitempty"`   // image of the container

	Type   string
	Action string
	Actor  EventActor

	Time     int64 `json:"time,omitempty"`     // seconds
	TimeNano int64 `json:"timeNano,omitempty"` // nanoseconds, since 1970 as well
}

// EventActor is the object of an event.
type EventActor struct {
	ID         string
	Attributes map[string]string
}

// NewEvent fills an event.
func NewEvent(e *event.Event) *Event {
	m := &Event{
		Type:     e.Type,
		Action:   e.Action,
		ID:       e.ID,
		Actor:    EventActor{ID: e.ID, Attributes: orEmpty(e.Attributes)},
		Time:     e.Time.Unix(),
		TimeNano: e.Time.UnixNano(),
	}
	switch e.Type {
	case event.TypeContainer:
		m.Status, m.From = e.Action, e.Attributes["image"]
	case event.TypeImage:
		m.Status = e.Action
	default: // the documents give the other short fields to containers and images only
	}
	return m
}
