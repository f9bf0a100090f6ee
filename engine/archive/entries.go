package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/tarfile"
)

// spot is where an entry goes: a name in an open folder.
type spot struct {
	dir  int
	base string
	name string // in the archive, for people
}

const (
	maxTimes = 50_000 // folders whose times wait for the end; those of later ones are set at once
	tries    = 8      // how often something may appear where something was just removed
)

func (u *unpacker) folder(at spot, h *tar.Header) error {
	err := u.make(at, true, func() error {
		err := unix.Mkdirat(at.dir, at.base, 0o700)
		if errors.Is(err, unix.EEXIST) {
			var st unix.Stat_t
			if unix.Fstatat(at.dir, at.base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
				return nil
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	fd, err := unix.Openat(at.dir, at.base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open folder", Path: at.name, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written to it
	if system, err := systemFS(fd); err != nil || system {
		return err // the container's own file systems stay as they are
	}
	if err := u.describe(fd, at, h); err != nil {
		return err
	}
	if len(u.times) < maxTimes {
		u.times = append(u.times, folderTime{at.name, h.ModTime})
		return nil
	}
	return setTimes(at.dir, at.base, h.ModTime)
}

func (u *unpacker) file(at spot, h *tar.Header) error {
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd := -1
	err := u.make(at, false, func() (err error) {
		fd, err = unix.Openat(at.dir, at.base, flags, 0o600)
		return err
	})
	if errors.Is(err, unix.EBUSY) { // something is mounted there, which can be written but not replaced
		fd, err = openMounted(at)
	}
	if err != nil {
		return err
	}
	err = u.fill(fd, h)
	if err == nil {
		err = u.describe(fd, at, h)
	}
	if closed := unix.Close(fd); err == nil && closed != nil {
		err = closed
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: at.name, Err: err}
	}
	return setTimes(at.dir, at.base, h.ModTime)
}

// openMounted opens and empties a regular file that is a mount point.
func openMounted(at spot) (int, error) {
	handle, err := unix.Openat(at.dir, at.base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: at.name, Err: err}
	}
	f := os.NewFile(uintptr(handle), at.name)
	defer f.Close() //nolint:errcheck // only a handle
	var st unix.Stat_t
	err = unix.Fstat(handle, &st)
	system, failed := systemFS(handle)
	if err = errors.Join(err, failed); err != nil {
		return -1, &os.PathError{Op: "look at", Path: at.name, Err: err}
	}
	if system || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, fault.Invalid("cannot overwrite %q: it is a mount point", at.name)
	}
	fd, err := unix.Open(procPath(f), unix.O_WRONLY|unix.O_TRUNC|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: at.name, Err: err}
	}
	return fd, nil
}

// fill writes the entry's bytes. The zeros of a sparse entry become holes.
func (u *unpacker) fill(fd int, h *tar.Header) error {
	sparse := tarfile.IsSparse(h)
	for {
		n, err := 0, error(nil)
		for n < len(u.buf) && err == nil { // whole pieces, which the kernel writes fastest
			var more int
			more, err = u.tar.Read(u.buf[n:])
			n += more
		}
		if n > 0 {
			if ctxErr := u.ctx.Err(); ctxErr != nil {
				return ctxErr
			}
			if sparse && allZero(u.buf[:n]) {
				if _, err := unix.Seek(fd, int64(n), io.SeekCurrent); err != nil {
					return err
				}
			} else if err := writeFull(fd, u.buf[:n]); err != nil {
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
	if sparse {
		return unix.Ftruncate(fd, h.Size)
	}
	return nil
}

func allZero(p []byte) bool {
	return p[0] == 0 && bytes.Equal(p[1:], p[:len(p)-1])
}

func (u *unpacker) symlink(at spot, h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > tarfile.MaxName {
		return fault.Invalid("the link of entry %.64q has %d bytes, want 1 to %d", at.name, len(h.Linkname), tarfile.MaxName)
	}
	err := u.make(at, false, func() error { return unix.Symlinkat(h.Linkname, at.dir, at.base) })
	if err != nil {
		return err
	}
	if _, err := u.own(h, func(uid, gid int) error {
		return unix.Fchownat(at.dir, at.base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	}); err != nil {
		return &os.PathError{Op: "change owner of", Path: at.name, Err: err}
	}
	return setTimes(at.dir, at.base, h.ModTime)
}

// hardlink gives a file of the destination one more name. A symbolic link is linked itself and never followed.
func (u *unpacker) hardlink(at spot, h *tar.Header) error {
	name, err := tarfile.CleanName("link target", h.Linkname, "destination")
	if err != nil {
		return err
	}
	if name == at.name {
		return nil
	}
	folder, err := u.openFolder(path.Dir(name)) // not by parent, which may close what at is in
	if err != nil {
		return fault.Invalid("entry %q: the target %q of the link: %w", at.name, h.Linkname, err)
	}
	defer folder.Close() //nolint:errcheck // only a handle
	err = u.make(at, false, func() error {
		return unix.Linkat(int(folder.Fd()), path.Base(name), at.dir, at.base, 0)
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EXDEV) {
		return fault.Invalid("entry %q cannot be a link to %q: %w", at.name, h.Linkname, err)
	}
	return err
}

func (u *unpacker) fifo(at spot, h *tar.Header) error {
	err := u.make(at, false, func() error { return unix.Mknodat(at.dir, at.base, unix.S_IFIFO|0o600, 0) })
	if err != nil {
		return err
	}
	fd, err := unix.Openat(at.dir, at.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: at.name, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if err := u.describe(fd, at, h); err != nil {
		return err
	}
	return setTimes(at.dir, at.base, h.ModTime)
}

// make makes an entry, after what is there was removed if it must be. The error of what cannot be made is Go's or, of what
// must not be replaced, fault.Invalid.
func (u *unpacker) make(at spot, folder bool, try func() error) error {
	for range tries {
		err := try()
		if err == nil {
			return nil
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ENAMETOOLONG) {
			return fault.Invalid("the name %.64q… is too long", at.name)
		}
		if !errors.Is(err, unix.EEXIST) {
			return &os.PathError{Op: "make", Path: at.name, Err: err}
		}
		if err := u.remove(at, folder); err != nil {
			return err
		}
	}
	return fault.Internal("make %q: the container makes it again and again", at.name)
}

// remove takes away what is in the place of an entry that is a folder or not.
func (u *unpacker) remove(at spot, folder bool) error {
	var st unix.Stat_t
	err := unix.Fstatat(at.dir, at.base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "look at", Path: at.name, Err: err}
	}
	there := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if u.opt.NoOverwriteDirNonDir && there != folder {
		if there {
			return fault.Invalid("cannot overwrite directory %q with non-directory", at.name)
		}
		return fault.Invalid("cannot overwrite non-directory %q with directory", at.name)
	}
	if there {
		u.stale = true
		err = removeAll(at.dir, at.base, 0)
	} else {
		err = unix.Unlinkat(at.dir, at.base, 0)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: at.name, Err: err}
	}
	return nil
}

// removeAll removes a folder with all that is in it. What is mounted in it ends the removal.
func removeAll(dir int, base string, depth int) error {
	err := unix.Unlinkat(dir, base, 0)
	if err == nil || !errors.Is(err, unix.EISDIR) {
		return err
	}
	if depth > tarfile.MaxDepth {
		return unix.ELOOP
	}
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(fd), base)
	defer d.Close() //nolint:errcheck // only read
	for {
		names, err := d.Readdirnames(1000)
		for _, name := range names {
			if err := removeAll(fd, name, depth+1); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
		if len(names) > 0 { // what was removed may have moved what follows
			if _, err := d.Seek(0, io.SeekStart); err != nil {
				return err
			}
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
	}
}

// describe gives an open file what the entry says of it. The mode comes after the owner, whose change takes bits of it.
// Bits that mean privilege were meant for the entry's owner: they go where that is not the one that the file gets.
func (u *unpacker) describe(fd int, at spot, h *tar.Header) error {
	same, err := u.own(h, func(uid, gid int) error { return unix.Fchown(fd, uid, gid) })
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
		name, ok := strings.CutPrefix(key, xattrRecord)
		if ok && carried(name) && (same || name != capabilities) {
			// Not every file system has them, and archives are full of them.
			unix.Fsetxattr(fd, name, []byte(value), 0) //nolint:errcheck // see above
		}
	}
	return nil
}

// own changes an owner, and reports whether it is the one that the entry names now. A user or group that the container does
// not have stays the container root's.
func (u *unpacker) own(h *tar.Header, change func(uid, gid int) error) (same bool, err error) {
	uid, gid := known(h.Uid), known(h.Gid)
	same = uid >= 0 && gid >= 0
	if u.ids != nil {
		if same {
			_, err := u.ids.Outside(container.UserIDs{UID: uint32(uid), GID: uint32(gid)})
			same = err == nil
		}
		return same, change(u.ids.Owner(h.Uid, h.Gid))
	}
	err = change(uid, gid)
	if !errors.Is(err, unix.EINVAL) {
		return same, err
	}
	for _, part := range [][2]int{{uid, -1}, {-1, gid}} {
		if err := change(part[0], part[1]); err != nil && !errors.Is(err, unix.EINVAL) {
			return false, err
		}
	}
	return false, nil
}

// known returns an id that can be one, or -1, which changes nothing.
func known(id int) int {
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
