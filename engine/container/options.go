package container

import "time"

// ListOptions selects containers (API document 2, 4.1: containers/json).
type ListOptions struct {
	All     bool                // otherwise only running ones (with Limit, Since or Before: all)
	Limit   int                 // newest so many; 0 is unlimited
	Since   string              // created after this container
	Before  string              // created before this container
	Filters map[string][]string // keys and values as the document lists them
}

// AttachOptions says what a client wants to see and send (API document 2, 4.1: attach).
type AttachOptions struct {
	Logs, Stream          bool
	Stdin, Stdout, Stderr bool
	DetachKeys            []byte // the bytes that detach; nil: ctrl-p ctrl-q; empty: none
}

// LogsOptions selects log lines (API document 2, 4.1: logs).
type LogsOptions struct {
	Stdout, Stderr bool
	Follow         bool
	Since, Until   time.Time // zero: unbounded
	Tail           int       // last so many lines; negative: all
}

// StopOptions says how to stop a container (API document 2, 4.1: stop).
type StopOptions struct {
	Timeout *time.Duration // between the signal and SIGKILL; nil: the container's own, negative: no end
	Signal  string         // a name or a number; empty: the container's own
}

// RemoveOptions says how to remove a container.
type RemoveOptions struct {
	Force   bool // kill it first
	Volumes bool // and its anonymous volumes
	Link    bool // remove the link of that name instead

	// Gone, if it is not nil, runs when the container is gone and before that is published: who listens may end the
	// program that waits for the answer. It must not block.
	Gone func()
}
