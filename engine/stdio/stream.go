package stdio

import "strconv"

// Stream numbers one of a process's three standard streams, as the first byte of a frame does (API document 2, attach).
type Stream byte

// The standard streams.
const (
	Stdin  Stream = 0
	Stdout Stream = 1
	Stderr Stream = 2
)

// OutputIndex returns the place of a stream in a pair that holds something for each output: 1 for the standard error, 0 for
// the standard output and what is no output.
func (s Stream) OutputIndex() int {
	if s == Stderr {
		return 1
	}
	return 0
}

// String returns stdin, stdout or stderr, and the number of anything else.
func (s Stream) String() string {
	switch s {
	case Stdin:
		return "stdin"
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	default:
		return "stream " + strconv.Itoa(int(s))
	}
}
