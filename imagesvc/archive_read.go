package imagesvc

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/compress"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// Bounds of an archive of images. Those of what is in its layers are Limits.
const (
	maxArchiveEntries = 1 << 17  // files, folders and links
	maxDocument       = 8 << 20  // bytes of one JSON document
	maxDocuments      = 32 << 20 // bytes of all of them
	maxLinks          = 16       // links on the way to one layer
)

// loader takes one archive in.
type loader struct {
	service     *Archives
	cancel      context.CancelCauseFunc
	progress    func(image.Progress)
	quiet       bool
	want        image.Platform // that is chosen where there are several; each image must be for it, unless anyPlatform is set
	anyPlatform bool
	in          *compress.Source
	unpacked    atomic.Int64 // bytes of all layers

	pool   pool
	slots  chan struct{} // one for each layer that is being unpacked
	stages sync.WaitGroup

	entries  int
	docs     map[string][]byte
	docBytes int64
	layers   map[string]*archiveLayer
	all      []*archiveLayer
	links    map[string]string

	known map[string]knownLayer // layers that the documents so far tell of; nil: not looked at since the last document
}

func newLoader(s *Archives, cancel context.CancelCauseFunc, progress func(image.Progress), quiet bool) *loader {
	return &loader{
		service: s, cancel: cancel, progress: progress, quiet: quiet,
		pool:  newPool(),
		slots: make(chan struct{}, min(runtime.GOMAXPROCS(0), 3)+1),
		docs:  map[string][]byte{}, layers: map[string]*archiveLayer{}, links: map[string]string{},
	}
}

