package storage

import (
	"archive/tar"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tree"
)

// place is what the file system below a store refuses, of what the files of images ask for. A file system that a program of the
// user's serves, or another machine, acts with the user's rights: it gives no file away, and holds root to the modes of files.
type place struct {
	owners error // to give files to other users; nil if they can be
	modes  error // to let root change folders whose modes forbid it; nil if it may
}

// trialPrefix begins the names of folders in which the opening tries what it will do later.
const trialPrefix = "moss-trial"

// tryPlace tries it, the owners only if there is more than one id. What fails for another reason, such as a full disk, is not
// refused. A file system without symbolic links as images have them, to files that are not there yet, is fault.Unsupported.
func tryPlace(root string, singleID bool) (found place, err error) {
	dir, err := os.MkdirTemp(root, trialPrefix)
	if isNoRoom(err) {
		return place{}, nil
	}
	if err != nil {
		return place{}, fmt.Errorf("try the file system: %w", err)
	}
	defer tree.RemovePath(dir) //nolint:errcheck // the next start tries again
	file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o500); err == nil {
		found.modes = refusalOf(os.Mkdir(filepath.Join(folder, "below"), 0o700))
	}
	if err := os.WriteFile(file, nil, 0o600); err == nil && !singleID {
		found.owners = refusalOf(os.Lchown(file, 1, 1))
	}
	link := filepath.Join(dir, "link")
	err = os.Symlink("nothing", link)
	if err == nil {
		err = unix.UtimesNanoAt(unix.AT_FDCWD, link, make([]unix.Timespec, 2), unix.AT_SYMLINK_NOFOLLOW)
	}
	if refusalOf(err) != nil || errors.Is(err, unix.ENOENT) {
		return found,
			fault.Unsupported("the file system of %s cannot hold images, which have symbolic links with times of their own: %w; "+
				"choose a root elsewhere", root, err)
	}
	return found, nil
}

// refusalOf returns an error that says that a file system does not do something, and nil for all others.
func refusalOf(err error) error {
	for _, no := range []error{unix.EPERM, unix.EACCES, unix.EINVAL, unix.EOVERFLOW, unix.EOPNOTSUPP, unix.ENOSYS} {
		if errors.Is(err, no) {
			return no
		}
	}
	return nil
}

func isNoRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// listWarnings are sentences for people.
func (p place) listWarnings() (list []string) {
	if p.owners != nil {
		list = append(list, fmt.Sprintf("The file system of the data folder gives files to no other user (%v): all files of images "+
			"belong to root, and users in containers cannot give files away. Choose a root on a local file system", p.owners))
	}
	if p.modes != nil {
		list = append(list,
			fmt.Sprintf("The file system of the data folder holds root to the modes of files (%v): what an image does not "+
				"let its owner change is made open to root. Choose a root on a local file system", p.modes))
	}
	return list
}

// sweepTrials removes folders in which the library or the opening have tried something: they stay after a crash, and where
// listing a folder takes more than being root, the library leaves the overlay's own working folder behind.
func sweepTrials(root string) error {
	home := filepath.Join(root, driverOverlay)
	entries, err := readDir(home)
	for _, entry := range entries {
		kept := slices.Contains([]string{"l", "staging", "tempdirs"}, entry.Name()) || validID(entry.Name()) == nil
		if entry.IsDir() && !kept {
			err = errors.Join(err, removeTrial(filepath.Join(home, entry.Name())))
		}
	}
	for _, pattern := range []string{trialPrefix + "*", fuseTrial + "*"} {
		left, _ := filepath.Glob(filepath.Join(root, pattern)) // the pattern is right
		for _, path := range left {
			err = errors.Join(err, removeTrial(path))
		}
	}
	return err
}

// removeTrial removes the folder of a trial. What was mounted there when the engine was killed still is, where the engine's
// mount namespace lives on.
func removeTrial(dir string) error {
	points, _ := readDir(dir) // the removal says what is wrong
	for _, point := range points {
		_ = unix.Unmount(filepath.Join(dir, point.Name()), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // mostly it is none
	}
	return tree.RemovePath(dir)
}

// openToRoot lets root use what an entry makes by its modes alone: copy a file, and change what is in a folder.
func openToRoot(h *tar.Header) {
	switch h.Typeflag {
	case tar.TypeReg:
		h.Mode |= 0o600
	case tar.TypeDir:
		h.Mode |= 0o700
	}
}
