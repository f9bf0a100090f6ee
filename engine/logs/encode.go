package logs

import (
	"encoding/binary"
	"math/bits"
	"time"
	"unicode/utf8"

	"moss/engine/stdio"
)

const (
	entryHead = `{"log":"`
	hex       = "0123456789abcdef"
)

// entryMiddle returns what stands between the text and the time in a stream's entries. attrs is a JSON object, or empty.
func entryMiddle(stream stdio.Stream, attrs []byte) []byte {
	m := `","stream":"stdout"`
	if stream == stdio.Stderr {
		m = `","stream":"stderr"`
	}
	if len(attrs) > 0 {
		m += attrsHead + string(attrs)
	}
	return []byte(m + timeHead)
}

// appendTail appends what follows the text of an entry.
func appendTail(dst, middle []byte, at time.Time) []byte {
	dst = append(dst, middle...)
	dst = at.UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, "\"}\n"...)
}

// appendEntry appends one line of the file.
func appendEntry(dst, text, tail []byte) []byte {
	dst = append(dst, entryHead...)
	if n := len(text); n > 0 && text[n-1] == '\n' {
		dst = appendEscaped(dst, text[:n-1])
		dst = append(dst, `\n`...)
	} else {
		dst = appendEscaped(dst, text)
	}
	return append(dst, tail...)
}

// appendEscaped appends text as the inside of a JSON string, byte for byte as the json-file format has it: beyond what
// JSON asks, <, >, & and the two Unicode line ends are escaped, and what is not UTF-8 becomes U+FFFD.
func appendEscaped(dst, text []byte) []byte {
	start, i := 0, 0
	for {
		i += plainLen(text[i:])
		if i >= len(text) {
			return append(dst, text[start:]...)
		}
		c := text[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(text[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				dst = append(dst, text[start:i]...)
				dst = append(dst, `\ufffd`...)
			case r == '\u2028' || r == '\u2029':
				dst = append(dst, text[start:i]...)
				dst = append(dst, `\u202`...)
				dst = append(dst, hex[r&15])
			default:
				i += size
				continue
			}
			i += size
			start = i
			continue
		}
		dst = append(dst, text[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
}

// plainLen returns how many bytes at the beginning of s go into the file as they are. It looks at eight bytes at a time:
// each of the terms has the high bit set in those bytes that need care, and perhaps, by a borrow, in a byte above one of
// those: so the lowest one is right.
func plainLen(s []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(s); i += 8 {
		v := binary.LittleEndian.Uint64(s[i:])
		quote := v ^ ones*'"'
		amp := v ^ ones*'&'
		back := v ^ ones*'\\'
		angle := v&^(ones*2) ^ ones*'<' // < and > differ in one bit
		care := v | (v - ones*0x20) | (quote - ones) | (amp - ones) | (back - ones) | (angle - ones)
		if care &= highs; care != 0 {
			return i + bits.TrailingZeros64(care)/8
		}
	}
	for ; i < len(s); i++ {
		if needsCare(s[i]) {
			return i
		}
	}
	return i
}

func needsCare(c byte) bool {
	return c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
}
