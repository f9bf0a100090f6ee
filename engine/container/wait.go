package container

import "moss/engine/fault"

// WaitCondition says which moment in a container's life is waited for. The zero value is WaitNotRunning.
type WaitCondition int

// The conditions, as clients from API version 1.30 on know them.
const (
	WaitNotRunning WaitCondition = iota // the end of its process; it has come for a container at rest
	WaitNextExit                        // the next end of a process, also of a container at rest
	WaitRemoved                         // its removal
)

// ParseWaitCondition returns the condition of a word; none means WaitNotRunning. Another word is fault.Invalid.
func ParseWaitCondition(word string) (WaitCondition, error) {
	switch word {
	case "", "not-running":
		return WaitNotRunning, nil
	case "next-exit":
		return WaitNextExit, nil
	case "removed":
		return WaitRemoved, nil
	default:
		return WaitNotRunning, fault.Invalid("invalid condition: %q", word)
	}
}
