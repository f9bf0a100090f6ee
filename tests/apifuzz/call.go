package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// manner is how a call treats its connection.
type manner int

// The manners. Only polite, streaming and talking calls have an answer to be judged.
const (
	polite    manner = iota // sends all, reads all
	streaming               // sends all, reads for a while, hangs up
	talking                 // sends all, writes input once the answer has begun, reads to the end or for a while
	torn                    // hangs up in the middle of its body
	short                   // ends its side in the middle of its body, then reads
	rude                    // sends all and hangs up without an answer
	half                    // sends all, ends its side, then reads
)

func (m manner) String() string {
	return [...]string{"", "reads for a while", "writes input", "hangs up in the body", "ends its side in the body", "hangs up at once", "ends its side"}[m]
}

// call is one request.
type call struct {
	method  string
	route   string // of the table, METHOD /path/:with/parameters; empty: none is meant
	version string // 1.18 to 1.24, or empty
	path    string // escaped, without the version
	query   string // encoded
	header  map[string]string
	body    []byte
	chunked bool // the body's length is not told
	old     bool // HTTP/1.0

	manner manner
	cut    int           // bytes of the body that a torn or short call sends
	linger time.Duration // how long a streaming, talking or rude call stays
	input  []byte        // what a talking call writes
	finish bool          // a talking call ends its side after its input, and reads to the end
	keep   bool          // the whole body of the answer is wanted
}

// requestTarget returns what stands in the request line.
func (c *call) requestTarget() string {
	t := c.path
	if c.version != "" {
		t = "/v" + c.version + t
	}
	if c.query != "" {
		t += "?" + c.query
	}
	return t
}

// minorVersion returns the second number of the call's version, that of the newest without one.
func (c *call) minorVersion() int {
	_, digits, found := strings.Cut(c.version, ".")
	if n, err := strconv.Atoi(digits); found && err == nil {
		return n
	}
	return newest
}

// curlLine returns the call as a line for a shell, with what curl cannot do as a remark.
func (c *call) curlLine(socket string) string {
	var b strings.Builder
	b.WriteString("curl -sS -i --unix-socket " + shellQuote(socket))
	if c.method == "HEAD" {
		b.WriteString(" --head")
	} else {
		b.WriteString(" -X " + shellQuote(c.method))
	}
	if c.old {
		b.WriteString(" --http1.0")
	}
	if c.chunked {
		b.WriteString(" -H 'Transfer-Encoding: chunked'")
	}
	for _, name := range sortedKeys(c.header) {
		b.WriteString(" -H " + shellQuote(name+": "+shortenText(c.header[name])))
	}
	if len(c.body) > 0 {
		if len(c.body) > maxShown {
			fmt.Fprintf(&b, " --data-binary @%d-bytes", len(c.body))
		} else {
			b.WriteString(" --data-binary " + shellQuote(string(c.body)))
		}
	}
	b.WriteString(" --path-as-is " + shellQuote("http://moss"+shortenText(c.requestTarget())))
	if c.manner != polite {
		fmt.Fprintf(&b, " # %s", c.manner)
		if c.manner == torn || c.manner == short {
			fmt.Fprintf(&b, " after %d bytes", c.cut)
		}
		if c.linger > 0 {
			fmt.Fprintf(&b, ", for %v", c.linger)
		}
		if len(c.input) > 0 {
			fmt.Fprintf(&b, ", input %q", c.input)
		}
	}
	return b.String()
}

// maxShown is the longest body, header or target in bytes that a curl line holds.
const maxShown = 2 << 10

// shortenText returns a text whose middle is left out where it is too long to be shown.
func shortenText(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return fmt.Sprintf("%s...(%d bytes)", s[:maxShown/2], len(s))
}

// shellQuote makes one word for bash of any text.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:=") == "" {
		return s
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '\'' || r == '\\' }) {
		return "'" + s + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == '\'' || ch == '\\':
			b.WriteByte('\\')
			b.WriteByte(ch)
		case ch < ' ' || ch > '~':
			fmt.Fprintf(&b, `\x%02x`, ch)
		default:
			b.WriteByte(ch)
		}
	}
	b.WriteString("'")
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
