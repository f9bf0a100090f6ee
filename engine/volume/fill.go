package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"moss/engine/tree"
)

// Fill copies what the image has at a volume's place into the volume if that is empty: content, owners, modes, extended
// attributes, times, and those of the folder itself. open returns the folder, which Fill closes, or an error that is
// fs.ErrNotExist where there is none; it is called only when it is needed.
//
// Where the container is the volume's only user the copy appears whole or not at all. What is in memory stays empty: it
// would be lost before the container runs.
func (s *Store) Fill(ctx context.Context, name, containerID string, open func() (*os.File, error)) error {
	e, err := s.acquireName(ctx, name)
	if err != nil {
		return err
	}
	defer s.releaseName(name, e)
	v := s.holdVolume(e, "")
	if v == nil {
		return NoSuch(name)
	}
	dir := v.Mountpoint
	switch v.backing.kind {
	case kindFolder:
	case kindBind:
		dir = v.backing.device
	case kindTmpfs:
		return nil
	}
	if empty, err := isEmpty(dir); err != nil || !empty {
		return err
	}
	from, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	if v.backing.kind == kindFolder && s.isSoleUser(e, containerID) {
		err = fillAside(ctx, from, dir)
	} else {
		err = fillInPlace(ctx, from, dir)
	}
	if err != nil {
		return fmt.Errorf("copy the image's content into volume %s: %w", name, err)
	}
	return nil
}

// isSoleUser reports whether nobody but the container uses the volume.
func (s *Store) isSoleUser(e *entry, containerID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(e.mounted) == 0 && (len(e.users) == 0 || len(e.users) == 1 && e.users[containerID])
}

// isEmpty reports whether there is a folder with nothing in it.
func isEmpty(dir string) (bool, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // a device: the start says what is wrong with it
	}
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	_, err = f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

func fillAside(ctx context.Context, from *os.File, dir string) (err error) {
	aside := filepath.Join(filepath.Dir(dir), copyName)
	if err := os.Mkdir(aside, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tree.RemovePath(aside))
		}
	}()
	if err := fillInPlace(ctx, from, aside); err != nil {
		return err
	}
	return unix.Rename(aside, dir) // takes the place of an empty folder, which os.Rename refuses
}

func fillInPlace(ctx context.Context, from *os.File, dir string) error {
	to, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer to.Close() //nolint:errcheck // what was written is in other files
	return copyTree(ctx, from, to)
}
