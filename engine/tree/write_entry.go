package tree

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tarfile"
)

// spot is where an entry goes: a name in an open folder.
type spot struct {
	dir  int
	base string
	name string // in the archive, for people
}

func (w *Writer) writeFolder(at spot, h *tar.Header) error {
	err := w.makeEntry(at, true, func() error {
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
	if foreign, err := w.isForeign(fd); err != nil || foreign {
		return err // such file systems stay as they are
	}
	if err := w.setAttributes(fd, at, h); err != nil {
		return err
	}
	if len(w.times) < maxTimes {
		w.times = append(w.times, folderTime{at.name, h.ModTime})
		return nil
	}
	return setTimes(at.dir, at.base, h.ModTime)
}

func (w *Writer) writeFile(ctx context.Context, at spot, h *tar.Header, content io.Reader) error {
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd := -1
	err := w.makeEntry(at, false, func() (err error) {
		fd, err = unix.Openat(at.dir, at.base, flags, 0o600)
		return err
	})
	if errors.Is(err, unix.EBUSY) { // something is mounted there, which can be written but not replaced
		fd, err = w.openMounted(at)
	}
	if err != nil {
		return err
	}
	err = w.writeContent(ctx, fd, h, content)
	if err == nil {
		err = w.setAttributes(fd, at, h)
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
func (w *Writer) openMounted(at spot) (int, error) {
	handle, err := unix.Openat(at.dir, at.base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: at.name, Err: err}
	}
	f := os.NewFile(uintptr(handle), at.name)
	defer f.Close() //nolint:errcheck // only a handle
	var st unix.Stat_t
	err = unix.Fstat(handle, &st)
	foreign, failed := w.isForeign(handle)
	if err = errors.Join(err, failed); err != nil {
		return -1, &os.PathError{Op: "look at", Path: at.name, Err: err}
	}
	if foreign || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, fault.Invalid("cannot overwrite %.64q: it is a mount point", at.name)
	}
	fd, err := unix.Open(PathOf(handle), unix.O_WRONLY|unix.O_TRUNC|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: at.name, Err: err}
	}
	return fd, nil
}

// writeContent writes the entry's bytes. The zeros of a sparse entry become holes.
func (w *Writer) writeContent(ctx context.Context, fd int, h *tar.Header, content io.Reader) error {
	sparse := tarfile.IsSparse(h)
	for {
		n, err := 0, error(nil)
		for n < len(w.buf) && err == nil { // whole pieces, which the kernel writes fastest
			var more int
			more, err = content.Read(w.buf[n:])
			n += more
		}
		if n > 0 {
			if ctxErr := ctx.Err(); ctxErr != nil {
				return ctxErr
			}
			if sparse && allZero(w.buf[:n]) {
				if _, err := unix.Seek(fd, int64(n), io.SeekCurrent); err != nil {
					return err
				}
			} else if err := writeFull(fd, w.buf[:n]); err != nil {
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

func (w *Writer) writeSymlink(at spot, h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > tarfile.MaxName {
		return fault.Invalid("the link of entry %.64q has %d bytes, want 1 to %d", at.name, len(h.Linkname), tarfile.MaxName)
	}
	err := w.makeEntry(at, false, func() error { return unix.Symlinkat(h.Linkname, at.dir, at.base) })
	if err != nil {
		return err
	}
	if _, err := w.changeOwner(h, func(uid, gid int) error {
		return unix.Fchownat(at.dir, at.base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	}); err != nil {
		return &os.PathError{Op: "change owner of", Path: at.name, Err: err}
	}
	return setTimes(at.dir, at.base, h.ModTime)
}

// writeHardlink gives a file of the destination one more name. A symbolic link is linked itself and never followed.
func (w *Writer) writeHardlink(at spot, h *tar.Header) error {
	name, err := tarfile.CleanName("link target", h.Linkname, "destination")
	if err != nil {
		return err
	}
	if name == at.name {
		return nil
	}
	folder, _, err := w.openParent(path.Dir(name)) // not by parentFolder, which may close what at is in
	if err != nil {
		return fault.Invalid("entry %.64q: the target %.64q of the link: %w", at.name, h.Linkname, err)
	}
	defer folder.Close() //nolint:errcheck // only a handle
	err = w.makeEntry(at, false, func() error {
		return unix.Linkat(int(folder.Fd()), path.Base(name), at.dir, at.base, 0)
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EXDEV) {
		return fault.Invalid("entry %.64q cannot be a link to %.64q: %w", at.name, h.Linkname, err)
	}
	return err
}

func (w *Writer) writeFifo(at spot, h *tar.Header) error {
	err := w.makeEntry(at, false, func() error { return unix.Mknodat(at.dir, at.base, unix.S_IFIFO|0o600, 0) })
	if err != nil {
		return err
	}
	fd, err := unix.Openat(at.dir, at.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: at.name, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if err := w.setAttributes(fd, at, h); err != nil {
		return err
	}
	return setTimes(at.dir, at.base, h.ModTime)
}
