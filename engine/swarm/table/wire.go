package table

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"moss/engine/fault"
)

// MaxEntries is how many entries a table has at most: SwarmKit's own limits are lower.
const MaxEntries = 200_000

// The bounds of messages in bytes. A manager is believed more than a node: it sends tables, the node only sums.
const (
	maxDelta = 64 << 20
	maxHello = 16 << 20
	maxSmall = 4 << 10
)

// Hello is how a node begins.
type Hello struct {
	Version uint64 `json:"version"` // of the table it has; 0: none
	Sums    Sums   `json:"sums"`
}

// Applied is what a node says after each Delta.
type Applied struct {
	Version uint64 `json:"version"`
}

// writeMessage writes a message: four bytes of length and JSON. It is one Write.
func writeMessage(w io.Writer, limit int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	if len(data) > limit {
		return fault.Invalid("a %T of %d bytes is more than %d", v, len(data), limit)
	}
	all := make([]byte, 4, 4+len(data))
	binary.BigEndian.PutUint32(all, uint32(len(data)))
	_, err = w.Write(append(all, data...))
	return err
}

// readMessage reads a message into v. One that is longer than limit bytes or cannot be read is fault.Invalid; a length
// that is a lie costs no memory beyond what comes.
func readMessage(r io.Reader, limit int, v any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint32(length[:]))
	if n > int64(limit) {
		return fault.Invalid("a message of %d bytes is more than %d", n, limit)
	}
	data, err := io.ReadAll(io.LimitReader(r, n))
	if err != nil {
		return err
	}
	if int64(len(data)) < n {
		return io.ErrUnexpectedEOF
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fault.Invalid("decode %T: %w", v, err)
	}
	return nil
}
