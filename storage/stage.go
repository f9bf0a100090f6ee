package storage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/opencontainers/go-digest"
	graphdriver "go.podman.io/storage/drivers"

	"moss/engine/fault"
	"moss/engine/tree"
)

// Blob is the form in which a registry or an archive has a layer.
type Blob struct {
	Digest      digest.Digest // of its bytes; empty if unknown
	Size        int64         // bytes; -1 if unknown
	MediaType   string
	Annotations map[string]string
}

// Staged is the content of a layer that lies unpacked in the store's file system and belongs to no image yet. It ends as
// part of an image by PutPulled, or by Discard.
type Staged struct {
	store  *staging
	diffID digest.Digest
	size   int64 // bytes of its files
	plain  int64 // bytes of its archive
	blob   Blob

	mu   sync.Mutex                          // guards out and file
	out  *graphdriver.DriverWithDifferOutput // the unpacked layer; nil: spent, or the driver cannot take one
	file string                              // the plain archive, where the driver cannot take an unpacked layer; empty: spent

	headers *os.File // of the archive in file, in tar-split's form; goes with file
}

// DiffID returns the digest of the layer's plain archive.
func (s *Staged) DiffID() digest.Digest { return s.diffID }

// Size returns the bytes of the layer's files.
func (s *Staged) Size() int64 { return s.size }

// Discard removes what was staged. It may be called again, and after PutPulled, without effect.
func (s *Staged) Discard() error {
	out, file := s.takeContent()
	if out != nil {
		return s.store.dropStaging(out)
	}
	if file != "" {
		return s.removeFile(file)
	}
	return nil
}

// removeFile removes a kept archive.
func (s *Staged) removeFile(file string) error {
	if s.headers != nil {
		s.headers.Close() //nolint:errcheck // nobody wants what it holds any more
	}
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("discard layer: %w", err)
	}
	return nil
}

// takeContent makes the caller the one to care for what was staged.
func (s *Staged) takeContent() (*graphdriver.DriverWithDifferOutput, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, file := s.out, s.file
	s.out, s.file = nil, ""
	return out, file
}

// isSpent reports whether nothing is staged any more.
func (s *Staged) isSpent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out == nil && s.file == ""
}

// staging unpacks layers that belong to no image yet.
type staging struct{ *disk }

// stagedFolder is where plain archives wait for a driver that cannot take an unpacked layer.
const stagedFolder = "moss-staged"

// Stage unpacks a layer's plain archive, which the caller has checked, whatever layers are to be below it: layers of one
// image may be staged at the same time. plain is read to its end. blob is what the archive came as.
//
// On an error nothing is left. Errors of plain and of ctx come back as they are; others are fault.Invalid (the archive) or
// internal.
func (g *staging) Stage(ctx context.Context, plain io.Reader, blob Blob) (*Staged, error) {
	if blob.Digest != "" {
		if err := blob.Digest.Validate(); err != nil {
			return nil, fault.Invalid("digest of a layer: %w", err)
		}
	}
	src := &watched{ctx: ctx, src: plain}
	driver, err := g.cs.GraphDriver()
	if err != nil {
		return nil, wrapError(err, "unpack layer")
	}
	if _, ok := driver.(graphdriver.DriverWithDiffer); !ok {
		return g.stageFile(src, blob)
	}
	defer g.trash.Stand()()
	unpack := &unpacker{src: src, singleID: g.singleID, owners: g.owners, open: g.place.modes != nil, blob: blob}
	out, err := g.cs.PrepareStagedLayer(nil, unpack)
	if err != nil {
		if out != nil {
			err = errors.Join(err, g.dropStaging(out))
		}
		if src.err != nil {
			return nil, src.err
		}
		return nil, wrapError(err, "unpack layer")
	}
	return &Staged{
		store: g, diffID: out.UncompressedDigest, size: unpack.sum.size, plain: out.Size, blob: blob, out: out,
	}, nil
}