// scanArchive goes through the archive.
func (l *loader) scanArchive(ctx context.Context, src io.Reader) error {
	in := tar.NewReader(src)
	for {
		h, err := in.Next()
		if errors.Is(err, tar.ErrInsecurePath) {
			err = nil // readEntry knows more
		}
		if errors.Is(err, io.EOF) {
			if l.entries == 0 {
				return fault.Invalid("the archive is empty")
			}
			_, err := io.Copy(io.Discard, src) // the client is not cut off
			return err
		}
		if err == nil {
			l.entries++
			err = l.readEntry(ctx, h, in)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.ErrUnexpectedEOF):
			return compress.Truncated()
		case errors.Is(err, tar.ErrHeader) && l.entries == 0:
			return fault.Invalid("this is not a tar archive: %w", err)
		case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
			return fault.Invalid("entry %d of the archive: %w", l.entries+1, err)
		default:
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// readEntry takes in one entry.
func (l *loader) readEntry(ctx context.Context, h *tar.Header, in io.Reader) error {
	if l.entries > maxArchiveEntries {
		return fault.Invalid("the archive has more than %d entries", maxArchiveEntries)
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := entryName(h.Name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return nil
	case tar.TypeSymlink:
		if path.IsAbs(h.Linkname) {
			return fault.Invalid("the link %q leads out of the archive", h.Name)
		}
		return l.addLink(name, path.Join(path.Dir(name), h.Linkname))
	case tar.TypeLink:
		return l.addLink(name, h.Linkname)
	case tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse: //nolint:staticcheck // old archives have TypeRegA
		return l.readFile(ctx, h, name, in)
	default:
		return fault.Invalid("entry %q has a type that no archive of images has: %q", h.Name, h.Typeflag)
	}
}

// addLink remembers a link between layers.
func (l *loader) addLink(name, target string) error {
	target, err := entryName(target)
	if err != nil {
		return err
	}
	if old, ok := l.links[name]; ok && old != target {
		return fault.Invalid("the archive has more than one entry %q", name)
	}
	l.links[name] = target
	return nil
}

// readFile takes in a file: a document, a layer, or something that means nothing here.
func (l *loader) readFile(ctx context.Context, h *tar.Header, name string, in io.Reader) error {
	base := path.Base(name)
	if base == nameVersion {
		return nil
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(in, head)
	if err != nil && int64(n) < h.Size {
		return err
	}
	head = head[:n]
	in = io.MultiReader(bytes.NewReader(head), in)
	named := base == nameRecord || path.Ext(base) == ".json" || name == nameRepositories || name == nameLayout
	if named || h.Size <= maxDocument && beginsJSON(head) {
		raw, err := l.readIntoMemory(name, h.Size, in)
		if err != nil {
			return err
		}
		if named || json.Valid(raw) {
			return l.addDocument(name, raw)
		}
		in = bytes.NewReader(raw)
	}
	promised := blobDigest(name)
	if promised == "" && base != nameLayer && !beginsArchive(head) || promised != "" && !beginsArchive(head) {
		return nil
	}
	if n == 0 { // of a step that changed nothing, as archives before 2016 have it: it counts as an archive without entries
		empty := make([]byte, 2*blockSize)
		h.Size, head, in = int64(len(empty)), empty[:blockSize:blockSize], bytes.NewReader(empty)
	}
	return l.readLayer(ctx, h, name, head, in)
}

// beginsJSON reports whether a file may be a JSON document.
func beginsJSON(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

// beginsArchive reports whether a file may be a layer: a tar archive, one without entries, or something compressed.
func beginsArchive(head []byte) bool {
	for _, magic := range []string{"\x1f\x8b", "BZh", "\xfd7zXZ\x00", "\x28\xb5\x2f\xfd"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	if len(head) >= 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}) {
		return true // a zstd frame to be skipped, as zstd:chunked may begin
	}
	if len(head) < blockSize {
		return false
	}
	return bytes.Equal(head[257:262], []byte("ustar")) || len(bytes.Trim(head, "\x00")) == 0 || oldTar(head)
}

// oldTar reports whether a block is a header of the time before ustar, by its checksum.
func oldTar(block []byte) bool {
	var sum, want int64
	for i, b := range block[:blockSize] {
		if i >= 148 && i < 156 {
			b = ' '
		}
		sum += int64(b)
	}
	_, err := fmt.Sscanf(strings.Trim(string(block[148:156]), " \x00"), "%o", &want)
	return err == nil && sum == want
}

// blobDigest returns the digest that the name of a file in an OCI layout promises, empty for other files.
func blobDigest(name string) digest.Digest {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[0] != nameBlobs {
		return ""
	}
	d := digest.Digest(parts[1] + ":" + parts[2])
	if checkDigest(d) != nil {
		return ""
	}
	return d
}

// readIntoMemory reads a file that is kept in memory.
func (l *loader) readIntoMemory(name string, size int64, in io.Reader) ([]byte, error) {
	if size > maxDocument {
		return nil, fault.Invalid("%s has %d bytes, more than %d", name, size, maxDocument)
	}
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(in); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// addDocument remembers a document. The same one may come again, another of the same name may not.
func (l *loader) addDocument(name string, raw []byte) error {
	if old, ok := l.docs[name]; ok {
		if !bytes.Equal(old, raw) {
			return fault.Invalid("the archive has more than one entry %q", name)
		}
		return nil
	}
	if l.docBytes += int64(len(raw) + len(name)); l.docBytes > maxDocuments {
		return fault.Invalid("the documents of the archive have more than %d bytes", maxDocuments)
	}
	l.docs[name] = raw
	l.known = nil
	return nil
}

// readLayer has a layer unpacked while it comes. It returns when all of it has been read.
func (l *loader) readLayer(ctx context.Context, h *tar.Header, name string, head []byte, in io.Reader) error {
	if l.layers[name] != nil {
		return nil // The digests that the images name decide whether the first one was right.
	}
	layer := &archiveLayer{name: name, blob: storage.Blob{Digest: blobDigest(name), Size: h.Size}}
	l.layers[name], l.all = layer, append(l.all, layer)
	known := l.tellOf(name)
	if known.here && len(head) == blockSize && !isCompressed(head) {
		layer.skipped, layer.diffID, layer.plain = true, known.diffID, h.Size
		return nil
	}
	if err := l.service.store.Room(h.Size, 1); err != nil {
		return err
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p := newPipe(l.pool)
	l.stages.Go(func() {
		defer func() { <-l.slots }()
		l.runStaging(ctx, layer, p)
	})
	report := l.layerReporter(name, known, h.Size)
	err := p.fillFrom(ctx, in, report)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = compress.Truncated()
	}
	p.closeWriter(err)
	if errors.Is(err, errNoReader) {
		return nil // the layer tells why
	}
	report(0)
	return err
}

// isCompressed reports whether an archive is not plain.
func isCompressed(head []byte) bool {
	return !bytes.Equal(head[257:262], []byte("ustar")) && len(bytes.Trim(head, "\x00")) > 0 && !oldTar(head)
}

// layerReporter returns what tells of a layer's progress: of every step, but not too often, and of the end.
func (l *loader) layerReporter(name string, known knownLayer, total int64) func(n int) {
	id := layerDigits(name)
	if known.diffID != "" {
		id = known.diffID.Encoded()[:12]
	}
	var current int64
	var last time.Time
	return func(n int) {
		current += int64(n)
		if l.quiet || n > 0 && (current == total || time.Since(last) < reportEvery) {
			return
		}
		last = time.Now()
		l.progress(image.Progress{ID: id, Status: "Loading layer", Current: current, Total: total})
	}
}

// layerDigits returns 12 digits that stand for a layer whose digest is not known yet: those that its name has.
func layerDigits(name string) string {
	for part := range strings.SplitSeq(name, "/") {
		digits, _, _ := strings.Cut(part, ".")
		digits = strings.TrimPrefix(digits, "sha256:")
		if len(digits) == 64 && strings.Trim(digits, "0123456789abcdef") == "" {
			return digits[:12]
		}
	}
	return digest.FromString(name).Encoded()[:12]
}
