package lifecycle

import (
	"moss/engine/container"
)

// Watcher is told when containers begin and end to have a process. It must not block, and it must bear hearing of the same
// beginning or end twice.
type Watcher interface {
	// Began tells of a container whose process runs, started by this engine or taken over from an earlier one.
	Began(r *container.Record)
	// Ended tells that a container has no process any more. It comes before anybody sees it at rest.
	Ended(containerID string)
}

func (f *follower) tellBegan(r *container.Record) {
	for _, w := range f.watchers {
		w.Began(r)
	}
}

func (f *follower) tellEnded(containerID string) {
	for _, w := range f.watchers {
		w.Ended(containerID)
	}
}
