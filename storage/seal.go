package storage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/opencontainers/go-digest"
	graphdriver "go.podman.io/storage/drivers"
	"go.podman.io/storage/pkg/archive"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/image"
)

// Seal makes an image on top of spec.Base of what a container of that image has written. The container's layer is moved, not
// copied: it is read once, for its digest and its headers, and is empty afterwards. skip is that of Changes. A
// container that has changed nothing makes an image without a layer of its own. Nothing of the container may run, and
// its layer is not mounted afterwards.
//
// It is all or nothing for the image; after an error the container may have lost what it wrote. Errors are fault.NotFound
// (no such base, the container has no layer), fault.Conflict (it is no container of the base), fault.Invalid (a file that
// no archive can tell of) or internal.
func (s *Store) Seal(ctx context.Context, containerID string, spec ImageSpec, skip []string) (*image.Image, error) {
	spec.ensureCreated()
	staged, err := s.stageContainer(ctx, containerID, spec.Base, skip)
	if err != nil {
		return nil, err
	}
	img, err := s.putStaged(staged, spec, nil)
	if staged != nil {
		err = errors.Join(err, staged.Discard())
	}
	if err != nil {
		return nil, err
	}
	return img, nil
}

// stageContainer stages what a container has written; nil if that is nothing.
func (s *Store) stageContainer(ctx context.Context, containerID, baseID string, skip []string) (*Staged, error) {
	base, err := s.soundConfig(bareID(baseID))
	if err != nil {
		return nil, err
	}
	layer, driver, unlock, err := s.layerForDiff(ctx, containerID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if layer.top != base.topLayer {
		return nil, fault.Conflict("container %s was not made from image %s", containerID, baseID)
	}
	if err := s.unmountLocked(containerID); err != nil {
		return nil, err
	}
	if _, ok := driver.(graphdriver.DriverWithDiffer); ok && layer.maps == nil && !s.comparesTrees(driver) {
		staged, err := s.moveLayer(ctx, layer, driver, skip)
		if !errors.Is(err, errNotPlain) {
			return staged, err
		}
	}
	return s.copyLayer(ctx, layer, driver, skip)
}

// copyLayer stages the changes of a container's layer where they cannot be moved: the driver keeps them in another form
// than an image's.
func (s *Store) copyLayer(ctx context.Context, layer *containerLayer, driver graphdriver.Driver, skip []string) (*Staged, error) {
	own, below, err := s.foldersOf(layer, driver)
	if err != nil {
		return nil, wrapError(err, "seal layer of %s", layer.id)
	}
	changes, left, err := s.changesLocked(ctx, layer, driver, followAll(own, below, skip))
	if err != nil || len(left) == len(changes) {
		return nil, err
	}
	if err := s.checkBounds(ctx, layer.id); err != nil {
		return nil, wrapError(err, "seal layer of %s", layer.id)
	}
	s.naive.Lock()
	diff, err := driver.Diff(layer.id, layer.maps, layer.parent, layer.maps, "")
	s.naive.Unlock()
	if err != nil {
		return nil, wrapError(err, "diff of layer of %s", layer.id)
	}
	if len(left) > 0 {
		diff = leaveOut(diff, left)
	}
	staged, err := s.Stage(ctx, diff, Blob{Size: -1})
	return staged, errors.Join(err, diff.Close())
}

// moveLayer stages the folder of a container's layer itself.
func (s *Store) moveLayer(ctx context.Context, layer *containerLayer, driver graphdriver.Driver, skip []string) (*Staged, error) {
	own, below, err := s.foldersOf(layer, driver)
	if err != nil {
		return nil, wrapError(err, "seal layer of %s", layer.id)
	}
	if err := trimFolder(own, below, skip); err != nil {
		return nil, wrapError(err, "seal layer of %s", layer.id)
	}
	empty, err := isUnchanged(own, below)
	if err != nil || empty {
		return nil, wrapError(err, "seal layer of %s", layer.id)
	}
	m := &mover{ctx: ctx, own: own, below: below}
	out, err := s.cs.PrepareStagedLayer(nil, m)
	if err != nil {
		if out != nil {
			err = errors.Join(err, s.dropStaging(out))
		}
		if ctx.Err() != nil || errors.Is(err, errNotPlain) || fault.Is(err, fault.Invalid) {
			return nil, err
		}
		return nil, wrapError(err, "seal layer of %s", layer.id)
	}
	return &Staged{
		store: s.staging, diffID: out.UncompressedDigest, size: m.sum.size, plain: out.Size, blob: Blob{Size: -1}, out: out,
	}, nil
}

// isUnchanged reports whether a container's folder says nothing: it has no entry, and is what it was made as.
func isUnchanged(own string, below []string) (bool, error) {
	dir, err := os.Open(own)
	if err != nil {
		return false, err
	}
	defer dir.Close() //nolint:errcheck // opened for reading
	if _, err := dir.Readdirnames(1); !errors.Is(err, io.EOF) {
		return false, err
	}
	changed, err := rootChanged(own, below)
	return !changed, err
}

// rootChanged reports whether the container has given the root folder another mode or owner than the image has.
func rootChanged(own string, below []string) (bool, error) {
	var now, before unix.Stat_t
	if err := unix.Stat(own, &now); err != nil {
		return false, fmt.Errorf("look at the root folder: %w", err)
	}
	if len(below) == 0 {
		return now.Mode&0o7777 != 0o755 || now.Uid != 0 || now.Gid != 0, nil
	}
	if err := unix.Stat(below[0], &before); err != nil {
		return false, fmt.Errorf("look at the root folder below: %w", err)
	}
	return now.Mode != before.Mode || now.Uid != before.Uid || now.Gid != before.Gid, nil
}

// mover reads a container's folder and moves it to where the library's driver has made one.
type mover struct {
	ctx   context.Context //nolint:containedctx // graphdriver.Differ has no other way to take one
	own   string
	below []string
	sum   *summary // what was learnt; set by ApplyDiff
}

// Close has nothing to end.
func (m *mover) Close() error { return nil }

// ApplyDiff moves the folder to dest once all of it is read.
func (m *mover) ApplyDiff(dest string, _ *archive.TarOptions,
	differ *graphdriver.DifferOptions,
) (graphdriver.DriverWithDifferOutput, error) {
	var out graphdriver.DriverWithDifferOutput
	headers, err := newUnnamedFile(differ.StagingDirectory)
	if err != nil {
		return out, err
	}
	sum, diffID, size, err := m.packAndHash(headers)
	if err == nil {
		err = m.moveFolder(dest)
	}
	if err != nil {
		headers.Close() //nolint:errcheck // it is of no use
		return out, err
	}
	var st unix.Stat_t
	if err := unix.Stat(dest, &st); err != nil {
		headers.Close() //nolint:errcheck // it is of no use
		return out, fmt.Errorf("look at the root folder: %w", err)
	}
	mode := os.FileMode(st.Mode & 0o777)
	m.sum = sum
	out.TarSplit, out.Size, out.UncompressedDigest = headers, size, diffID
	out.UIDs, out.GIDs = sortedIDs(sum.uids), sortedIDs(sum.gids)
	out.RootDirMode = &mode // the driver leaves it as it is then
	return out, nil
}

// moveFolder puts the folder in the place of dest, and an empty one in its own: the driver expects one there.
func (m *mover) moveFolder(dest string) error {
	info, err := os.Stat(m.own)
	if err != nil {
		return err
	}
	if err := os.Remove(dest); err != nil {
		return err
	}
	if err := os.Rename(m.own, dest); err != nil {
		return err
	}
	return os.Mkdir(m.own, info.Mode().Perm())
}

// packAndHash makes an archive of the folder, for its digest and its headers.
func (m *mover) packAndHash(headers *os.File) (*summary, digest.Digest, int64, error) {
	out, in := io.Pipe()
	var done sync.WaitGroup
	var failed error // of the writer
	done.Go(func() {
		failed = writeFolder(m.ctx, in, m.own, m.below)
		in.CloseWithError(failed)
	})
	f := newFeed(2)
	hash := digest.SHA256.Digester()
	var sum *summary
	done.Go(func() {
		if _, err := io.Copy(hash.Hash(), f.readers[0]); err != nil {
			f.fail(err)
		}
	})
	done.Go(func() {
		w := bufio.NewWriterSize(headers, headersBuffer)
		var err error
		if sum, err = packHeaders(f.readers[1], w); err == nil {
			err = w.Flush()
		}
		if err != nil {
			f.fail(err)
		}
	})
	size, err := f.shareSource(out)
	out.Close() //nolint:errcheck // it never fails
	done.Wait()
	if failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return nil, "", 0, failed
	}
	if err = f.failureOr(err); err != nil {
		return nil, "", 0, err
	}
	return sum, hash.Digest(), size, nil
}
