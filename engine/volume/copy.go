package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	pathrs "github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"

	"moss/engine/tree"
)

// maxDepth bounds how deep folders may nest in what is copied: each level keeps two descriptors open.
const maxDepth = 500

// maxEntries is how many files, folders and links are copied into a volume: several layers' worth.
const maxEntries = 4 << 20

// copyTree copies what is in one open folder, and its own attributes, into another. Every step goes through descriptors
// of these two and follows no link: both may hold what containers have made. Sockets and devices stay behind, which a
// user's image does not have.
func copyTree(ctx context.Context, from, to *os.File) error {
	budget := tree.NewBudget(tree.Limits{Whole: "the image's folder", Entries: maxEntries})
	c := &copier{root: to, seen: map[inode]string{}, budget: budget}
	return c.folder(ctx, from, to, ".", 0)
}

type inode struct{ dev, ino uint64 }

type copier struct {
	root   *os.File
	seen   map[inode]string // the path below root of the first name of a file that has several
	budget *tree.Budget
}

// shown is a path as errors have it: one of a deep folder may have megabytes.
func shown(at string) string {
	const most = 128
	if len(at) <= most {
		return at
	}
	return at[:most] + "…"
}

func (c *copier) folder(ctx context.Context, from, to *os.File, at string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: folders nest more than %d deep", shown(at), maxDepth)
	}
	for {
		names, err := from.Readdirnames(256)
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.entry(ctx, from, to, name, path.Join(at, name), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := attributes(from, to); err != nil {
		return fmt.Errorf("%s: %w", shown(at), err)
	}
	return nil
}

func (c *copier) entry(ctx context.Context, from, to *os.File, name, at string, depth int) error {
	if err := c.budget.Entry(); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(from.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("%s: %w", shown(at), err)
	}
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.below(ctx, from, to, name, at, depth)
	case unix.S_IFREG:
		err = c.file(from, to, name, at, &st)
	case unix.S_IFLNK:
		err = link(from, to, name, &st)
	case unix.S_IFIFO:
		err = fifo(to, name, &st)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", shown(at), err)
	}
	return nil
}

func (c *copier) below(ctx context.Context, from, to *os.File, name, at string, depth int) error {
	if err := unix.Mkdirat(int(to.Fd()), name, 0o700); err != nil {
		return fmt.Errorf("%s: %w", shown(at), err)
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	src, err := openAt(from, name, flags, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", shown(at), err)
	}
	defer src.Close() //nolint:errcheck // only read
	dst, err := openAt(to, name, flags, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", shown(at), err)
	}
	defer dst.Close() //nolint:errcheck // only a handle
	return c.folder(ctx, src, dst, at, depth+1)
}

func (c *copier) file(from, to *os.File, name, at string, st *unix.Stat_t) (err error) {
	if st.Nlink > 1 {
		key := inode{dev: st.Dev, ino: st.Ino}
		if first, ok := c.seen[key]; ok {
			return c.secondName(first, to, name)
		}
		c.seen[key] = at
	}
	src, err := openAt(from, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // only read
	dst, err := openAt(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return attributes(src, dst)
}

// secondName links a file that was copied before.
func (c *copier) secondName(first string, to *os.File, name string) error {
	handle, err := pathrs.OpenatInRoot(c.root, first)
	if err != nil {
		return err
	}
	defer handle.Close() //nolint:errcheck // only a handle
	return unix.Linkat(unix.AT_FDCWD, tree.PathOf(int(handle.Fd())), int(to.Fd()), name, unix.AT_SYMLINK_FOLLOW)
}

func link(from, to *os.File, name string, st *unix.Stat_t) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(from.Fd()), name, target)
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(string(target[:n]), int(to.Fd()), name); err != nil {
		return err
	}
	_, err = ownerAndTimes(to, name, st)
	return err
}

func fifo(to *os.File, name string, st *unix.Stat_t) error {
	if err := unix.Mknodat(int(to.Fd()), name, unix.S_IFIFO|0o600, 0); err != nil {
		return err
	}
	same, err := ownerAndTimes(to, name, st)
	if err != nil {
		return err
	}
	handle, err := openAt(to, name, unix.O_PATH, 0) // one that is not opened
	if err != nil {
		return err
	}
	defer handle.Close() //nolint:errcheck // only a handle
	return unix.Fchmodat(unix.AT_FDCWD, tree.PathOf(int(handle.Fd())), permissions(st, same), 0)
}

// ownerAndTimes is for what cannot be opened. It reports whether the owner is the same.
func ownerAndTimes(dir *os.File, name string, st *unix.Stat_t) (same bool, err error) {
	err = unix.Fchownat(int(dir.Fd()), name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return false, err
	}
	return err == nil, unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// attributes gives one open file what another has: owner, mode, extended attributes and times. An owner that the user's
// ids do not hold (EINVAL) is left out, and with it the bits that mean his privileges.
func attributes(from, to *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &st); err != nil {
		return err
	}
	err := unix.Fchown(int(to.Fd()), int(st.Uid), int(st.Gid))
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	same := err == nil
	if err := unix.Fchmod(int(to.Fd()), permissions(&st, same)); err != nil {
		return err
	}
	if err := xattrs(from, to, same); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, tree.PathOf(int(to.Fd())), []unix.Timespec{st.Atim, st.Mtim}, 0)
}

// permissions are those of a file for the same owner, or for another one.
func permissions(st *unix.Stat_t, same bool) uint32 {
	if same {
		return st.Mode & 0o7777
	}
	return st.Mode & 0o1777
}

// maxXattr is the longest value the kernel takes, and the longest list of names, in bytes.
const maxXattr = 64 << 10

// xattrs copies the extended attributes that a user's volume can have. Capabilities are for the same owner only.
func xattrs(from, to *os.File, same bool) error {
	list := make([]byte, 256)
	n, err := unix.Flistxattr(int(from.Fd()), list)
	if errors.Is(err, unix.ERANGE) {
		list = make([]byte, maxXattr)
		n, err = unix.Flistxattr(int(from.Fd()), list)
	}
	if err != nil {
		return ignoreUnsupported(err)
	}
	for name := range strings.SplitSeq(string(list[:n]), "\x00") {
		if name == "" || !strings.HasPrefix(name, "user.") && name != "security.capability" && !strings.HasPrefix(name, "system.posix_acl_") ||
			strings.HasPrefix(name, "user.overlay.") || !same && name == "security.capability" {
			continue
		}
		value := make([]byte, maxXattr)
		n, err := unix.Fgetxattr(int(from.Fd()), name, value)
		if err == nil {
			err = unix.Fsetxattr(int(to.Fd()), name, value[:n], 0)
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
func openAt(dir *os.File, name string, flags int, mode uint32) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
