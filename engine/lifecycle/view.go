package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/thread"
	"moss/engine/tree"
)

// viewPoint is a file or folder that a view shows in a place of the container's.
type viewPoint struct {
	source, destination string
	readOnly            bool
}

// view is what is seen of the files of a container that does not run.
type view struct {
	dir      string // the root
	points   []viewPoint
	maker    container.UserIDs // whose the mount points are that are missing
	work     string            // a folder that is made if it is missing; empty: none
	worker   container.UserIDs // whose that is
	readOnly bool
}

// open makes a mount namespace of its own in which dir is the root and the points are mounted, and opens that root.
// Nothing of it is seen elsewhere, and nothing of elsewhere in it. Mount points that are missing are made, as a start
// does. The namespace lives until space and everything opened in it are closed. It takes Linux 5.12.
func (v *view) open() (root, space *os.File, err error) {
	err = thread.Apart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			return fmt.Errorf("make a mount namespace: %w", err)
		}
		if space, err = os.OpenFile("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make the mounts private: %w", err)
		}
		trees, err := cloneMounts(v.points)
		defer func() {
			for _, tree := range trees {
				unix.Close(tree) //nolint:errcheck // it is mounted, or not wanted
			}
		}()
		if err != nil {
			return err
		}
		if root, err = enterRoot(v.dir); err != nil {
			return err
		}
		for i, p := range v.points {
			if err := attachMount(int(root.Fd()), trees[i], p, v.maker); err != nil {
				return fmt.Errorf("show %s: %w", p.destination, err)
			}
		}
		if v.work != "" {
			_ = makeFolderIn(int(root.Fd()), v.work, v.maker, v.worker) // the start will say so
		}
		if v.readOnly {
			return setReadOnly(int(root.Fd()), 0)
		}
		return nil
	})
	if err == nil {
		return root, space, nil
	}
	for _, f := range []*os.File{root, space} {
		if f != nil {
			f.Close() //nolint:errcheck // only a handle
		}
	}
	if errors.Is(err, unix.ENOSYS) {
		err = fault.Unsupported("files of a container that does not run need Linux 5.12: %w", err)
	}
	return nil, nil, err
}

// makeFolderIn makes a folder of owner's inside root if it is missing, and those above it, which are maker's.
func makeFolderIn(root int, dir string, maker, owner container.UserIDs) error {
	dir = path.Clean("/" + dir)
	above, err := pointIn(root, path.Dir(dir), true, maker)
	if err != nil {
		return fmt.Errorf("make folder %s of the container: %w", dir, err)
	}
	unix.Close(above) //nolint:errcheck // only a handle
	folder, err := pointIn(root, dir, true, owner)
	if err != nil {
		return fmt.Errorf("make folder %s of the container: %w", dir, err)
	}
	unix.Close(folder) //nolint:errcheck // only a handle
	return nil
}

// cloneMounts copies the sources' mounts, as far as the list goes without an error.
func cloneMounts(points []viewPoint) (trees []int, err error) {
	for _, p := range points {
		tree, err := unix.OpenTree(unix.AT_FDCWD, p.source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return trees, fmt.Errorf("show %s: open %s: %w", p.destination, p.source, err)
		}
		trees = append(trees, tree)
		if p.readOnly {
			if err := setReadOnly(tree, unix.AT_RECURSIVE); err != nil {
				return trees, fmt.Errorf("show %s: %w", p.destination, err)
			}
		}
	}
	return trees, nil
}

func setReadOnly(fd int, flags uint) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|flags, &attr); err != nil {
		return fmt.Errorf("make it read-only: %w", err)
	}
	return nil
}

// enterRoot makes dir the root of the thread's mount namespace and takes everything else out of it: a copy of another
// container's mount would keep that busy.
func enterRoot(dir string) (*os.File, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open the root: %w", err)
	}
	defer unix.Close(tree) //nolint:errcheck // it is mounted, or not wanted
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return nil, fmt.Errorf("mount the root: %w", err)
	}
	if err := unix.Fchdir(tree); err != nil {
		return nil, err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return nil, fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return nil, fmt.Errorf("leave the old root: %w", err)
	}
	return rootHandle("/")
}

// rootHandle opens a root folder as a handle; "/" is the root of the thread's mount namespace.
func rootHandle(dir string) (*os.File, error) {
	return os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// attachMount mounts a detached tree at its point below root.
func attachMount(root, tree int, p viewPoint, maker container.UserIDs) error {
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return err
	}
	at, err := pointIn(root, p.destination, st.Mode&unix.S_IFMT == unix.S_IFDIR, maker)
	if err != nil {
		return err
	}
	defer unix.Close(at) //nolint:errcheck // only a handle
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// pointIn opens a mount point inside root and makes it, an empty folder or file, with its parents if it is not there.
func pointIn(root int, name string, folder bool, maker container.UserIDs) (int, error) {
	fd, err := openInRoot(root, name)
	if !errors.Is(err, unix.ENOENT) || name == "/" {
		return fd, err
	}
	above, err := pointIn(root, path.Dir(name), true, maker)
	if err != nil {
		return -1, err
	}
	defer unix.Close(above) //nolint:errcheck // only a handle
	if err := makePoint(above, path.Base(name), folder, maker); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return openInRoot(root, name)
}

// makePoint makes an empty folder or file that is maker's.
func makePoint(above int, base string, folder bool, maker container.UserIDs) error {
	flags, mode := unix.O_CREAT|unix.O_EXCL, uint32(0o644)
	if folder {
		flags, mode = unix.O_DIRECTORY, 0o755
		if err := unix.Mkdirat(above, base, mode); err != nil {
			return err
		}
	}
	fd, err := unix.Openat(above, base, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // it is empty
	// Where the file system gives nothing away (EPERM) it is root's, as the files of the image are.
	if err := unix.Fchown(fd, int(maker.UID), int(maker.GID)); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	return unix.Fchmod(fd, mode) // whatever the engine's own umask is
}

// openInRoot resolves a name inside root to a handle.
func openInRoot(root int, name string) (int, error) {
	return tree.Openat2(root, name, unix.O_PATH, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
}