// stageFile keeps a layer's plain archive as it is, for a driver that takes no unpacked one.
func (g *staging) stageFile(src *watched, blob Blob) (*Staged, error) {
	dir := filepath.Join(g.root, stagedFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, wrapError(err, "keep layer")
	}
	file, err := os.CreateTemp(dir, "layer")
	if err != nil {
		return nil, wrapError(err, "keep layer")
	}
	defer file.Close() //nolint:errcheck // closed with its error below
	staged := &Staged{store: g, blob: blob, file: file.Name()}
	err = staged.writeAndHash(src, file)
	if err = errors.Join(err, file.Close()); err != nil || src.err != nil {
		err = errors.Join(err, staged.Discard())
		if src.err != nil {
			return nil, src.err
		}
		return nil, wrapError(err, "keep layer")
	}
	return staged, nil
}

// writeAndHash writes a plain archive to a file and its headers to another one, beside hashing it.
func (s *Staged) writeAndHash(src *watched, file *os.File) (err error) {
	if s.headers, err = newUnnamedFile(filepath.Dir(s.file)); err != nil {
		return err
	}
	f := newFeed(2)
	hash := digest.SHA256.Digester()
	var sum *summary
	var done sync.WaitGroup
	done.Go(func() {
		if _, err := io.Copy(io.MultiWriter(file, hash.Hash()), f.readers[0]); err != nil {
			f.fail(err)
		}
	})
	done.Go(func() {
		w := bufio.NewWriterSize(s.headers, headersBuffer)
		var err error
		if sum, err = packHeaders(f.readers[1], w); err == nil {
			err = w.Flush()
		}
		if err != nil {
			f.fail(err)
		}
	})
	s.plain, err = f.shareSource(src)
	done.Wait()
	if err = f.failureOr(err); err != nil {
		return err
	}
	s.diffID, s.size = hash.Digest(), sum.size
	return nil
}

// dropStaging removes an unpacked layer. The library does the last bit with its lock on all layers held.
func (g *staging) dropStaging(out *graphdriver.DriverWithDifferOutput) error {
	if out.TarSplit != nil {
		out.TarSplit.Close() //nolint:errcheck // nobody wants what it holds
		out.TarSplit = nil
	}
	if out.Target == "" {
		return nil // the driver failed before there was a folder
	}
	err := tree.RemovePath(out.Target)
	return wrapError(errors.Join(err, g.cs.CleanupStagedLayer(out)), "discard layer")
}

// StageTwin stages a layer's content from any layer of the store that has it; nil if there is none.
//
// Errors are those of Stage. A layer whose files are not what they were is passed over.
func (s *Store) StageTwin(ctx context.Context, diffID digest.Digest) (*Staged, error) {
	layers, err := s.cs.LayersByUncompressedDigest(diffID)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // the library's word for none
	}
	for i := range layers {
		from := &layers[i]
		twin, err := s.stageFrom(ctx, from.ID, Blob{Digest: from.CompressedDigest, Size: -1})
		if ctx.Err() != nil {
			return nil, err
		}
		if fault.Is(err, fault.NotFound) {
			continue // it went meanwhile
		}
		if err == nil && twin.diffID == diffID {
			return twin, nil
		}
		if err == nil {
			err = twin.Discard()
		}
		if err != nil && !errors.Is(err, errDamaged) {
			return nil, err
		}
	}
	return nil, nil //nolint:nilnil // no layer and no error is the answer
}

func (s *Store) stageFrom(ctx context.Context, layerID string, blob Blob) (*Staged, error) {
	unpin, ok := s.pinLayer(layerID)
	if !ok {
		return nil, fault.NotFound("no such layer: %s", layerID)
	}
	defer unpin()
	plain, err := s.openLayer(ctx, layerID)
	if err != nil {
		return nil, err
	}
	staged, err := s.Stage(ctx, plain, blob)
	return staged, errors.Join(err, plain.Close())
}
