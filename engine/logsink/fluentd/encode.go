package fluentd

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tinylib/msgp/msgp"

	"moss/engine/logsink"
	"moss/engine/stdio"
)

// pieceFields are what a piece of a line has beside the other fields.
const pieceFields = 4

// encoder writes messages into one buffer. What is the same in all of them is encoded once.
type encoder struct {
	tag       []byte    // the beginning of a message, encoded
	subSecond bool      // times are EventTime
	lineID    string    // what ids of lines begin with
	whole     [2][]byte // of stdout and stderr: a record's beginning, up to the key of its text
	piece     [2][]byte // the same for a piece of a line
	buf       []byte
}

func newEncoder(c logsink.Container, subSecond bool) *encoder {
	e := &encoder{
		tag:       msgp.AppendString(msgp.AppendArrayHeader(nil, 3), c.Tag),
		subSecond: subSecond,
		lineID:    c.ID[:min(len(c.ID), 48)],
	}
	for i, source := range []stdio.Stream{stdio.Stdout, stdio.Stderr} {
		fields := map[string]string{
			"container_id":   c.ID,
			"container_name": "/" + c.Name,
			"source":         source.String(),
		}
		// An attribute takes the place of a field of its name, as users know it; but never of the text and the marks of pieces.
		maps.Copy(fields, c.Attrs)
		for _, name := range []string{"log", "partial_message", "partial_id", "partial_ordinal", "partial_last"} {
			delete(fields, name)
		}
		e.whole[i] = appendFields(nil, fields, 0)
		e.piece[i] = appendFields(nil, fields, pieceFields)
	}
	return e
}

// appendFields appends the beginning of a record with these fields, the text, and more fields to come after it.
func appendFields(dst []byte, fields map[string]string, more int) []byte {
	dst = msgp.AppendMapHeader(dst, uint32(len(fields)+1+more)) // attributes have 64 KiB
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		dst = msgp.AppendString(msgp.AppendString(dst, name), fields[name])
	}
	return msgp.AppendString(dst, "log")
}

// encodeMessage returns a message with the first of the records, as many as fit, and their number. chunk asks for an
// acknowledgement by that name, unless it is empty. The message is overwritten by the next call.
func (e *encoder) encodeMessage(records []logsink.Record, chunk string) (message []byte, count int) {
	// The size of the entries is known after them: the header of 32 bits leaves room for any.
	const bin32 = 0xc6
	b := append(append(e.buf[:0], e.tag...), bin32, 0, 0, 0, 0)
	start := len(b)
	for count < len(records) && (count == 0 || len(b) < messageBytes) {
		b = e.appendEntry(b, &records[count])
		count++
	}
	binary.BigEndian.PutUint32(b[start-4:], uint32(len(b)-start))

	options := uint32(1)
	if chunk != "" {
		options++
	}
	b = msgp.AppendMapHeader(b, options)
	b = msgp.AppendInt(msgp.AppendString(b, "size"), count)
	if chunk != "" {
		b = msgp.AppendString(msgp.AppendString(b, "chunk"), chunk)
	}
	e.buf = b
	return b, count
}

// appendEntry appends [time, record].
func (e *encoder) appendEntry(b []byte, r *logsink.Record) []byte {
	b = e.appendTime(msgp.AppendArrayHeader(b, 2), r.At)
	source := 0
	if r.Stream == stdio.Stderr {
		source = 1
	}
	if r.LineID == 0 {
		return msgp.AppendStringFromBytes(append(b, e.whole[source]...), r.Text)
	}
	b = msgp.AppendStringFromBytes(append(b, e.piece[source]...), r.Text)
	b = msgp.AppendString(msgp.AppendString(b, "partial_message"), "true")
	b = msgp.AppendString(msgp.AppendString(b, "partial_id"), e.lineID+formatLineID(r.LineID))
	b = msgp.AppendString(msgp.AppendString(b, "partial_ordinal"), strconv.Itoa(r.Ordinal))
	return msgp.AppendString(msgp.AppendString(b, "partial_last"), strconv.FormatBool(r.Last))
}

// appendTime appends seconds, or an EventTime: an extension of type 0 with seconds and nanoseconds.
func (e *encoder) appendTime(b []byte, at time.Time) []byte {
	if !e.subSecond {
		return msgp.AppendInt64(b, at.Unix())
	}
	const fixext8, eventTime = 0xd7, 0
	b = binary.BigEndian.AppendUint32(append(b, fixext8, eventTime), uint32(at.Unix()))
	return binary.BigEndian.AppendUint32(b, uint32(at.Nanosecond()))
}

// formatLineID returns 16 hexadecimal digits: with 48 of the container's id the 64 that other engines' ids of lines have.
func formatLineID(id uint64) string {
	digits := strconv.FormatUint(id, 16)
	return "0000000000000000"[len(digits):] + digits
}
