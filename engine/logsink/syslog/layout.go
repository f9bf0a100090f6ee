package syslog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"moss/engine/logdriver"
	"moss/engine/logsink"
	"moss/engine/stdio"
)

// The severities of what a container writes (RFC 5424, 6.2.1).
const (
	severityError         = 3 // its error output
	severityInformational = 6
)

// What a field of RFC 5424, 6.2, has at most, in bytes.
const (
	mostHost    = 255
	mostProgram = 48
	mostKind    = 32
)

// layout makes what stands before the text of a message. Between priority and time, and behind the time, it is the same for
// all records of a container.
type layout struct {
	output, errors string // the priority, up to the time
	time           string // as package time takes it
	rest           string // behind the time
}

// newLayout returns the layout of a container's messages.
func newLayout(o logdriver.Syslog, c logsink.Container, pid int) layout {
	l := layout{
		output: fmt.Sprintf("<%d>", o.Facility*8+severityInformational),
		errors: fmt.Sprintf("<%d>", o.Facility*8+severityError),
		time:   time.Stamp,
	}
	switch o.Format {
	case logdriver.SyslogRFC5424, logdriver.SyslogRFC5424Micro:
		l.output, l.errors = l.output+"1 ", l.errors+"1 "
		l.time = "2006-01-02T15:04:05Z07:00"
		if o.Format == logdriver.SyslogRFC5424Micro {
			l.time = "2006-01-02T15:04:05.000000Z07:00"
		}
		program := makeField(c.Tag, '~', mostProgram)
		l.rest = fmt.Sprintf(" %s %s %d %s - ", makeField(c.Host, '~', mostHost), program, pid, makeField(c.Tag, '~', mostKind))
		l.rest += makeAttrs(c, program)
	default:
		program := makeField(c.Tag, utf8.MaxRune, mostHeader)
		l.rest = fmt.Sprintf(" %s[%d]: ", program, pid)
		if o.Format == logdriver.SyslogRFC3164 {
			l.rest = " " + makeField(c.Host, utf8.MaxRune, mostHeader) + l.rest
		}
		l.rest += makeAttrs(c, program)
	}
	return l
}

// headerSize returns the bytes that appendHeader adds at most.
func (l *layout) headerSize() int {
	return len(l.output) + len(l.time) + len(l.rest)
}

// appendHeader adds what stands before a record's text.
func (l *layout) appendHeader(b []byte, stream stdio.Stream, at time.Time) []byte {
	if stream == stdio.Stderr {
		b = append(b, l.errors...)
	} else {
		b = append(b, l.output...)
	}
	b = at.Local().AppendFormat(b, l.time)
	return append(b, l.rest...)
}

// makeField returns a text as a field that ends at a space: what is not a printable character up to last becomes an underscore,
// what is over a number of bytes is left out, and nothing is a minus.
func makeField(text string, last rune, most int) string {
	text = strings.Map(func(r rune) rune {
		if r <= ' ' || r > last || r >= 0x7f && r <= 0x9f || r == utf8.RuneError {
			return '_'
		}
		return r
	}, text)
	if text == "" {
		return "-"
	}
	return text[:findCut([]byte(text), most)]
}

// makeAttrs returns the labels and variables, and the tag where it does not fit the field of the program, each as NAME="VALUE"
// and a space. They stand before the text: an element of structured data (RFC 5424, 6.3) would need an enterprise number, and
// receivers that know the driver from elsewhere expect none. A name that is not plain is in the value, before an equals sign.
func makeAttrs(c logsink.Container, program string) string {
	var b strings.Builder
	if c.Tag != program {
		b.WriteString("tag=" + quoteValue(c.Tag) + " ")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Attrs)) {
		if makeField(name, '~', len(name)) != name || strings.ContainsAny(name, `="`) {
			b.WriteString("attr=" + quoteValue(name+"="+c.Attrs[name]) + " ")
		} else {
			b.WriteString(name + "=" + quoteValue(c.Attrs[name]) + " ")
		}
	}
	return b.String()
}

// quoteValue returns a value in quotes, which is UTF-8. Control characters are written as rsyslog writes them.
func quoteValue(value string) string {
	b := []byte{'"'}
	for _, r := range value {
		switch {
		case r < ' ' || r == 0x7f:
			b = appendOctal(b, byte(r))
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return string(append(b, '"'))
}

// appendOctal adds a byte as a hash and three digits.
func appendOctal(b []byte, c byte) []byte {
	digits := strconv.FormatUint(uint64(c), 8)
	return append(append(append(b, '#'), "000"[len(digits):]...), digits...)
}

// findCut returns the bytes of a text that make its first piece: most, or fewer where these would end within a character.
func findCut(text []byte, most int) int {
	if len(text) <= most {
		return len(text)
	}
	for size := most; size > 0 && size > most-utf8.UTFMax; size-- {
		if utf8.RuneStart(text[size]) {
			return size
		}
	}
	return most
}
