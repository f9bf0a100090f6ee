package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/tree"
)

// maxDepth bounds how deep folders may nest in what is copied: as deep as in an image.
const maxDepth = 512

// maxEntries is how many files, folders and links are copied into a volume: several layers' worth.
const maxEntries = 4 << 20

// copyTree copies what is in one open folder, and its own attributes, into another. Every step goes through descriptors
// of these two and follows no link: both may hold what containers have made. Sockets and devices stay behind, which a
// user's image does not have.
func copyTree(ctx context.Context, from, to *os.File) error {
	budget := tree.NewBudget(tree.Limits{Whole: "the image's folder", Entries: maxEntries})
	c := &copier{root: to, seen: map[inode]string{}, budget: budget}
	defer c.way.Close()
	visitor := tree.Visitor{Entry: c.copyEntry, Enter: c.enterFolder, Leave: c.leaveFolder}
	return tree.Walk(ctx, int(from.Fd()), tree.Options{Mounts: true}, visitor)
}

type inode struct{ dev, ino uint64 }

type copier struct {
	root   *os.File
	way    tree.Ladder      // from root to the folder that is written
	seen   map[inode]string // the path below root of the first name of a file that has several
	budget *tree.Budget
}

// prefixEntry puts the name of an entry before an error; nil stays nil.
func prefixEntry(e *tree.Entry, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", e.Shown(), err)
}

func (c *copier) copyEntry(e *tree.Entry) (enter bool, err error) {
	if err := c.budget.Entry(); err != nil {
		return false, err
	}
	switch e.Stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if e.Depth > maxDepth {
			return false, fmt.Errorf("%s: folders nest more than %d deep", e.Shown(), maxDepth)
		}
		return true, nil
	case unix.S_IFREG:
		err = c.copyFile(e, c.way.Current())
	case unix.S_IFLNK:
		err = copySymlink(e, c.way.Current())
	case unix.S_IFIFO:
		err = copyFifo(e, c.way.Current())
	}
	return false, prefixEntry(e, err)
}

// enterFolder makes a folder and goes down into it.
func (c *copier) enterFolder(_ int, e *tree.Entry) (bool, error) {
	dir, name := int(c.root.Fd()), "."
	if e.Depth > 0 {
		dir, name = c.way.Current(), e.Base
		if err := unix.Mkdirat(dir, name, 0o700); err != nil {
			return false, prefixEntry(e, err)
		}
	}
	fd, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil {
		err = c.way.Down(fd)
	}
	return true, prefixEntry(e, err)
}

// leaveFolder gives a folder its attributes, which writing into it would change, and goes up.
func (c *copier) leaveFolder(from int, e *tree.Entry) error {
	if err := copyAttributes(from, c.way.Current()); err != nil {
		return prefixEntry(e, err)
	}
	return c.way.Up()
}

func (c *copier) copyFile(e *tree.Entry, to int) (err error) {
	if e.Stat.Nlink > 1 {
		key := inode{dev: e.Stat.Dev, ino: e.Stat.Ino}
		if first, ok := c.seen[key]; ok {
			return c.secondName(first, to, e.Base)
		}
		c.seen[key] = e.Path()
	}
	from, err := openAt(e.Dir, e.Base, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	src := os.NewFile(uintptr(from), e.Base)
	defer src.Close() //nolint:errcheck // only read
	made, err := openAt(to, e.Base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	dst := os.NewFile(uintptr(made), e.Base)
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return copyAttributes(from, made)
}

// secondName links a file that was copied before.
func (c *copier) secondName(first string, to int, name string) error {
	handle, err := tree.Openat2(int(c.root.Fd()), first, unix.O_PATH|unix.O_NOFOLLOW, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return err
	}
	defer unix.Close(handle) //nolint:errcheck // only a handle
	return unix.Linkat(unix.AT_FDCWD, tree.PathOf(handle), to, name, unix.AT_SYMLINK_FOLLOW)
}

func copySymlink(e *tree.Entry, to int) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(e.Dir, e.Base, target)
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(string(target[:n]), to, e.Base); err != nil {
		return err
	}
	_, err = ownerAndTimes(to, e.Base, &e.Stat)
	return err
}

func copyFifo(e *tree.Entry, to int) error {
	if err := unix.Mknodat(to, e.Base, unix.S_IFIFO|0o600, 0); err != nil {
		return err
	}
	same, err := ownerAndTimes(to, e.Base, &e.Stat)
	if err != nil {
		return err
	}
	handle, err := openAt(to, e.Base, unix.O_PATH, 0) // one that is not opened
	if err != nil {
		return err
	}
	defer unix.Close(handle) //nolint:errcheck // only a handle
	return unix.Fchmodat(unix.AT_FDCWD, tree.PathOf(handle), permissionBits(&e.Stat, same), 0)
}

// ownerAndTimes is for what cannot be opened. It reports whether the owner is the same.
func ownerAndTimes(dir int, name string, st *unix.Stat_t) (same bool, err error) {
	err = unix.Fchownat(dir, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return false, err
	}
	return err == nil, unix.UtimesNanoAt(dir, name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// copyAttributes gives one open file what another has: owner, mode, extended attributes and times. An owner that the user's
// ids do not hold (EINVAL) is left out, and with it the bits that mean his privileges.
func copyAttributes(from, to int) error {
	var st unix.Stat_t
	if err := unix.Fstat(from, &st); err != nil {
		return err
	}
	err := unix.Fchown(to, int(st.Uid), int(st.Gid))
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	same := err == nil
	if err := unix.Fchmod(to, permissionBits(&st, same)); err != nil {
		return err
	}
	if err := copyXattrs(from, to, same); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, tree.PathOf(to), []unix.Timespec{st.Atim, st.Mtim}, 0)
}

// permissionBits returns those of a file for the same owner, or for another one.
func permissionBits(st *unix.Stat_t, same bool) uint32 {
	if same {
		return st.Mode & 0o7777
	}
	return st.Mode & 0o1777
}

// maxXattr is the longest value the kernel takes, and the longest list of names, in bytes.
const maxXattr = 64 << 10

// copyXattrs copies the extended attributes that a user's volume can have. Capabilities are for the same owner only.
func copyXattrs(from, to int, same bool) error {
	list := make([]byte, 256)
	n, err := unix.Flistxattr(from, list)
	if errors.Is(err, unix.ERANGE) {
		list = make([]byte, maxXattr)
		n, err = unix.Flistxattr(from, list)
	}
	if err != nil {
		return ignoreUnsupported(err)
	}
	for name := range strings.SplitSeq(string(list[:n]), "\x00") {
		if name == "" || !strings.HasPrefix(name, "user.") && name != "security.capability" &&
			!strings.HasPrefix(name, "system.posix_acl_") ||
			strings.HasPrefix(name, "user.overlay.") || !same && name == "security.capability" {
			continue
		}
		value := make([]byte, maxXattr)
		n, err := unix.Fgetxattr(from, name, value)
		if err == nil {
			err = unix.Fsetxattr(to, name, value[:n], 0)
		}
		if err := ignoreUnsupported(err); err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	return nil
}

// ignoreUnsupported drops the errors of a file system that does not have such attributes, or not for this user.
func ignoreUnsupported(err error) error {
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// openAt opens one name in an open folder and follows no link.
func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	return unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
}
