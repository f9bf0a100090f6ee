package gelf

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
)

// packer compresses messages one by one.
type packer struct {
	w   compressor // nil: messages go as they are
	buf bytes.Buffer
}

// compressor is what writers of gzip and zlib have in common.
type compressor interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// newPacker returns a packer for gelf-compression-type and gelf-compression-level.
func newPacker(kind string, level int) (*packer, error) {
	p := &packer{}
	var err error
	switch kind {
	case "gzip":
		p.w, err = gzip.NewWriterLevel(nil, level)
	case "zlib":
		p.w, err = zlib.NewWriterLevel(nil, level)
	}
	return p, err
}

// compressMessage returns a message as it is sent, which the next call overwrites.
func (p *packer) compressMessage(message []byte) ([]byte, error) {
	if p.w == nil {
		return message, nil
	}
	p.buf.Reset()
	p.w.Reset(&p.buf)
	if _, err := p.w.Write(message); err != nil {
		return nil, err
	}
	if err := p.w.Close(); err != nil {
		return nil, err
	}
	return p.buf.Bytes(), nil
}
