package storage

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"go.podman.io/storage/pkg/archive"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tarfile"
	"moss/engine/tree"
)

// errNotPlain says that a container's folder needs those below it to be understood: it cannot be an image's layer.
var errNotPlain = errors.New("the layer holds parts of files only")

// overlayXattrs are the overlay's own notes on files. In the user namespace they are in the user's part of names.
const overlayXattrs = "user.overlay."

// folderWriter makes an archive of a container's own folder, in the same order each time. What has no place in layers
// goes from the folder as well.
type folderWriter struct {
	ctx   context.Context //nolint:containedctx // of one walk
	out   *tar.Writer
	below []string             // folders of the image's layers, the upper ones first
	links map[[2]uint64]string // names of files with several, by device and inode
	buf   []byte
}

// writeFolder writes the archive of a folder to w.
func writeFolder(ctx context.Context, w io.Writer, own string, below []string) error {
	buffered := bufio.NewWriterSize(w, 256<<10)
	f := &folderWriter{
		ctx: ctx, out: tar.NewWriter(buffered), below: below, links: map[[2]uint64]string{}, buf: make([]byte, 256<<10),
	}
	dir, err := os.Open(own)
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // opened for reading
	if err := f.root(dir, own); err != nil {
		return err
	}
	if err := f.folder(dir, "", false); err != nil {
		return err
	}
	if err := f.out.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

// root writes an entry of the root folder if the container has changed it.
func (f *folderWriter) root(dir *os.File, own string) error {
	changed, err := rootChanged(own, f.below)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	h := header("./", &st)
	if _, err := f.xattrs(own, h); err != nil || !changed {
		return err
	}
	return f.out.WriteHeader(h)
}

// folder writes what is in a folder. opaque says that nothing of the image's is seen in it.
func (f *folderWriter) folder(dir *os.File, name string, opaque bool) error {
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return fmt.Errorf("read /%s: %w", name, err)
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	if err := f.ctx.Err(); err != nil {
		return fmt.Errorf("seal layer: %w", err)
	}
	if err := dropSockets(dir, entries); err != nil {
		return fmt.Errorf("seal /%s: %w", name, err)
	}
	for _, entry := range entries {
		if entry.Type()&os.ModeSocket != 0 {
			continue
		}
		if err := f.entry(dir, name, entry.Name(), opaque); err != nil {
			return err
		}
	}
	return nil
}

// dropSockets removes the sockets of a folder: an archive cannot have them.
func dropSockets(dir *os.File, entries []os.DirEntry) error {
	isSocket := func(entry os.DirEntry) bool { return entry.Type()&os.ModeSocket != 0 }
	if !slices.ContainsFunc(entries, isSocket) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	for _, entry := range entries {
		if !isSocket(entry) {
			continue
		}
		if err := unix.Unlinkat(int(dir.Fd()), entry.Name(), 0); err != nil {
			return err
		}
	}
	return setTimes(int(dir.Fd()), &st)
}

// setTimes gives an open file the times that it had.
func setTimes(fd int, st *unix.Stat_t) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, tree.PathOf(fd), []unix.Timespec{st.Atim, st.Mtim}, 0)
}

// entry writes one file, and what is in it.
func (f *folderWriter) entry(dir *os.File, parent, base string, opaque bool) error {
	var st unix.Stat_t
	name := parent + base
	if len(name) >= tarfile.MaxName || strings.Count(name, "/") > tarfile.MaxDepth {
		return fault.Invalid("/%s: its path has more than %d bytes or is more than %d folders deep, which no layer can hold",
			tree.Short(name), tarfile.MaxName, tarfile.MaxDepth)
	}
	if err := unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("look at /%s: %w", name, err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFCHR && st.Rdev == 0 {
		gone := header(parent+archive.WhiteoutPrefix+base, &st)
		gone.Typeflag, gone.Mode, gone.Devmajor, gone.Devminor = tar.TypeReg, 0, 0, 0
		return f.out.WriteHeader(gone)
	}
	if strings.HasPrefix(base, archive.WhiteoutPrefix) {
		return fault.Invalid("the file /%s cannot be part of a layer: names that begin with %s stand for deleted files there",
			name, archive.WhiteoutPrefix)
	}
	h := header(name, &st)
	if kind == unix.S_IFREG && st.Nlink > 1 {
		key := [2]uint64{st.Dev, st.Ino}
		if first, ok := f.links[key]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return f.out.WriteHeader(h)
		}
		f.links[key] = name
	}
	path := tree.PathOf(int(dir.Fd())) + "/" + base
	isOpaque, err := f.xattrs(path, h)
	if err != nil {
		return fmt.Errorf("look at /%s: %w", name, err)
	}
	switch kind {
	case unix.S_IFDIR:
		return f.subfolder(dir, base, h, opaque, isOpaque)
	case unix.S_IFREG:
		err = f.file(dir, base, h)
	case unix.S_IFLNK:
		if h.Linkname, err = tarfile.ReadLink(int(dir.Fd()), base); err == nil {
			err = f.out.WriteHeader(h)
		}
	default:
		err = f.out.WriteHeader(h)
	}
	if err != nil {
		return fmt.Errorf("read /%s: %w", name, err)
	}
	return nil
}

