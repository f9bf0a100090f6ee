package worker

import (
	"io"

	"moss/engine/stdio"
)

// What stands around each piece of the error stream: red letters, as clients of the classic protocol are used to.
const (
	red   = "\x1b[91m"
	plain = "\x1b[0m"
)

// screen is the connection of a viewer who types nothing: the frames that come in are taken apart and go to out as they
// come, those of the error stream in red.
type screen struct {
	out    io.Writer
	header [stdio.HeaderSize]byte
	have   int // bytes of the header
	rest   int // bytes of the frame that are still to come
	stream stdio.Stream
	failed bool
}

// Read is the end of the input.
func (s *screen) Read([]byte) (int, error) { return 0, io.EOF }

// Write takes a piece of the stream of frames. What out does not want any more is dropped: the command runs on.
func (s *screen) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if s.rest == 0 {
			n := copy(s.header[s.have:], rest)
			s.have, rest = s.have+n, rest[n:]
			if s.have < len(s.header) {
				break
			}
			stream, size, err := stdio.ParseHeader(s.header[:])
			if err != nil {
				return 0, err
			}
			if s.have, s.rest, s.stream = 0, size, stream; stream == stdio.Stderr && size > 0 {
				s.writeOut([]byte(red))
			}
			continue
		}
		n := min(s.rest, len(rest))
		s.writeOut(rest[:n])
		if s.rest, rest = s.rest-n, rest[n:]; s.rest == 0 && s.stream == stdio.Stderr {
			s.writeOut([]byte(plain))
		}
	}
	return len(p), nil
}

func (s *screen) writeOut(p []byte) {
	if !s.failed {
		_, err := s.out.Write(p)
		s.failed = err != nil
	}
}

// Close does nothing: out is the caller's.
func (s *screen) Close() error { return nil }
