// Package logforward carries the output of a container from its monitor to moss-log, over a unix socket. Both sides link it; it
// links the standard library only.
//
// The monitor opens a connection for each container and each run, and sends one Hello, which moss-log answers with a proto.Reply.
// Frames follow, a record each, and at the end of the output the frame of the end. Moss-log answers with marks: how many records
// of this connection have been dealt with, and, after the end, that it has them all. What has no mark stays with the monitor,
// within Window, and is sent again when the connection breaks.
package logforward

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"moss/engine/fault"
	"moss/engine/logsink"
	"moss/engine/stdio"
)

// Window bounds the bytes of frames that a monitor sends and holds without a mark.
const Window = 256 << 10

// MaxText bounds the text of a record: longer lines come in pieces.
const MaxText = 16 << 10

// Hello is the first message of a connection. Without a Target it is the engine's, which wants to know that moss-log runs and
// when it ends.
type Hello struct {
	Target json.RawMessage `json:"target,omitempty"` // a Target
	Resume bool            `json:"resume,omitempty"` // the container runs already: its receiver may be away
}

// Target says where the records of a container go.
type Target struct {
	Driver    string            `json:"driver"`
	Options   map[string]string `json:"options,omitempty"` // checked
	Container logsink.Container `json:"container"`
}

// headSize is the bytes of a frame before its text: size, time, line, ordinal and flags.
const headSize = 4 + 8 + 8 + 4 + 1

// The flags of a frame.
const (
	flagStderr = 1 << iota
	flagLast
	flagEnd
)

// appendFrame appends the frame of a record.
func appendFrame(b []byte, r *logsink.Record) []byte {
	var flags byte
	if r.Stream == stdio.Stderr {
		flags |= flagStderr
	}
	if r.Last {
		flags |= flagLast
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Text)))     //nolint:gosec // at most MaxText
	b = binary.BigEndian.AppendUint64(b, uint64(r.At.UnixNano())) //nolint:gosec // back again in ParseFrame
	b = binary.BigEndian.AppendUint64(b, r.LineID)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Ordinal)) //nolint:gosec // pieces of one line
	return append(append(b, flags), r.Text...)
}

// endFrame is the frame of the end.
func endFrame() []byte {
	b := make([]byte, headSize)
	b[headSize-1] = flagEnd
	return b
}

// ParseFrame reads the frame at the beginning of b into r, whose Text is a part of b. size is 0 if b has only a part of a frame;
// end reports the frame of the end. The error is fault.Invalid.
func ParseFrame(b []byte, r *logsink.Record) (size int, end bool, err error) {
	size = frameSize(b)
	switch {
	case size > headSize+MaxText:
		return 0, false, fault.Invalid("a record of %d bytes is longer than %d", size-headSize, MaxText)
	case size == 0 || len(b) < size:
		return 0, false, nil
	}
	flags := b[headSize-1]
	*r = logsink.Record{
		At:     time.Unix(0, int64(binary.BigEndian.Uint64(b[4:]))), //nolint:gosec // as appendFrame wrote it
		LineID: binary.BigEndian.Uint64(b[12:]), Ordinal: int(binary.BigEndian.Uint32(b[20:])),
		Stream: stdio.Stdout, Last: flags&flagLast != 0, Text: b[headSize:size],
	}
	if flags&flagStderr != 0 {
		r.Stream = stdio.Stderr
	}
	return size, flags&flagEnd != 0, nil
}

// frameSize returns the size of the frame at the beginning of b; 0 if there is less than its head.
func frameSize(b []byte) int {
	if len(b) < headSize {
		return 0
	}
	return headSize + int(binary.BigEndian.Uint32(b))
}

// Mark is what moss-log says of the records of a connection.
type Mark struct {
	Done  uint64 // records that were dealt with, from the first
	Taken bool   // all that came before the end is with moss-log
}

// MarkSize is the bytes of a mark.
const MarkSize = 9

// Append appends the written form of a mark.
func (m Mark) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.Done)
	if m.Taken {
		return append(b, 1)
	}
	return append(b, 0)
}

// ParseMark reads the written form of a mark, of MarkSize bytes.
func ParseMark(b []byte) Mark {
	return Mark{Done: binary.BigEndian.Uint64(b), Taken: b[MarkSize-1] == 1}
}

// Bye is the byte that moss-log sends to engines before it ends by itself. Without it its end is a crash.
const Bye = 'b'
