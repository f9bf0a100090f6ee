package logs

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"moss/engine/stdio"
)

// Entry is one line of the log: a line of a stream, or a piece of a long or unfinished one.
type Entry struct {
	Stream stdio.Stream // Stdout or Stderr
	Time   time.Time    // in UTC
	Line   []byte       // with its newline, unless more of the line follows or it was never finished
	// Attrs are the attributes that the entry was written with; nil for none. Entries share it: it must not be changed.
	Attrs map[string]string
}

// parser turns lines of the file into entries. Entry.Line lives in its buffer until the next call.
type parser struct {
	text []byte
	// The attributes of an entry that was read the slow way. They are the same for all that a container's run writes, so
	// they are looked for as they stand in the file: `,"attrs":{…}`.
	known []byte
	attrs map[string]string
}

// What an entry written by this package has at fixed distances, so that it can be read without looking for it.
const (
	streamHead = `","stream":"`
	streamTail = `"`
	attrsHead  = `,"attrs":`
	timeHead   = `,"time":"`
	entryTail  = `"}`
	streamLen  = len("stdout")
	secondsLen = len("2006-01-02T15:04:05")
)

// parse reads one line of the file, without its newline. ok is false for anything that is not an entry.
func (p *parser) parse(line []byte) (e Entry, ok bool) {
	if e, ok = p.parseFast(line); ok {
		return e, true
	}
	e, attrs, ok := parseSlow(line)
	if ok && len(e.Attrs) > 0 {
		p.known, p.attrs = append(append(p.known[:0], attrsHead...), attrs...), e.Attrs
	}
	return e, ok
}

// parseFast takes lines in the form in which this package and most other engines write them, and no other.
func (p *parser) parseFast(line []byte) (e Entry, ok bool) {
	if len(line) < len(entryHead)+len(entryTail) || string(line[:len(entryHead)]) != entryHead ||
		string(line[len(line)-len(entryTail):]) != entryTail {
		return Entry{}, false
	}
	line = line[len(entryHead) : len(line)-len(entryTail)]
	quote := bytes.LastIndexByte(line, '"')
	if e.Time, ok = parseTime(line[quote+1:]); !ok {
		return Entry{}, false
	}
	line, ok = bytes.CutSuffix(line[:quote+1], []byte(timeHead))
	if !ok {
		return Entry{}, false
	}
	if len(p.known) > 0 {
		if rest, with := bytes.CutSuffix(line, p.known); with {
			line, e.Attrs = rest, p.attrs
		}
	}
	text := len(line) - len(streamHead) - streamLen - len(streamTail) // where it ends
	if text < 0 || string(line[text:text+len(streamHead)]) != streamHead || line[len(line)-1] != '"' {
		return Entry{}, false
	}
	if e.Stream, ok = parseStream(string(line[text+len(streamHead) : len(line)-1])); !ok {
		return Entry{}, false
	}
	if p.text, ok = appendUnescaped(p.text[:0], line[:text]); !ok {
		return Entry{}, false
	}
	e.Line = p.text
	return e, true
}

// parseSlow takes any JSON object with the right fields, whatever else it has. attrs is the text of Entry.Attrs.
func parseSlow(line []byte) (e Entry, attrs []byte, ok bool) {
	var v struct {
		Log    *string         `json:"log"`
		Stream string          `json:"stream"`
		Attrs  json.RawMessage `json:"attrs"`
		Time   time.Time       `json:"time"`
	}
	if err := json.Unmarshal(line, &v); err != nil || v.Log == nil {
		return Entry{}, nil, false
	}
	e = Entry{Time: v.Time.UTC(), Line: []byte(*v.Log)}
	if json.Unmarshal(v.Attrs, &e.Attrs) != nil { // another engine's: they are no reason to lose the line
		e.Attrs = nil
	}
	e.Stream, ok = parseStream(v.Stream)
	return e, v.Attrs, ok
}

func parseStream(name string) (stdio.Stream, bool) {
	switch name {
	case "stdout":
		return stdio.Stdout, true
	case "stderr":
		return stdio.Stderr, true
	default:
		return 0, false
	}
}

// parseTime reads RFC 3339 in UTC with up to nine digits of a second's fraction.
func parseTime(s []byte) (time.Time, bool) {
	if len(s) < secondsLen+1 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[len(s)-1] != 'Z' {
		return time.Time{}, false
	}
	year, month, day := parseDigits(s[0:4]), parseDigits(s[5:7]), parseDigits(s[8:10])
	hour, minute, second := parseDigits(s[11:13]), parseDigits(s[14:16]), parseDigits(s[17:19])
	nanos := parseFraction(s[secondsLen : len(s)-1])
	if !isDate(year, month, day) || uint(hour) > 23 || uint(minute) > 59 || uint(second) > 59 || nanos < 0 {
		return time.Time{}, false
	}
	return time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC), true
}

// parseFraction returns the nanoseconds of a fraction with its point, 0 without one; -1 if it is none.
func parseFraction(s []byte) int {
	if len(s) == 0 {
		return 0
	}
	if s[0] != '.' || len(s) < 2 || len(s) > 10 {
		return -1
	}
	nanos := parseDigits(s[1:])
	for n := len(s); n < 10; n++ {
		nanos *= 10
	}
	return nanos
}

func isDate(year, month, day int) bool {
	return year >= 0 && month >= 1 && month <= 12 && day >= 1 && (day <= 28 || day <= daysIn(year, month))
}

// daysIn returns the length of a month.
func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// parseDigits returns the number that s spells, or -1.
func parseDigits(s []byte) int {
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// appendUnescaped appends what the inside of a JSON string stands for. ok is false if s has a quote of its own, which
// means that the string ended before, or an escape that JSON does not know.
func appendUnescaped(dst, s []byte) (out []byte, ok bool) {
	for {
		run := s
		esc := bytes.IndexByte(s, '\\')
		if esc >= 0 {
			run = s[:esc]
		}
		if bytes.IndexByte(run, '"') >= 0 {
			return dst, false
		}
		dst = append(dst, run...)
		if esc < 0 {
			return dst, true
		}
		if s = s[esc+1:]; len(s) == 0 {
			return dst, false
		}
		if s[0] == 'u' {
			r, size := unescapeRune(s)
			if size == 0 {
				return dst, false
			}
			dst = utf8.AppendRune(dst, r)
			s = s[size:]
			continue
		}
		i := strings.IndexByte(`"\/nrtbf`, s[0])
		if i < 0 {
			return dst, false
		}
		dst = append(dst, "\"\\/\n\r\t\b\f"[i])
		s = s[1:]
	}
}

// unescapeRune reads uXXXX, or two of them that make one rune, and returns how many bytes that took; 0 if it is none.
// Half a pair stands for U+FFFD.
func unescapeRune(s []byte) (r rune, size int) {
	r = hexRune(s)
	if r < 0 {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 5
	}
	if len(s) > 6 && s[5] == '\\' {
		if second := hexRune(s[6:]); second >= 0 {
			if pair := utf16.DecodeRune(r, second); pair != utf8.RuneError {
				return pair, 11
			}
		}
	}
	return utf8.RuneError, 5
}

// hexRune reads uXXXX; -1 if s begins otherwise.
func hexRune(s []byte) rune {
	if len(s) < 5 || s[0] != 'u' {
		return -1
	}
	var r rune
	for _, c := range s[1:5] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