func (f *folderWriter) file(dir *os.File, base string, h *tar.Header) error {
	if err := f.out.WriteHeader(h); err != nil || h.Size == 0 {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), base)
	defer file.Close() //nolint:errcheck // opened for reading
	for left := h.Size; left > 0; {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(file, f.buf[:min(left, int64(len(f.buf)))])
		if err != nil {
			return err
		}
		if _, err := f.out.Write(f.buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// subfolder writes a folder with all in it. One that hides what the image has says so. Errors name what they are of: those of
// what is in it come back as they are.
func (f *folderWriter) subfolder(dir *os.File, base string, h *tar.Header, under, opaque bool) error {
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("read /%s: %w", h.Name, err)
	}
	sub := os.NewFile(uintptr(fd), base)
	defer sub.Close() //nolint:errcheck // opened for reading
	if err := f.out.WriteHeader(h); err != nil {
		return fmt.Errorf("write /%s: %w", h.Name, err)
	}
	if opaque && !under && isBelow(f.below, h.Name) {
		mark := *h
		mark.Typeflag, mark.Name, mark.PAXRecords = tar.TypeReg, h.Name+archive.WhiteoutOpaqueDir, nil
		if err := f.out.WriteHeader(&mark); err != nil {
			return fmt.Errorf("write /%s: %w", mark.Name, err)
		}
	}
	return f.folder(sub, h.Name, under || opaque)
}

// isBelow reports whether the image has something under a name.
func isBelow(below []string, name string) bool {
	name = "/" + strings.TrimSuffix(name, "/")
	for _, layer := range below {
		var st unix.Stat_t
		switch err := statBelow(layer, name, &st); {
		case err == nil:
			return !isWhiteout(&st)
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			return false // this layer has replaced a folder above
		}
	}
	return false
}

func isWhiteout(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 }

// xattrs adds the attributes that belong in a layer to a header, takes the overlay's notes from the file that a layer has no
// use for, and reports whether the overlay has it hide what is below.
func (f *folderWriter) xattrs(path string, h *tar.Header) (opaque bool, err error) {
	n, err := unix.Llistxattr(path, f.buf)
	if errors.Is(err, unix.ENOTSUP) {
		return false, nil
	}
	if err != nil || n == 0 {
		return false, err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(f.buf[:n]), "\x00"), "\x00") {
		switch note, own := strings.CutPrefix(name, overlayXattrs); {
		case note == "redirect" && own, note == "metacopy" && own:
			return false, errNotPlain
		case note == "opaque" && own:
			opaque = true
		case own:
			if err := unix.Lremovexattr(path, name); err != nil && !errors.Is(err, unix.ENODATA) {
				return false, fmt.Errorf("remove %s: %w", name, err)
			}
		case name == "security.capability", strings.HasPrefix(name, "user."):
			value := make([]byte, unix.PathMax*16) // the kernel's own bound
			size, err := unix.Lgetxattr(path, name, value)
			if err != nil {
				return false, fmt.Errorf("read %s: %w", name, err)
			}
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords[archive.PaxSchilyXattr+name] = string(value[:size])
		}
	}
	return opaque, nil
}

// header describes a file of a layer. Times are whole seconds, as all tools write them.
func header(name string, st *unix.Stat_t) *tar.Header {
	h := tarfile.Header(name, st)
	h.ModTime = time.Unix(st.Mtim.Sec, 0)
	return h
}
