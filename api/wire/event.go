package wire

import (
	"moss/api/types"
	"moss/engine/event"
)

// NewEvent fills an event.
func NewEvent(e *event.Event) *types.Event {
	m := &types.Event{
		Type:     e.Type,
		Action:   e.Action,
		ID:       e.ID,
		Actor:    types.EventActor{ID: e.ID, Attributes: orEmpty(e.Attributes)},
		Scope:    event.ScopeLocal,
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
