package storage

import (
	"archive/tar"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	tarsplit "github.com/vbatts/tar-split/tar/storage"
	"go.podman.io/storage/pkg/archive"

	"moss/engine/fault"
)

// headersBuffer is how much of the headers is written at a time, in bytes.
const headersBuffer = 64 << 10

// summary is what is learnt of a layer's archive while its headers are packed.
type summary struct {
	size       int64 // bytes of its files
	uids, gids map[uint32]struct{}
	root       *tar.Header // of the root folder; nil: it has none
}

// packHeaders writes what the files of an archive do not hold, headers and padding, in tar-split's form, so that the archive
// can be put together again byte for byte. Errors are fault.Invalid for archives that cannot be.
func packHeaders(src io.Reader, w io.Writer) (*summary, error) {
	p := &packer{
		raw: &tap{src: src, open: true}, out: tarsplit.NewJSONPacker(w), crc: crc64.New(tarsplit.CRCTable),
		buf: make([]byte, 64<<10), sum: &summary{uids: map[uint32]struct{}{}, gids: map[uint32]struct{}{}},
	}
	p.in = tar.NewReader(p.raw)
	for {
		h, err := p.in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return nil, badTar(err)
		}
		if err := p.flush(); err != nil {
			return nil, err
		}
		if err := p.packEntry(h); err != nil {
			return nil, err
		}
	}
	for { // the padding behind the end mark, in pieces: it may be long
		if err := p.flush(); err != nil {
			return nil, err
		}
		_, err := p.raw.Read(p.buf)
		if errors.Is(err, io.EOF) {
			return p.sum, p.flush()
		}
		if err != nil {
			return nil, err
		}
	}
}

type packer struct {
	raw *tap
	in  *tar.Reader // of raw
	out tarsplit.Packer
	crc hash.Hash64
	buf []byte
	sum *summary
}

// tap keeps the bytes that pass while it is open. The tar reader takes no more of them than it needs for what it returns.
type tap struct {
	src   io.Reader
	open  bool
	kept  []byte
	count int64
}

// Read passes bytes on.
func (t *tap) Read(p []byte) (int, error) {
	n, err := t.src.Read(p)
	t.count += int64(n)
	if t.open {
		t.kept = append(t.kept, p[:n]...)
	}
	return n, err
}

// flush packs the bytes that were kept.
func (p *packer) flush() error {
	if len(p.raw.kept) == 0 {
		return nil
	}
	err := p.addEntry(tarsplit.Entry{Type: tarsplit.SegmentType, Payload: p.raw.kept})
	p.raw.kept = p.raw.kept[:0]
	return err
}

func (p *packer) addEntry(e tarsplit.Entry) error {
	_, err := p.out.AddEntry(e)
	if errors.Is(err, tarsplit.ErrDuplicatePath) {
		return fault.Invalid("the layer's archive has %q twice", e.GetName())
	}
	if err != nil {
		return fmt.Errorf("note the layer's headers: %w", err)
	}
	return nil
}

// packEntry packs one entry behind its header.
func (p *packer) packEntry(h *tar.Header) error {
	if h.Typeflag == tar.TypeGNUSparse {
		return fault.Invalid("entry %q of the layer's archive is sparse in the old GNU form, which cannot be unpacked", h.Name)
	}
	p.noteEntry(h)
	e := tarsplit.Entry{Type: tarsplit.FileType}
	e.SetName(h.Name)
	switch {
	case h.Size <= 0:
	case isSparse(h), isWhiteoutName(h.Name):
		if err := p.inlineContent(); err != nil {
			return err
		}
	default:
		p.crc.Reset()
		before := p.raw.count
		p.raw.open = false
		_, err := io.CopyBuffer(p.crc, p.in, p.buf)
		p.raw.open = true
		if err != nil {
			return badTar(err)
		}
		if p.raw.count-before != h.Size {
			return fault.Invalid("entry %q of the layer's archive is in a form that could not be given back", h.Name)
		}
		e.Size, e.Payload = h.Size, p.crc.Sum(nil)
	}
	return p.addEntry(e)
}

// inlineContent keeps the bytes of an entry with the headers: those of a sparse file lie in the archive otherwise than on the
// disk, and those of a whiteout lie nowhere.
func (p *packer) inlineContent() error {
	for {
		_, err := p.in.Read(p.buf)
		if err := p.flush(); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return badTar(err)
		}
	}
}

// badTar words an error of the tar reader. The source's own errors are kept elsewhere.
func badTar(err error) error {
	if errors.Is(err, errStopped) {
		return err
	}
	return fault.Invalid("read the layer's archive: %w", err)
}

// noteEntry learns what the layer's record and its root folder need.
func (p *packer) noteEntry(h *tar.Header) {
	if h.Size > 0 && (h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeRegA) { //nolint:staticcheck // old archives have TypeRegA
		p.sum.size += h.Size
	}
	if path.Clean("/"+h.Name) == "/" && h.Typeflag == tar.TypeDir {
		p.sum.root = h
	}
	if !isWhiteoutName(h.Name) && h.Typeflag != tar.TypeXGlobalHeader {
		p.sum.uids[uint32(h.Uid)] = struct{}{}
		p.sum.gids[uint32(h.Gid)] = struct{}{}
	}
}

func isWhiteoutName(name string) bool {
	return strings.HasPrefix(path.Base(name), archive.WhiteoutPrefix)
}

func isSparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

func sortedIDs(ids map[uint32]struct{}) []uint32 {
	list := make([]uint32, 0, len(ids))
	for id := range ids {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}

// newUnnamedFile makes a file that goes when it is closed, whoever ends.
func newUnnamedFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "tar-split")
	if err != nil {
		return nil, fmt.Errorf("note the layer's headers: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close() //nolint:errcheck // it is of no use
		return nil, fmt.Errorf("note the layer's headers: %w", err)
	}
	return f, nil
}
