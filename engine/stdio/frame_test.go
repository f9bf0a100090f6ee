package stdio_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"moss/engine/fault"
	"moss/engine/stdio"
)

func TestFrameWriter(t *testing.T) {
	var buf bytes.Buffer
	out := stdio.NewFrameWriter(&buf, stdio.Stdout)
	errw := stdio.NewFrameWriter(&buf, stdio.Stderr)
	if n, err := out.Write([]byte("hello\n")); n != 6 || err != nil {
		t.Fatalf("Write = %d, %v, want 6, nil", n, err)
	}
	if n, err := errw.Write(nil); n != 0 || err != nil {
		t.Fatalf("empty Write = %d, %v, want 0, nil", n, err)
	}
	if _, err := errw.Write([]byte("no")); err != nil {
		t.Fatal(err)
	}
	want := "\x01\x00\x00\x00\x00\x00\x00\x06hello\n\x02\x00\x00\x00\x00\x00\x00\x02no"
	if got := buf.String(); got != want {
		t.Errorf("frames = %q, want %q", got, want)
	}
}

func TestFrameWriterSplitsLargeWrites(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789abcdef"), 20<<10)
	var buf bytes.Buffer
	if n, err := stdio.NewFrameWriter(&buf, stdio.Stderr).Write(payload); n != len(payload) || err != nil {
		t.Fatalf("Write = %d, %v, want %d, nil", n, err, len(payload))
	}
	var out, errs bytes.Buffer
	if err := stdio.Demux(iotest.HalfReader(&buf), &out, &errs); err != nil {
		t.Fatal(err)
	}
	if out.Len() != 0 || !bytes.Equal(errs.Bytes(), payload) {
		t.Errorf("Demux gave %d and %d bytes, want 0 and the %d written", out.Len(), errs.Len(), len(payload))
	}
}

type failingWriter struct{ room int }

func (f *failingWriter) Write(p []byte) (int, error) {
	if len(p) > f.room {
		return f.room, io.ErrShortWrite
	}
	f.room -= len(p)
	return len(p), nil
}

func TestFrameWriterCountsPayload(t *testing.T) {
	for room, want := range map[int]int{0: 0, 8: 0, 10: 2} {
		n, err := stdio.NewFrameWriter(&failingWriter{room}, stdio.Stdout).Write([]byte("hello"))
		if n != want || err == nil {
			t.Errorf("Write with room for %d bytes = %d, %v, want %d and an error", room, n, err, want)
		}
	}
}

func TestReadFrame(t *testing.T) {
	frame := string(stdio.AppendHeader(nil, stdio.Stdin, 3)) + "abc"
	for _, tc := range []struct {
		name, in, payload string
		stream            stdio.Stream
		err               error
		invalid           bool
	}{
		{name: "stdin", in: frame, payload: "abc"},
		{name: "empty payload", in: "\x02\x00\x00\x00\x00\x00\x00\x00", stream: stdio.Stderr},
		{name: "end", in: "", err: io.EOF},
		{name: "cut header", in: frame[:5], err: io.ErrUnexpectedEOF},
		{name: "cut after header", in: frame[:8], err: io.ErrUnexpectedEOF},
		{name: "cut payload", in: frame[:10], err: io.ErrUnexpectedEOF},
		{name: "unknown stream", in: "\x03\x00\x00\x00\x00\x00\x00\x01x", invalid: true},
		{name: "plain text", in: "total 12 bytes", invalid: true},
		{name: "padding", in: "\x01\x00\x01\x00\x00\x00\x00\x01x", invalid: true},
		{name: "too large", in: "\x01\x00\x00\x00\x7f\x00\x00\x00", invalid: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stream, payload, err := stdio.ReadFrame(strings.NewReader(tc.in), make([]byte, 1))
			if tc.err != nil || tc.invalid {
				if tc.err != nil && !errors.Is(err, tc.err) || tc.invalid && !fault.Is(err, fault.Invalid) {
					t.Errorf("ReadFrame(%q) = %v, want %v (invalid %v)", tc.in, err, tc.err, tc.invalid)
				}
				return
			}
			if err != nil || stream != tc.stream || string(payload) != tc.payload {
				t.Errorf("ReadFrame(%q) = %v, %q, %v, want %v, %q", tc.in, stream, payload, err, tc.stream, tc.payload)
			}
		})
	}
}

func TestDemux(t *testing.T) {
	in := "\x01\x00\x00\x00\x00\x00\x00\x02ab\x02\x00\x00\x00\x00\x00\x00\x01E\x00\x00\x00\x00\x00\x00\x00\x01c"
	var out, errs strings.Builder
	if err := stdio.Demux(iotest.OneByteReader(strings.NewReader(in)), &out, &errs); err != nil {
		t.Fatal(err)
	}
	if out.String() != "abc" || errs.String() != "E" {
		t.Errorf("Demux = %q, %q, want %q, %q", out.String(), errs.String(), "abc", "E")
	}
	if err := stdio.Demux(strings.NewReader(in), nil, nil); err != nil {
		t.Errorf("Demux to nil writers = %v, want nil", err)
	}
	if err := stdio.Demux(strings.NewReader(in[:9]), nil, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Demux of a cut stream = %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if err := stdio.Demux(strings.NewReader(in), &failingWriter{1}, nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Demux to a failing writer = %v, want %v", err, io.ErrShortWrite)
	}
}

func FuzzDemux(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x02ab\x02\x00\x00\x00\x00\x00\x00\x01E"))
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out, errs bytes.Buffer
		demuxErr := stdio.Demux(bytes.NewReader(in), &out, &errs)
		// The other reader must agree on every whole frame and on how the stream ends.
		var out2, errs2 bytes.Buffer
		r := bytes.NewReader(in)
		for {
			stream, payload, err := stdio.ReadFrame(r, nil)
			if err != nil {
				if clean := errors.Is(err, io.EOF); clean != (demuxErr == nil) {
					t.Fatalf("ReadFrame ends with %v, Demux with %v", err, demuxErr)
				}
				break
			}
			if stream == stdio.Stderr {
				errs2.Write(payload)
			} else {
				out2.Write(payload)
			}
		}
		if !bytes.HasPrefix(out.Bytes(), out2.Bytes()) || !bytes.HasPrefix(errs.Bytes(), errs2.Bytes()) {
			t.Fatalf("Demux(%q) = %q, %q, ReadFrame gave %q, %q", in, &out, &errs, &out2, &errs2)
		}
	})
}
