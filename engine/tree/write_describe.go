package tree

import (
	"archive/tar"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// XattrRecord begins the names of pax records that hold extended attributes.
const XattrRecord = "SCHILY.xattr."

// Capabilities is the attribute with the privileges that a program gets.
const Capabilities = "security.capability"

// Carried reports whether an extended attribute goes into trees and out of them: what users set, and file capabilities. The
// rest belongs to the machine, or to the file system that keeps the layers.
func Carried(name string) bool {
	return name == Capabilities || strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.") &&
		!strings.HasPrefix(name, "user.fuseoverlayfs.") && !strings.HasPrefix(name, "user.containers.")
}

// setAttributes gives an open file the owner, mode and extended attributes of its entry. The mode comes after the owner, whose
// change takes bits of it. Bits that mean privilege were meant for the entry's owner: they go where that is not the one that
// the file gets.
func (w *Writer) setAttributes(fd int, at spot, h *tar.Header) error {
	same, err := w.changeOwner(h, func(uid, gid int) error { return unix.Fchown(fd, uid, gid) })
	if err != nil {
		return &os.PathError{Op: "change owner of", Path: at.name, Err: err}
	}
	mode := uint32(h.Mode & 0o7777)
	if !same {
		mode &^= unix.S_ISUID | unix.S_ISGID
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return &os.PathError{Op: "change mode of", Path: at.name, Err: err}
	}
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, XattrRecord)
		if ok && Carried(name) && (same || name != Capabilities) {
			// Not every file system has them, and archives are full of them.
			unix.Fsetxattr(fd, name, []byte(value), 0) //nolint:errcheck // see above
		}
	}
	return nil
}

// changeOwner changes an owner, and reports whether it is the one that the entry names now. What cannot belong to a user or
// group, since there is none of that number (EINVAL) or the file system gives nothing away (EPERM), stays the root's.
func (w *Writer) changeOwner(h *tar.Header, change func(uid, gid int) error) (same bool, err error) {
	if w.opt.Owner != nil {
		uid, gid, same := w.opt.Owner(h.Uid, h.Gid)
		return same, change(uid, gid)
	}
	uid, gid := knownID(h.Uid), knownID(h.Gid)
	err = change(uid, gid)
	if !isRefused(err) {
		return uid >= 0 && gid >= 0, err
	}
	for _, part := range [][2]int{{uid, -1}, {-1, gid}} {
		if err := change(part[0], part[1]); err != nil && !isRefused(err) {
			return false, err
		}
	}
	return false, nil
}

// isRefused reports whether an owner was not changed because he is none that the file can have.
func isRefused(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) }

// knownID returns an id that can be one, or -1, which changes nothing.
func knownID(id int) int {
	if id < 0 || id >= math.MaxUint32 {
		return -1
	}
	return id
}

// setTimes sets when a file was changed; a link is not followed. A time that the kernel cannot have stays now.
func setTimes(dir int, base string, at time.Time) error {
	if at.Unix() < 0 && at.Year() < 1 || at.Year() > 9999 {
		return nil
	}
	stamp := unix.NsecToTimespec(0)
	stamp.Sec, stamp.Nsec = at.Unix(), int64(at.Nanosecond())
	err := unix.UtimesNanoAt(dir, base, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, stamp}, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "set times of", Path: base, Err: err}
	}
	return nil
}

// writeFull writes all of buf.
func writeFull(fd int, buf []byte) error {
	for len(buf) > 0 {
		n, err := unix.Write(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		buf = buf[n:]
	}
	return nil
}
