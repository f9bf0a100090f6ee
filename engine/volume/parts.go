package volume

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"moss/engine/tree"
)

// mountPart mounts what a path inside a volume leads to, and returns where. Containers may change links of the volume at
// any moment, so the path is resolved once, inside the volume, and what it led to is what the runtime binds.
func (s *Store) mountPart(v *Volume, dir, containerID, subpath string) (place string, err error) {
	part, isDir, err := tree.PartIn(dir, subpath)
	if err != nil {
		return "", fmt.Errorf("its %w", err)
	}
	defer part.Close()                    //nolint:errcheck // only a handle
	sum := sha256.Sum256([]byte(subpath)) // a name for a path of any length
	place = filepath.Join(s.partsOf(v), containerID, hex.EncodeToString(sum[:8]))
	if err := unmountPart(place); err != nil { // of a start that was cut short
		return "", err
	}
	if err := makePlace(place, isDir); err != nil {
		return "", err
	}
	if err := unix.Mount(tree.PathOf(int(part.Fd())), place, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return "", fmt.Errorf("subpath %s: %w", subpath, err)
	}
	if err := unix.Mount("", place, "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return "", fmt.Errorf("subpath %s: %w", subpath, errors.Join(err, unmountPart(place)))
	}
	return place, nil
}

// partsOf is the folder with a volume's mounted parts.
func (s *Store) partsOf(v *Volume) string { return filepath.Join(s.opt.Dir, v.Name, partsName) }

// makePlace makes what a folder or a file can be mounted on.
func makePlace(place string, isDir bool) error {
	if isDir {
		return os.MkdirAll(place, 0o700)
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return err
	}
	return os.WriteFile(place, nil, 0o600)
}

// unmountPart takes down what is mounted at a place and removes that. A place that is not there is no error.
func unmountPart(place string) error {
	mounted, err := isMountPoint(place)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", place, err)
	}
	if mounted {
		if err := unix.Unmount(place, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", place, err)
		}
	}
	// One entry only: should it still be a mount, this fails and deletes nothing of the volume's.
	if err := os.Remove(place); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isMountPoint reports whether something is mounted at a place, be it of the same file system.
func isMountPoint(place string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, place, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, err
}

// leaveParts takes down the parts that are mounted for containers other than those to keep.
func (s *Store) leaveParts(v *Volume, keep func(containerID string) bool) error {
	parts := s.partsOf(v)
	containers, err := os.ReadDir(parts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, c := range containers {
		if keep(c.Name()) {
			continue
		}
		folder := filepath.Join(parts, c.Name())
		places, err := os.ReadDir(folder)
		errs = append(errs, err)
		for _, place := range places {
			errs = append(errs, unmountPart(filepath.Join(folder, place.Name())))
		}
		errs = append(errs, os.Remove(folder))
	}
	return errors.Join(errs...)
}
