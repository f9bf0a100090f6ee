// Package event carries what happened in the engine to whoever listens (API document 3, section 6).
package event

import "time"

// Types of the objects that events are about.
const (
	TypeContainer = "container"
	TypeImage     = "image"
	TypeVolume    = "volume"
	TypeNetwork   = "network"
	TypeDaemon    = "daemon"
)

// Event is one thing that happened. Attributes must not be changed once it is published.
type Event struct {
	Type       string
	Action     string
	ID         string // of the object; an image's name for image events
	Attributes map[string]string
	Time       time.Time // set by Bus.Publish when zero
}
