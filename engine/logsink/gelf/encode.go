package gelf

import (
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"moss/engine/logsink"
	"moss/engine/stdio"
)

// Levels of syslog.
const (
	levelStdout = "6" // informational
	levelStderr = "3" // error
)

// encoder writes records as GELF 1.1. What is the same in all messages is encoded once.
type encoder struct {
	head   [2][]byte // of stdout and stderr: a message's beginning
	lineID string    // what ids of lines begin with
}

// cut is the part of a record that goes with one message.
type cut struct {
	text []byte
	part int  // from 1; 0: the record goes as a whole
	last bool // the part is the record's last
}

// wholeCut is all of a record.
func wholeCut(r *logsink.Record) cut { return cut{text: r.Text, last: true} }

func newEncoder(c logsink.Container) *encoder {
	fields := map[string]string{
		"_container_id":   c.ID,
		"_container_name": c.Name,
		"_image_id":       c.ImageID,
		"_image_name":     c.ImageName,
		"_command":        c.Command,
		"_tag":            c.Tag,
		"_created":        c.Created.UTC().Format(time.RFC3339Nano),
	}
	for _, name := range slices.Sorted(maps.Keys(c.Attrs)) {
		if name != "" {
			fields[nameField(name)] = c.Attrs[name]
		}
	}
	// The format reserves _id. An attribute takes the place of another field of its name, but not of the marks of pieces.
	for _, name := range []string{
		"_id", "_partial_message", "_partial_id", "_partial_ordinal", "_partial_part", "_partial_last",
	} {
		delete(fields, name)
	}
	b := appendString([]byte(`{"version":"1.1","host":`), c.Host)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		b = appendString(append(b, ','), name)
		b = appendString(append(b, ':'), fields[name])
	}
	e := &encoder{lineID: c.ID[:min(len(c.ID), 48)]}
	for i, level := range []string{levelStdout, levelStderr} {
		e.head[i] = append(slices.Clip(b), `,"level":`+level+`,"timestamp":`...)
	}
	return e
}

// nameField returns the name of an attribute's field.
func nameField(attr string) string {
	if attr[0] == '_' {
		return attr
	}
	return "_" + attr
}

// headSize returns how many bytes all messages have before their text.
func (e *encoder) headSize() int { return len(e.head[0]) }

// appendMessage appends the message with a part of a record.
func (e *encoder) appendMessage(b []byte, r *logsink.Record, c cut) []byte {
	stream := 0
	if r.Stream == stdio.Stderr {
		stream = 1
	}
	b = appendTime(append(b, e.head[stream]...), r.At)
	b = appendString(append(b, `,"short_message":`...), c.text)
	if r.LineID != 0 || c.part != 0 {
		b = e.appendMarks(b, r, c)
	}
	return append(b, '}')
}

// appendMarks appends what tells that a message is a piece of a line. A record that is cut keeps its number in the line, and
// its parts have numbers of their own.
func (e *encoder) appendMarks(b []byte, r *logsink.Record, c cut) []byte {
	id := r.LineID
	if id == 0 {
		id = uint64(r.At.UnixNano())
	}
	digits := strconv.FormatUint(id, 16)
	b = append(b, `,"_partial_message":"true","_partial_id":"`...)
	b = append(append(append(b, e.lineID...), "0000000000000000"[len(digits):]...), digits...)
	b = strconv.AppendInt(append(b, `","_partial_ordinal":`...), int64(max(r.Ordinal, 1)), 10)
	if c.part != 0 {
		b = strconv.AppendInt(append(b, `,"_partial_part":`...), int64(c.part), 10)
	}
	b = append(b, `,"_partial_last":"`...)
	return append(strconv.AppendBool(b, (r.LineID == 0 || r.Last) && c.last), '"')
}

// appendTime appends seconds with six decimals: what the receivers' floating point numbers hold.
func appendTime(b []byte, at time.Time) []byte {
	b = append(strconv.AppendInt(b, at.Unix(), 10), '.')
	for unit := time.Second / 10; unit >= time.Microsecond; unit /= 10 {
		b = append(b, '0'+byte(at.Nanosecond()/int(unit)%10))
	}
	return b
}

// appendString appends s as a JSON string. What is not UTF-8 becomes U+FFFD.
func appendString[T string | []byte](b []byte, s T) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)])); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		b = append(b, s[start:i]...)
		switch {
		case c >= utf8.RuneSelf:
			b = append(b, "\uFFFD"...)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i += size
		start = i
	}
	return append(append(b, s[start:]...), '"')
}
