package storage

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	ctx    context.Context //nolint:containedctx // of one walk
	out    *tar.Writer
	below  []string             // folders of the image's layers, the upper ones first
	links  map[[2]uint64]string // names of files with several, by device and inode
	opaque []bool               // of each folder above, the root first: nothing of the image's is seen in it
	buf    []byte
}

// writeFolder writes the archive of a folder to w.
func writeFolder(ctx context.Context, w io.Writer, own string, below []string) error {
	buffered := bufio.NewWriterSize(w, 256<<10)
	f := &folderWriter{
		ctx: ctx, out: tar.NewWriter(buffered), below: below, links: map[[2]uint64]string{}, opaque: []bool{false},
		buf: make([]byte, 256<<10),
	}
	if err := f.writeRoot(own); err != nil {
		return err
	}
	if err := walkFolder(ctx, own, tree.Options{Sorted: true}, tree.Visitor{Entry: f.writeEntry}); err != nil {
		return err
	}
	if err := f.out.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

// writeRoot writes an entry of the root folder if the container has changed it.
func (f *folderWriter) writeRoot(own string) error {
	changed, err := rootChanged(own, f.below)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(own, &st); err != nil {
		return fmt.Errorf("look at the root folder: %w", err)
	}
	h := layerHeader("./", &st)
	if _, err := f.addXattrs(own, h); err != nil || !changed {
		return err
	}
	return f.out.WriteHeader(h)
}

// dropSocket removes a socket, which an archive cannot have; its folder stays as old as it is.
func dropSocket(e *tree.Entry) error {
	var st unix.Stat_t
	if err := unix.Fstat(e.Dir, &st); err != nil {
		return err
	}
	if err := unix.Unlinkat(e.Dir, e.Base, 0); err != nil {
		return err
	}
	return setTimes(e.Dir, &st)
}

// setTimes gives an open file the times that it had.
func setTimes(fd int, st *unix.Stat_t) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, tree.PathOf(fd), []unix.Timespec{st.Atim, st.Mtim}, 0)
}

// writeEntry writes one entry.
func (f *folderWriter) writeEntry(e *tree.Entry) (enter bool, err error) {
	kind := e.Stat.Mode & unix.S_IFMT
	if kind == unix.S_IFSOCK {
		if err := dropSocket(e); err != nil {
			return false, fmt.Errorf("remove %s: %w", e.Shown(), err)
		}
		return false, nil
	}
	if err := checkEntryBounds(e); err != nil {
		return false, err
	}
	name := e.Path()
	switch {
	case isWhiteout(&e.Stat):
		gone := layerHeader(strings.TrimSuffix(name, e.Base)+archive.WhiteoutPrefix+e.Base, &e.Stat)
		gone.Typeflag, gone.Mode, gone.Devmajor, gone.Devminor = tar.TypeReg, 0, 0, 0
		return false, f.out.WriteHeader(gone)
	case strings.HasPrefix(e.Base, archive.WhiteoutPrefix):
		return false, fault.Invalid("the file %s cannot be part of a layer: names that begin with %s stand for deleted files there",
			e.Shown(), archive.WhiteoutPrefix)
	}
	h := layerHeader(name, &e.Stat)
	if kind == unix.S_IFREG && e.Stat.Nlink > 1 {
		key := [2]uint64{e.Stat.Dev, e.Stat.Ino}
		if first, ok := f.links[key]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return false, f.out.WriteHeader(h)
		}
		f.links[key] = name
	}
	opaque, err := f.addXattrs(tree.PathOf(e.Dir)+"/"+e.Base, h)
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", e.Shown(), err)
	}
	switch kind {
	case unix.S_IFDIR:
		err = f.writeFolderEntry(e.Depth, h, opaque)
	case unix.S_IFREG:
		err = f.writeFile(e, h)
	case unix.S_IFLNK:
		if h.Linkname, err = tarfile.ReadLink(e.Dir, e.Base); err == nil {
			err = f.out.WriteHeader(h)
		}
	default:
		err = f.out.WriteHeader(h)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", e.Shown(), err)
	}
	return true, nil
}

func (f *folderWriter) writeFile(e *tree.Entry, h *tar.Header) error {
	if err := f.out.WriteHeader(h); err != nil || h.Size == 0 {
		return err
	}
	fd, err := unix.Openat(e.Dir, e.Base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), e.Base)
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

// writeFolderEntry writes an entry of a folder. One that hides what the image has says so.
func (f *folderWriter) writeFolderEntry(depth int, h *tar.Header, opaque bool) error {
	if err := f.out.WriteHeader(h); err != nil {
		return err
	}
	under := f.opaque[depth-1]
	f.opaque = append(f.opaque[:depth], under || opaque)
	if !opaque || under || !isBelow(f.below, h.Name) {
		return nil
	}
	mark := *h
	mark.Typeflag, mark.Name, mark.PAXRecords = tar.TypeReg, h.Name+archive.WhiteoutOpaqueDir, nil
	return f.out.WriteHeader(&mark)
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

// addXattrs adds the attributes that belong in a layer to a header, takes the overlay's notes from the file that a layer has
// no use for, and reports whether the overlay has it hide what is below.
func (f *folderWriter) addXattrs(path string, h *tar.Header) (opaque bool, err error) {
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

// layerHeader describes a file of a layer. Times are whole seconds, as all tools write them.
func layerHeader(name string, st *unix.Stat_t) *tar.Header {
	h := tarfile.Header(name, st)
	h.ModTime = time.Unix(st.Mtim.Sec, 0)
	return h
}
