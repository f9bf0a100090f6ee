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
	if err := p.top(d.handle, d.place); err != nil {
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
	names  []byte // of extended attributes
	value  []byte // of one of them
}

// top writes the entry that the archive is for, and all below it.
func (p *packer) top(handle *os.File, at place) error {
	var st unix.Stat_t
	fd := int(handle.Fd())
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return p.folder(fd, ".", at.name, st.Dev, 0)
	case unix.S_IFREG:
		f, err := unix.Open(trees.PathOf(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(f) //nolint:errcheck // only read
		return p.file(f, at.name)
	default:
		return p.tar.WriteHeader(p.header(at.name, &st))
	}
}

// entry writes what a folder holds under a name. One that is gone meanwhile is left out.
func (p *packer) entry(dir int, base, name string, above uint64, depth int) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return gone(err, name)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return p.folder(dir, base, name, above, depth)
	case unix.S_IFREG:
		f, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ELOOP) {
			return nil // it is a link since a moment
		}
		if err != nil {
			return gone(err, name)
		}
		defer unix.Close(f) //nolint:errcheck // only read
		return p.file(f, name)
	case unix.S_IFLNK:
		text, err := tarfile.ReadLink(dir, base)
		if errors.Is(err, unix.EINVAL) {
			return nil // it is no link since a moment
		}
		if err != nil {
			return gone(err, name)
		}
		h := p.header(name, &st)
		h.Linkname = text
		return p.tar.WriteHeader(h)
	case unix.S_IFSOCK:
		return nil
	default:
		return p.tar.WriteHeader(p.header(name, &st))
	}
}

// gone drops the error of a file that was removed meanwhile.
func gone(err error, name string) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return &os.PathError{Op: "read", Path: name, Err: err}
}

// folder writes a folder and all below it. above is the device of the folder that it is in: where another file system of
// the kernel's own begins, the folder is an empty one.
func (p *packer) folder(dir int, base, name string, above uint64, depth int) error {
	if depth > tarfile.MaxDepth {
		return fault.Invalid("%.64s…: folders are more than %d deep", name, tarfile.MaxDepth)
	}
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil // it is a link since a moment
	}
	if err != nil {
		return gone(err, name)
	}
	d := os.NewFile(uintptr(fd), name)
	defer d.Close() //nolint:errcheck // only read
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if name != "" {
		h := p.header(name, &st)
		p.attributes(fd, h)
		if err := p.tar.WriteHeader(h); err != nil {
			return err
		}
	}
	if st.Dev != above {
		if system, err := systemFS(fd); err != nil || system {
			return err
		}
	}
	return p.children(d, name, st.Dev, depth)
}

// children writes what is in a folder.
func (p *packer) children(d *os.File, name string, dev uint64, depth int) error {
	fd := int(d.Fd())
	for {
		names, err := d.Readdirnames(1000)
		for _, child := range names {
			if err := p.entry(fd, child, join(name, child), dev, depth+1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return gone(err, name)
		}
	}
}

func join(folder, child string) string {
	switch folder {
	case "":
		return child
	case "/":
		return "/" + child
	default:
		return folder + "/" + child
	}
}

// file writes an open regular file; one that has just taken its place may be anything, and is left out.
func (p *packer) file(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if system, err := p.unknown(fd, &st); err != nil || system {
		return err
	}
	h := p.header(name, &st)
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
	p.attributes(fd, h)
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	return p.content(fd, name, st.Size)
}

// unknown reports whether a file without blocks, as those of the kernel's own file systems are, is one of these: they may
// be mounted over single files.
func (p *packer) unknown(fd int, st *unix.Stat_t) (bool, error) {
	if st.Blocks > 0 {
		return false, nil
	}
	return systemFS(fd)
}

// header describes a file as its archive entry does. Files without a type of their own are sockets, which never get here.
func (p *packer) header(name string, st *unix.Stat_t) *tar.Header {
	h := tarfile.Header(name, st)
	if p.ids != nil {
		uid, gid := p.ids.Inside(st.Uid, st.Gid)
		h.Uid, h.Gid = int(uid), int(gid)
	}
	return h
}
