package worker

import (
	"io"

	"moss/engine/stdio"
)

// screen is the connection of a viewer who types nothing: the frames that come in are taken apart and go to out as they
// come, those of both streams alike.
type screen struct {
	out    io.Writer
	header [stdio.HeaderSize]byte
	have   int // bytes of the header
	rest   int // bytes of the frame that are still to come
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
			_, size, err := stdio.ParseHeader(s.header[:])
			if err != nil {
				return 0, err
			}
			s.have, s.rest = 0, size
			continue
		}
		n := min(s.rest, len(rest))
		if !s.failed {
			_, err := s.out.Write(rest[:n])
			s.failed = err != nil
		}
		s.rest, rest = s.rest-n, rest[n:]
	}
	return len(p), nil
}

// Close does nothing: out is the caller's.
func (s *screen) Close() error { return nil }
