package archive

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/tarfile"
	trees "moss/engine/tree"
)

// Download is something of a container's that is about to be copied out.
type Download struct {
	Stat Stat // of what is sent: a link that was followed is not seen in it

	files  *container.Files
	place  place
	handle *os.File // O_PATH
}

// Close ends the download.
func (d *Download) Close() error {
	if d.handle != nil {
		d.handle.Close() //nolint:errcheck // only a handle
	}
	return d.files.Close()
}

const (
	piece       = 1 << 20   // bytes read or written at once
	piecesAhead = 3         // read of an archive that comes, ahead of its unpacking
	gather      = 256 << 10 // bytes of small entries that are sent at once
	maxLinks    = 100_000   // files with several names that are remembered; later ones are sent once for each name
)

// Send writes the tar archive to w. What is a file system of the kernel's own (proc, sysfs) is an empty folder in it,
// sockets are left out, files with several names stay one, and owners are the container's numbers. A file that is removed
// meanwhile is left out; one that shrinks is filled up with zeros, so that the archive stays whole.
//
// Errors are those of w, of ctx, of reading, or fault.Invalid for folders that are too deep. The archive is then broken
// off.
func (d *Download) Send(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, gather)
	p := &packer{ctx: ctx, out: out, tar: tar.NewWriter(out), ids: d.files.IDs, links: map[inode]string{}}
	if err := p.writeTree(d.handle, d.place); err != nil {
		return fmt.Errorf("copy %s: %w", d.place.asked, err)
	}
	if err := p.tar.Close(); err != nil {
		return err
	}
	return out.Flush()
}

// inode is a file whatever its name.
type inode struct{ dev, ino uint64 }

// packer writes one archive.
type packer struct {
	ctx    context.Context //nolint:containedctx // of the one call that the packer lives for
	out    *bufio.Writer
	tar    *tar.Writer
	ids    *container.IDMap // nil: owners are the same numbers to the engine
	links  map[inode]string // first names of files that have more
	pieces [][]byte
	root   string   // name of the folder that the archive is for
	above  []uint64 // devices of the folders above, that one's the first
	names  []byte   // of extended attributes
	value  []byte   // of one of them
}

// writeTree writes the entry that the archive is for, and all below it.
func (p *packer) writeTree(handle *os.File, at place) error {
	var st unix.Stat_t
	fd := int(handle.Fd())
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		p.root = at.name
		return trees.Walk(p.ctx, fd, trees.Options{Mounts: true}, trees.Visitor{Entry: p.writeEntry, Enter: p.writeFolder})
	case unix.S_IFREG:
		f, err := unix.Open(trees.PathOf(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(f) //nolint:errcheck // only read
		return p.writeFile(f, at.name)
	default:
		return p.tar.WriteHeader(p.headerOf(at.name, &st))
	}
}

// writeEntry writes one entry of a folder. One that is gone meanwhile is left out.
func (p *packer) writeEntry(e *trees.Entry) (enter bool, err error) {
	name := entryName(p.root, e)
	switch e.Stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if e.Depth > tarfile.MaxDepth {
			return false, fault.Invalid("%.64s…: folders are more than %d deep", name, tarfile.MaxDepth)
		}
		return true, nil
	case unix.S_IFREG:
		f, err := unix.Openat(e.Dir, e.Base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ELOOP) {
			return false, nil // it is a link since a moment
		}
		if err != nil {
			return false, ignoreGone(err, name)
		}
		defer unix.Close(f) //nolint:errcheck // only read
		return false, p.writeFile(f, name)
	case unix.S_IFLNK:
		text, err := tarfile.ReadLink(e.Dir, e.Base)
		if errors.Is(err, unix.EINVAL) {
			return false, nil // it is no link since a moment
		}
		if err != nil {
			return false, ignoreGone(err, name)
		}
		h := p.headerOf(name, &e.Stat)
		h.Linkname = text
		return false, p.tar.WriteHeader(h)
	case unix.S_IFSOCK:
		return false, nil
	default:
		return false, p.tar.WriteHeader(p.headerOf(name, &e.Stat))
	}
}

// ignoreGone drops the error of a file that was removed meanwhile.
func ignoreGone(err error, name string) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return &os.PathError{Op: "read", Path: name, Err: err}
}

// writeFolder writes a folder. Where another file system begins that is one of the kernel's own, the folder is an empty one.
func (p *packer) writeFolder(fd int, e *trees.Entry) (enter bool, err error) {
	if name := entryName(p.root, e); name != "" {
		h := p.headerOf(name, &e.Stat)
		p.addXattrs(fd, h)
		if err := p.tar.WriteHeader(h); err != nil {
			return false, err
		}
	}
	p.above = append(p.above[:e.Depth], e.Stat.Dev)
	if e.Depth == 0 || e.Stat.Dev == p.above[e.Depth-1] {
		return true, nil
	}
	system, err := systemFS(fd)
	return !system, err
}

// entryName returns the name that an entry below a folder has in the archive.
func entryName(folder string, e *trees.Entry) string {
	if e.Depth == 0 {
		return folder
	}
	if folder != "" && folder != "/" {
		folder += "/"
	}
	return folder + e.Path()
}

// writeFile writes an open regular file; one that has just taken its place may be anything, and is left out.
func (p *packer) writeFile(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if system, err := p.isSystemFile(fd, &st); err != nil || system {
		return err
	}
	h := p.headerOf(name, &st)
	if st.Nlink > 1 {
		id := inode{st.Dev, st.Ino}
		if first, known := p.links[id]; known {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return p.tar.WriteHeader(h)
		}
		if len(p.links) < maxLinks {
			p.links[id] = name
		}
	}
	p.addXattrs(fd, h)
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	return p.writeContent(fd, name, st.Size)
}

// isSystemFile reports whether a file is one of the kernel's own file systems, which may be mounted over single files. Their
// files have no blocks: only such a file is looked at.
func (p *packer) isSystemFile(fd int, st *unix.Stat_t) (bool, error) {
	if st.Blocks > 0 {
		return false, nil
	}
	return systemFS(fd)
}

// headerOf returns the archive's header of a file. Files without a type of their own are sockets, which never get here.
func (p *packer) headerOf(name string, st *unix.Stat_t) *tar.Header {
	h := tarfile.Header(name, st)
	if p.ids != nil {
		uid, gid := p.ids.Inside(st.Uid, st.Gid)
		h.Uid, h.Gid = int(uid), int(gid)
	}
	return h
}
