package types

// Event is one message of the stream of events (document 3, section 6).
type Event struct {
	Status string `json:"status,omitempty"` // Action again, for containers and images
	ID     string `json:"id,omitempty"`     // of the object, or an image's name
	From   string `json:"from,omitempty"`   // image of the container

	Type   string
	Action string
	Actor  EventActor
	Scope  string `json:"scope,omitempty" api:"1.30-"`

	Time     int64 `json:"time,omitempty"`     // seconds
	TimeNano int64 `json:"timeNano,omitempty"` // nanoseconds, since 1970 as well
}

// EventActor is the object of an event.
type EventActor struct {
	ID         string
	Attributes map[string]string
}
