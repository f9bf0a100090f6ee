package storage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/thread"
)

// Detach takes the mount of a layer that a running container has in its own mount namespace out of the engine's: whatever
// starts copies and lists all mounts that are there. The store keeps a handle, so that the next Mount brings the very
// same mount back. Nothing of it is undone by a second Detach, and a layer that is not mounted stays so.
//
// Only mounts of the kernel's own overlay are detached: a fuse-overlayfs ends with its mount, and a driver that compares
// trees would mount the layer a second time by itself.
func (w *Writable) Detach(ctx context.Context, containerID string) error {
	if err := validID(containerID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("detach layer of %s: %w", containerID, err)
	}
	unlock := w.locks.lock(containerID)
	defer unlock()
	dir := w.mountedAt(containerID)
	if w.choice.driver != driverOverlay || dir == "" || w.isBorrowed(containerID) {
		return nil
	}
	driver, err := w.cs.GraphDriver()
	if err != nil {
		return wrapError(err, "detach layer of %s", containerID)
	}
	if w.comparesTrees(driver) {
		return nil
	}
	tree, err := openTree(dir)
	if err != nil {
		return wrapError(err, "detach layer of %s", containerID)
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		tree.Close() //nolint:errcheck // only a handle
		return wrapError(err, "detach layer of %s", containerID)
	}
	w.keepDetached(containerID, tree)
	return nil
}

// Reclaim finds the mount of a layer that an earlier engine has detached: it is the root of the mount namespace of the
// container's running process pid. Until Unmount, a layer whose mount was not found is not mounted a second time: Mount
// then fails with fault.Conflict. A layer that is mounted, or that no Detach takes away, is left as it is.
func (w *Writable) Reclaim(ctx context.Context, containerID string, pid int) error {
	if err := validID(containerID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reclaim layer of %s: %w", containerID, err)
	}
	unlock := w.locks.lock(containerID)
	defer unlock()
	if w.choice.driver != driverOverlay || w.mountedAt(containerID) != "" {
		return nil
	}
	tree, err := rootOf(pid, containerID)
	w.keepDetached(containerID, tree) // nil: it is out of reach
	return wrapError(err, "reclaim layer of %s", containerID)
}

// attachLocked brings a detached mount back and returns its folder; nothing if there is none.
func (w *Writable) attachLocked(containerID string) (string, error) {
	w.mu.Lock()
	tree, ok := w.detached[containerID]
	w.mu.Unlock()
	switch {
	case !ok:
		return "", nil
	case tree == nil:
		return "", fault.Conflict("the files of container %s are out of reach until it ends: its process has left its root",
			containerID)
	}
	dir := filepath.Join(w.root, driverOverlay, containerID, "merged")
	if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return "", wrapError(err, "mount layer of %s", containerID)
	}
	w.letGo(containerID)
	return dir, nil
}

// keepDetached holds a detached mount for attachLocked or letGo.
func (w *Writable) keepDetached(containerID string, tree *os.File) {
	w.letGo(containerID)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.detached[containerID] = tree
}

// letGo closes the handle of a detached mount, which ends one that is mounted nowhere else. It reports whether there was
// one.
func (w *Writable) letGo(containerID string) bool {
	w.mu.Lock()
	tree, ok := w.detached[containerID]
	delete(w.detached, containerID)
	w.mu.Unlock()
	if tree != nil {
		tree.Close() //nolint:errcheck // only a handle
	}
	return ok
}

// closeDetached closes all handles. The mounts stay with their containers.
func (w *Writable) closeDetached() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tree := range w.detached {
		if tree != nil {
			tree.Close() //nolint:errcheck // only a handle
		}
	}
	clear(w.detached)
}

// openTree makes a copy of the mount at dir, without those below it, that is in no mount namespace.
func openTree(dir string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("copy the mount of %s: %w", dir, err)
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// rootOf copies the root mount of a process's mount namespace, if it is a container's layer.
func rootOf(pid int, containerID string) (tree *os.File, err error) {
	space, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "ns", "mnt"))
	if err != nil {
		return nil, err
	}
	defer space.Close() //nolint:errcheck // only a handle
	err = thread.Apart(func() (err error) {
		tree, err = rootIn(int(space.Fd()), containerID)
		return err
	})
	return tree, err
}

// rootIn moves the thread into a mount namespace and copies its root mount, if it is a container's layer.
func rootIn(space int, containerID string) (*os.File, error) {
	self, err := unix.Open("/proc/thread-self", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // /proc is another one there
	if err != nil {
		return nil, err
	}
	defer unix.Close(self) //nolint:errcheck // only a handle
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, err
	}
	if err := unix.Setns(space, unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("enter the mount namespace: %w", err)
	}
	raw, err := readAt(self, "mountinfo")
	if err != nil {
		return nil, err
	}
	if !isLayer(raw, containerID) {
		return nil, fault.Conflict("the root of its process is not the layer")
	}
	tree, err := openTree("/")
	if err != nil {
		return nil, err
	}
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY} // the container's wish, not that of views on it
	if err := unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH, &attr); err != nil {
		tree.Close() //nolint:errcheck // only a handle
		return nil, fmt.Errorf("make the mount writable: %w", err)
	}
	return tree, nil
}

func readAt(dir int, name string) (string, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close() //nolint:errcheck // only read
	var text strings.Builder
	_, err = f.WriteTo(&text)
	return text.String(), err
}

// isLayer reports whether the root in a mountinfo is the whole overlay of a container's layer. See proc_pid_mountinfo(5):
// "36 35 0:54 / / rw,relatime - overlay none rw,lowerdir=...,upperdir=/.../<id>/diff,workdir=...". Blanks and commas
// in names are escaped there.
func isLayer(mountinfo, containerID string) bool {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[4] != "/" {
			continue
		}
		end := len(fields) - 3 // what the file system says: its type, its source, its options
		if fields[3] != "/" || fields[end] != "overlay" {
			return false
		}
		for option := range strings.SplitSeq(fields[end+2], ",") {
			if upper, ok := strings.CutPrefix(option, "upperdir="); ok {
				return strings.HasSuffix("/"+upper, "/"+containerID+"/diff")
			}
		}
		return false
	}
	return false
}
