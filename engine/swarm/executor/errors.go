package executor

import (
	"errors"
	"fmt"
)

// The ends of a task that its container's exit code does not tell. The first two have the words that clients know.
var ( //nolint:gochecknoglobals // constants
	errUnhealthy = errors.New("task: unhealthy container")
	errGone      = errors.New("task: container is gone: it was removed outside the swarm")
	errStopped   = errors.New("task: container was stopped outside the swarm")
	errRestarted = errors.New("task: container was restarted outside the swarm")
)

// exitError is the end of a container that SwarmKit is to see as a failure. It is SwarmKit's exec.ExitCoder.
type exitError struct {
	code   int
	reason string // what the engine says beside the code; may be empty
}

// Error has the words that clients know.
func (e *exitError) Error() string {
	text := fmt.Sprintf("task: non-zero exit (%d)", e.code)
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

// ExitCode returns the container's exit code.
func (e *exitError) ExitCode() int { return e.code }
