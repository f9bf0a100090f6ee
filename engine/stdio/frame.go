package stdio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"moss/engine/fault"
)

// HeaderSize is the length in bytes of a frame's header: the stream, three zeros, the payload's size in big endian.
const HeaderSize = 8

// MaxFrame is the largest payload in bytes that a reader accepts. Engines send at most some tens of kilobytes at a
// time; a size beyond this one comes from a stream that is not framed at all.
const MaxFrame = 16 << 20

// maxWrite is the largest payload in bytes that a FrameWriter puts into one frame; it bounds the writer's memory.
const maxWrite = 64 << 10

// AppendHeader appends the header of a frame with size bytes of payload to dst.
func AppendHeader(dst []byte, stream Stream, size int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, byte(stream), 0, 0, 0), uint32(size))
}

// ParseHeader reads a frame's header, which must be HeaderSize bytes long. fault.Invalid for an unknown stream, padding
// that is not zero, or a size above MaxFrame.
func ParseHeader(h []byte) (Stream, int, error) {
	size := binary.BigEndian.Uint32(h[4:HeaderSize])
	switch {
	case h[0] > byte(Stderr), h[1]|h[2]|h[3] != 0:
		return 0, 0, fault.Invalid("not a frame header: % x", h[:HeaderSize])
	case size > MaxFrame:
		return 0, 0, fault.Invalid("frame of %d bytes is larger than %d", size, MaxFrame)
	}
	return Stream(h[0]), int(size), nil
}

// FrameWriter wraps everything written to it in frames of one stream. Each frame reaches the writer below in one Write.
// It is not safe for several goroutines.
type FrameWriter struct {
	w      io.Writer
	stream Stream
	buf    []byte
}

// NewFrameWriter returns a writer of stream's frames on w. Closing w is left to the caller.
func NewFrameWriter(w io.Writer, stream Stream) *FrameWriter {
	return &FrameWriter{w: w, stream: stream}
}

// Write sends p in one or more frames and returns the number of payload bytes sent. An empty p sends nothing.
func (f *FrameWriter) Write(p []byte) (int, error) {
	sent := 0
	for len(p) > 0 {
		n := min(len(p), maxWrite)
		f.buf = append(AppendHeader(f.buf[:0], f.stream, n), p[:n]...)
		if m, err := f.w.Write(f.buf); err != nil {
			return sent + max(0, m-HeaderSize), err
		}
		sent += n
		p = p[n:]
	}
	return sent, nil
}

// ReadFrame reads one frame from r. The payload is stored in buf if it fits and is valid until buf is used again.
// It returns io.EOF at a clean end between frames, io.ErrUnexpectedEOF inside one, and fault.Invalid for bytes that are
// no frame.
func ReadFrame(r io.Reader, buf []byte) (Stream, []byte, error) {
	stream, size, err := readHeader(r)
	if err != nil {
		return 0, nil, err
	}
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	if _, err := io.ReadFull(r, buf); err != nil {
		return 0, nil, unexpectedEOF(err)
	}
	return stream, buf, nil
}

// Demux copies the frames of src to their writers until src ends; frames of stdin go to stdout, as the documents say. A
// nil writer discards its stream. It returns nil at a clean end, io.ErrUnexpectedEOF inside a frame, fault.Invalid for
// bytes that are no frame, or the first error of a reader or writer.
func Demux(src io.Reader, stdout, stderr io.Writer) error {
	if stdout == nil {
		stdout = io.Discard
	}
	if stderr == nil {
		stderr = io.Discard
	}
	buf := make([]byte, maxWrite)
	for {
		stream, size, err := readHeader(src)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		dst := stdout
		if stream == Stderr {
			dst = stderr
		}
		if err := copyPayload(dst, src, size, buf); err != nil {
			return fmt.Errorf("copy %s: %w", stream, err)
		}
	}
}

func readHeader(r io.Reader) (Stream, int, error) {
	var h [HeaderSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, 0, err
	}
	return ParseHeader(h[:])
}

func copyPayload(dst io.Writer, src io.Reader, size int, buf []byte) error {
	for size > 0 {
		n, err := src.Read(buf[:min(size, len(buf))])
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
			size -= n
		}
		if err != nil && size > 0 {
			return unexpectedEOF(err)
		}
	}
	return nil
}

func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
