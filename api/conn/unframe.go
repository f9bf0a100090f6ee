package conn

import (
	"moss/engine/stdio"
)

// unframer takes the frames off output that comes in pieces of any size. The zero value is ready.
type unframer struct {
	header [stdio.HeaderSize]byte
	have   int // bytes of header
	stream stdio.Stream
	left   int // bytes of the payload still to come
}

// emitPayloads takes the next piece and passes the payloads in it to emit, each with its stream; what is for stdin goes to
// stdout, as the documents say. fault.Invalid for bytes that are no frame, or the first error of emit.
func (u *unframer) emitPayloads(p []byte, emit func(stream stdio.Stream, payload []byte) error) error {
	for len(p) > 0 {
		if u.left == 0 {
			n := copy(u.header[u.have:], p)
			u.have += n
			p = p[n:]
			if u.have < len(u.header) {
				return nil
			}
			var err error
			u.stream, u.left, err = stdio.ParseHeader(u.header[:])
			if err != nil {
				return err
			}
			if u.stream == stdio.Stdin {
				u.stream = stdio.Stdout
			}
			u.have = 0
			continue
		}
		n := min(len(p), u.left)
		u.left -= n
		if err := emit(u.stream, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}
