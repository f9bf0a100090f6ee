package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"strconv"
	"time"

	"moss/engine/event"
)

// maxLine is how many bytes an event may have. A request's body, with its labels, may have more; such an event reaches
// who listens now and no later listener.
const maxLine = 1 << 20

// form is an event in a line, behind "CHECKSUM TIME NUMBER " (hexadecimal, nanoseconds, decimal).
type form struct {
	Type       string            `json:"type"`
	Action     string            `json:"action"`
	ID         string            `json:"id"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

const checksumLen = 8

// appendLine adds an event with its newline.
func appendLine(to []byte, p *event.Published) []byte {
	begin := len(to)
	to = append(to, "00000000 "...)
	to = append(strconv.AppendInt(to, p.Time.UnixNano(), 10), ' ')
	to = append(strconv.AppendUint(to, p.Seq, 10), ' ')
	raw, err := json.Marshal(form{Type: p.Type, Action: p.Action, ID: p.ID, Attributes: p.Attributes})
	if err != nil {
		return to[:begin] // strings always have a form
	}
	to = append(to, raw...)
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(to[begin+checksumLen+1:]))
	hex.Encode(to[begin:], sum)
	return append(to, '\n')
}

// linePlace reads where the event of a line without its newline stands, without looking at the rest.
func linePlace(line []byte) (place event.Place, body []byte, ok bool) {
	if len(line) < checksumLen+1 || line[checksumLen] != ' ' {
		return place, nil, false
	}
	at, rest, ok := bytes.Cut(line[checksumLen+1:], []byte(" "))
	number, body, okToo := bytes.Cut(rest, []byte(" "))
	if !ok || !okToo {
		return place, nil, false
	}
	var err, errToo error
	place.Nanos, err = strconv.ParseInt(string(at), 10, 64)
	place.Seq, errToo = strconv.ParseUint(string(number), 10, 64)
	return place, body, err == nil && errToo == nil && place.Nanos > 0 && place.Seq > 0
}

// isWhole reports whether a line is as it was written.
func isWhole(line []byte) bool {
	if len(line) < checksumLen+1 {
		return false
	}
	want, err := hex.DecodeString(string(line[:checksumLen]))
	return err == nil && binary.BigEndian.Uint32(want) == crc32.ChecksumIEEE(line[checksumLen+1:])
}

// parseLine reads a line without its newline. It is false for one that is damaged.
func parseLine(line []byte) (*event.Published, bool) {
	place, body, ok := linePlace(line)
	if !ok || !isWhole(line) {
		return nil, false
	}
	var f form
	if json.Unmarshal(body, &f) != nil {
		return nil, false
	}
	return &event.Published{Seq: place.Seq, Event: event.Event{
		Type: f.Type, Action: f.Action, ID: f.ID, Attributes: f.Attributes, Time: time.Unix(0, place.Nanos),
	}}, true
}

// lastLine returns the end of the last whole line, behind its newline, and its event's place.
func lastLine(raw []byte) (end int, place event.Place) {
	end = bytes.LastIndexByte(raw, '\n') + 1
	for end > 0 {
		begin := bytes.LastIndexByte(raw[:end-1], '\n') + 1
		line := raw[begin : end-1]
		if place, _, ok := linePlace(line); ok && isWhole(line) {
			return end, place
		}
		end = begin
	}
	return 0, event.Place{}
}
