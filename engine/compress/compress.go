// Package compress takes the compression off archives that come from outside: gzip, bzip2, xz and zstd, by Go code alone and
// with bounded memory. It knows nothing of what is inside.
package compress

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"moss/engine/fault"
)

const (
	// maxWindow bounds what a decompressor must remember of its output: zstd -T0 --ultra --long=27 and xz -9 fit.
	maxWindow = 128 << 20
	sniffLen  = 64        // bytes looked at to tell the compression
	inputLen  = 128 << 10 // bytes taken from the source at once
)

// Source counts what is read of an archive and remembers why that ended, so that a fault of the way here is not taken for
// one of the data.
type Source struct {
	src io.Reader
	n   atomic.Int64 // who reads ahead and who counts may be two
	err error
}

// From returns the source that reads from src.
func From(src io.Reader) *Source { return &Source{src: src} }

// Read reads from the source.
func (s *Source) Read(p []byte) (int, error) {
	n, err := s.src.Read(p)
	s.n.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Count returns how many bytes were read so far. It may be called while somebody reads.
func (s *Source) Count() int64 { return s.n.Load() }

// Plain returns the plain archive of src, which may be plain or compressed with gzip, bzip2, xz or zstd; nothing at all is
// plain. It runs no program. The caller closes what it gets, which leaves src alone.
//
// Errors of the source stay what they are; data that cannot be decompressed, or needs too much memory, is fault.Invalid.
func Plain(src *Source) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(src, inputLen)
	head, err := in.Peek(sniffLen)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	plain, err := decoderFor(head, in)
	d := &decoder{plain: plain, src: src}
	if errors.Is(err, io.EOF) {
		return nil, Truncated() // in the compression's own header
	}
	if err != nil {
		return nil, d.translateError(err)
	}
	return d, nil
}

// Truncated is the one wording for an archive that ends too early.
func Truncated() error { return fault.Invalid("unexpected EOF: the archive is truncated") }

// decoderFor returns the decompressor that the archive's first bytes call for.
func decoderFor(head []byte, in io.Reader) (io.ReadCloser, error) {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b, 0x08}):
		return gzip.NewReader(in)
	case bytes.HasPrefix(head, []byte("BZh")) && len(head) > 3 && head[3] >= '1' && head[3] <= '9':
		return io.NopCloser(bzip2.NewReader(in)), nil
	case bytes.HasPrefix(head, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		r, err := xz.NewReader(in, maxWindow) // holds for every block of every stream
		return io.NopCloser(r), err
	case isZstd(head):
		r, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return r.IOReadCloser(), nil
	default:
		return io.NopCloser(in), nil
	}
}

// decoder words the errors of a decompressor.
type decoder struct {
	plain io.ReadCloser
	src   *Source
}

// Read returns plain bytes.
func (d *decoder) Read(p []byte) (int, error) {
	n, err := d.plain.Read(p)
	return n, d.translateError(err)
}

// Close ends the decompressor.
func (d *decoder) Close() error { return d.plain.Close() }

// translateError gives an error its text, and tells one of the source from one of the data.
func (d *decoder) translateError(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF) || fault.Is(err, fault.Invalid):
		return err
	case d.src.err != nil:
		return fmt.Errorf("read the archive: %w", d.src.err)
	case errors.Is(err, xz.ErrMemlimit):
		return fault.Invalid("the archive needs a dictionary of more than %d bytes", maxWindow)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, xz.ErrBuf):
		return Truncated()
	default:
		return fault.Invalid("the archive cannot be decompressed: %w", err)
	}
}

// isZstd tells a zstd frame, or a frame to skip before one (RFC 8878, 3.1).
func isZstd(head []byte) bool {
	if len(head) < 4 {
		return false
	}
	magic := binary.LittleEndian.Uint32(head)
	return magic == 0xfd2fb528 || magic&0xfffffff0 == 0x184d2a50
}
