package stdio

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"moss/engine/fault"
)

// ErrDetached is what a detach reader returns once the detach keys were typed.
var ErrDetached = errors.New("detached by the keys")

// DefaultDetachKeys is the sequence that applies when a client asks for none.
const DefaultDetachKeys = "ctrl-p,ctrl-q"

// ParseDetachKeys turns a comma-separated list of keys into the bytes a terminal sends for them. A key is a letter or
// ctrl-<value> with a value of a-z, @, ^, [, \, ], _ or the comma (API document 2, 4.1 start). An empty text gives
// DefaultDetachKeys; anything else is fault.Invalid.
func ParseDetachKeys(keys string) ([]byte, error) {
	if keys == "" {
		keys = DefaultDetachKeys
	}
	var seq []byte
	for rest, more := keys, true; more; {
		var key string
		if after, ok := strings.CutPrefix(rest, "ctrl-,"); ok && (after == "" || after[0] == ',') {
			key, rest, more = "ctrl-,", strings.TrimPrefix(after, ","), after != ""
		} else {
			key, rest, more = strings.Cut(rest, ",")
		}
		b, ok := keyByte(key)
		if !ok {
			return nil, fault.Invalid("detach keys %q: unknown key %q: want a letter or ctrl- and one of a-z @ ^ [ \\ ] , _", keys, key)
		}
		seq = append(seq, b)
	}
	return seq, nil
}

// keyByte returns what a terminal sends for one key.
func keyByte(key string) (byte, bool) {
	if len(key) == 1 {
		c := key[0]
		return c, c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	value, ok := strings.CutPrefix(key, "ctrl-")
	if !ok || len(value) != 1 {
		return 0, false
	}
	switch c := value[0]; {
	case c >= 'a' && c <= 'z':
		return c - 'a' + 1, true
	case strings.IndexByte(`@[\]^_`, c) >= 0:
		return c - '@', true
	case c == ',':
		return c, true // terminals know no control code for the comma and send it as it is
	default:
		return 0, false
	}
}

// DetachReader passes on what it reads until a key sequence comes by.
type DetachReader struct {
	r       io.Reader
	keys    []byte
	pending int    // bytes of keys that were typed and held back
	out     []byte // bytes that may be passed on
	err     error  // follows out
}

// NewDetachReader returns a reader of r that ends with ErrDetached when keys were read in a row. Bytes that might begin
// the sequence are held back until the next byte decides; they are passed on if it was not the sequence. With no keys
// it only passes on.
func NewDetachReader(r io.Reader, keys []byte) *DetachReader {
	return &DetachReader{r: r, keys: keys}
}

// Read reads what came before the key sequence. It never returns a byte of the sequence itself.
func (d *DetachReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(d.out) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		n, err := d.r.Read(p)
		if err == nil && d.pending == 0 && (len(d.keys) == 0 || bytes.IndexByte(p[:n], d.keys[0]) < 0) {
			return n, nil
		}
		d.scanKeys(p[:n])
		if err != nil && d.err == nil {
			d.releaseHeld(d.pending)
			d.err = err
		}
	}
	n := copy(p, d.out)
	d.out = d.out[n:]
	return n, nil
}

// AwaitInput blocks until Read would not. A reader below that cannot be waited for is not.
func (d *DetachReader) AwaitInput() error {
	if r, ok := d.r.(interface{ AwaitInput() error }); ok && len(d.out) == 0 && d.err == nil {
		return r.AwaitInput()
	}
	return nil
}

// scanKeys looks for the sequence in p. It moves the bytes of p that do not belong to the sequence to out.
func (d *DetachReader) scanKeys(p []byte) {
	d.out = d.out[:0]
	for _, c := range p {
		if len(d.keys) == 0 {
			d.out = append(d.out, c)
			continue
		}
		for d.pending > 0 && d.keys[d.pending] != c {
			d.releaseHeld(d.shiftCount())
		}
		if d.keys[d.pending] != c {
			d.out = append(d.out, c)
			continue
		}
		if d.pending++; d.pending == len(d.keys) {
			d.err = ErrDetached
			return
		}
	}
}

// shiftCount returns by how many bytes the held ones must move for their rest to begin the sequence again.
func (d *DetachReader) shiftCount() int {
	held := d.keys[:d.pending]
	for i := 1; i < len(held); i++ {
		if bytes.HasPrefix(d.keys, held[i:]) {
			return i
		}
	}
	return len(held)
}

// releaseHeld passes on the first n of the held bytes.
func (d *DetachReader) releaseHeld(n int) {
	d.out = append(d.out, d.keys[:n]...)
	d.pending -= n
}
