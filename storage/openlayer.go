package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	tarsplit "github.com/vbatts/tar-split/tar/storage"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tree"
)

// errDamaged says that a layer's files are not what was unpacked.
var errDamaged = errors.New("the layer is damaged")

// OpenLayer returns the plain archive of an image's layer, counted from the lowest (0), byte for byte as it came. The caller
// closes it. The layer cannot go meanwhile. ctx ends the reading, not only the opening.
//
// Errors are fault.NotFound (no such image or layer) or internal.
func (s *Store) OpenLayer(ctx context.Context, imageID string, index int) (io.ReadCloser, error) {
	cfg, err := s.soundConfig(bareID(imageID))
	if err != nil {
		return nil, err
	}
	chain, err := s.layerChain(cfg.topLayer)
	if err != nil {
		return nil, fmt.Errorf("open layer of image %s: %w", imageID, err)
	}
	at := len(chain) - 1 - index
	if index < 0 || at < 0 {
		return nil, fault.NotFound("image %s has no layer %d", imageID, index)
	}
	unpin, ok := s.pinLayer(chain[at])
	if !ok {
		return nil, fault.NotFound("layer %d of image %s is gone", index, imageID)
	}
	plain, err := s.openLayer(ctx, chain[at])
	if err != nil {
		unpin()
		return nil, err
	}
	plain.done = unpin
	return plain, nil
}

// pinLayer keeps a layer, and so all below it, from being deleted until unpin is called, once. It is false if there is none.
func (s *Store) pinLayer(layerID string) (unpin func(), ok bool) {
	s.images.Lock()
	defer s.images.Unlock()
	if _, err := s.cs.Layer(layerID); err != nil {
		return nil, false
	}
	s.addReader(layerID)
	return func() {
		s.dropReader(layerID)
		if s.hasOrphans() {
			_ = s.pruneOrphans(layerID) // what could not be removed stays an orphan: the next start tries again
		}
	}, true
}

// layerReader is a layer's archive, which a goroutine puts together some way ahead of who reads it.
type layerReader struct {
	*feedReader
	parts *assembler
	ended chan struct{} // the goroutine is through
	done  func()        // called once at the end; may be nil
}

// openLayer puts the archive of a layer together. Whoever calls has made sure that the layer stays.
func (t *layerTree) openLayer(ctx context.Context, layerID string) (*layerReader, error) {
	parts, err := newAssembler(t.headersFile(layerID), t.layerFolder(layerID))
	if err != nil {
		return nil, fmt.Errorf("open layer %s: %w", layerID, err)
	}
	f := newFeed(1)
	r := &layerReader{feedReader: f.readers[0], parts: parts, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		_, _ = f.shareSource(&watched{ctx: ctx, src: parts, what: "read layer"}) // who reads gets the error
	}()
	return r, nil
}

// Read returns the next bytes of the archive.
func (r *layerReader) Read(p []byte) (int, error) {
	n, err := r.feedReader.Read(p)
	return n, r.causeOf(err)
}

// WriteTo passes on what is left of the archive.
func (r *layerReader) WriteTo(w io.Writer) (int64, error) {
	n, err := r.feedReader.WriteTo(w)
	return n, r.causeOf(err)
}

func (r *layerReader) causeOf(err error) error {
	if errors.Is(err, errStopped) {
		return r.feed.err // set before the feed is stopped
	}
	return err
}

// Close ends the reading. It may be called again.
func (r *layerReader) Close() error {
	r.feed.fail(os.ErrClosed)
	<-r.ended
	if r.parts == nil {
		return nil
	}
	r.parts.close()
	r.parts = nil
	if r.done != nil {
		r.done()
	}
	return nil
}

// assembler puts an archive together again from its headers and the files of a folder.
type assembler struct {
	headers *os.File
	unzip   *gzip.Reader
	entries *json.Decoder
	root    int // handle of the folder

	segment []byte // headers that are to be passed on
	entry   tarsplit.Entry
	file    int // the file of entry; -1: none
	left    int64
	crc     hash.Hash64
}

func newAssembler(headers, folder string) (*assembler, error) {
	a := &assembler{file: -1, root: -1, crc: crc64.New(tarsplit.CRCTable)}
	var err error
	if a.headers, err = os.Open(headers); err != nil {
		return nil, fmt.Errorf("%w: its headers: %w", errDamaged, err)
	}
	if a.unzip, err = gzip.NewReader(a.headers); err != nil {
		a.close()
		return nil, fmt.Errorf("%w: its headers: %w", errDamaged, err)
	}
	a.entries = json.NewDecoder(a.unzip)
	if a.root, err = unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		a.close()
		return nil, fmt.Errorf("%w: its folder: %w", errDamaged, err)
	}
	return a, nil
}

func (a *assembler) close() {
	a.closeFile()
	if a.root >= 0 {
		_ = unix.Close(a.root) // only a handle
	}
	if a.unzip != nil {
		_ = a.unzip.Close() // it closes nothing below
	}
	_ = a.headers.Close() // opened for reading
}

func (a *assembler) closeFile() {
	if a.file >= 0 {
		_ = unix.Close(a.file) // opened for reading
		a.file = -1
	}
}

// Read returns the next bytes of the archive.
func (a *assembler) Read(p []byte) (int, error) {
	for {
		switch {
		case len(a.segment) > 0:
			n := copy(p, a.segment)
			a.segment = a.segment[n:]
			return n, nil
		case a.file >= 0:
			return a.readFile(p)
		}
		a.entry = tarsplit.Entry{}
		if err := a.entries.Decode(&a.entry); err != nil {
			if errors.Is(err, io.EOF) {
				return 0, io.EOF
			}
			return 0, fmt.Errorf("%w: its headers: %w", errDamaged, err)
		}
		switch {
		case a.entry.Type == tarsplit.SegmentType:
			a.segment = a.entry.Payload
		case a.entry.Size > 0:
			if err := a.openFile(); err != nil {
				return 0, fmt.Errorf("%w: %q: %w", errDamaged, a.entry.GetName(), err)
			}
		}
	}
}

// openFile opens the file of the present entry. What the archive's own links lead to stays inside the layer.
func (a *assembler) openFile() error {
	const flags, resolve = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK, unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	fd, err := tree.Openat2(a.root, a.entry.GetName(), flags, resolve)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != a.entry.Size) {
		err = errors.New("it is another file")
	}
	if err != nil {
		_ = unix.Close(fd) // opened for reading
		return err
	}
	a.file, a.left = fd, a.entry.Size
	a.crc.Reset()
	return nil
}

// readFile reads on in the present file, and compares its sum at the end.
func (a *assembler) readFile(p []byte) (int, error) {
	if int64(len(p)) > a.left {
		p = p[:a.left]
	}
	n, err := unix.Read(a.file, p)
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	if err == nil && n == 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %q: %w", errDamaged, a.entry.GetName(), err)
	}
	_, _ = a.crc.Write(p[:n]) // never fails
	a.left -= int64(n)
	if a.left > 0 {
		return n, nil
	}
	a.closeFile()
	if !bytes.Equal(a.crc.Sum(nil), a.entry.Payload) {
		return 0, fmt.Errorf("%w: %q is not what it was", errDamaged, a.entry.GetName())
	}
	return n, nil
}
