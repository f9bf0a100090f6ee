package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/tarfile"
	"moss/engine/tree"
)

// pieces is the size of the pieces in which files are copied.
const pieces = 256 << 10

// Packing says what a packed file or folder looks like in the archive.
type Packing struct {
	Name   string            // its name; "." puts what a folder holds at the archive's top
	Owners bool              // keep user and group ids; without it all files are root's
	Notice func(text string) // told of what is left out; may be nil
}

// Pack writes a file, or a folder and all below it, as a tar stream. source is not followed if it is a symbolic link. What is
// removed meanwhile is left out.
func Pack(ctx context.Context, w io.Writer, source string, how Packing) error {
	var st unix.Stat_t
	if err := unix.Lstat(source, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: source, Err: err}
	}
	dir, isDir := filepath.Dir(source), st.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir {
		dir = source
	}
	fd, err := tree.Openat2(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	p := &packer{tar: tar.NewWriter(w), how: how, dir: dir, buffer: make([]byte, pieces), linked: map[inode]string{}}
	if isDir {
		err = tree.Walk(ctx, fd, tree.Options{Mounts: true}, tree.Visitor{Entry: p.packEntry, Enter: p.packFolder})
	} else {
		e := &tree.Entry{Dir: fd, Base: filepath.Base(source), Stat: st}
		err = entryError(e, p.packNonFolder(e, how.Name))
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("pack %s: %s", filepath.Join(dir, failed.Path), strings.TrimPrefix(failed.Err.Error(), "archive/tar: "))
	}
	if err != nil {
		return err
	}
	return p.tar.Close()
}

type packer struct {
	tar    *tar.Writer
	how    Packing
	dir    string // what paths of entries begin with
	buffer []byte
	linked map[inode]string // the first name of files with several
}

// inode tells a file from all others.
type inode struct{ device, number uint64 }

// entryError says which entry an error is of.
func entryError(e *tree.Entry, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "pack", Path: e.Shown(), Err: err}
}

// packFolder packs a folder.
func (p *packer) packFolder(_ int, e *tree.Entry) (enter bool, err error) {
	name := path.Join(p.how.Name, e.Path())
	if name == "." { // the archive's top has no entry: it is a folder that exists, and keeps its mode
		return true, nil
	}
	return true, entryError(e, p.writeHeader(tarfile.Header(name, &e.Stat)))
}

func (p *packer) packEntry(e *tree.Entry) (enter bool, err error) {
	if e.IsDir() {
		return true, nil
	}
	return false, entryError(e, p.packNonFolder(e, path.Join(p.how.Name, e.Path())))
}

// packNonFolder packs what is no folder.
func (p *packer) packNonFolder(e *tree.Entry, name string) error {
	header := tarfile.Header(name, &e.Stat)
	var err error
	switch e.Stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return p.packFile(e, header)
	case unix.S_IFLNK:
		header.Linkname, err = tarfile.ReadLink(e.Dir, e.Base)
	case unix.S_IFSOCK: // archives have no name for it
		if p.how.Notice != nil {
			p.how.Notice(filepath.Join(p.dir, e.Path()) + " is a socket and left out")
		}
		return nil
	}
	if err != nil {
		return err
	}
	return p.writeHeader(header)
}

// packFile packs a regular file; one that was packed under another name becomes a link to that.
func (p *packer) packFile(e *tree.Entry, header *tar.Header) error {
	if e.Stat.Nlink > 1 {
		key := inode{device: e.Stat.Dev, number: e.Stat.Ino}
		if first, known := p.linked[key]; known {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
			return p.writeHeader(header)
		}
		p.linked[key] = header.Name
	}
	// Nothing may come between the look and the opening that would block or lead away.
	fd, err := tree.Openat2(e.Dir, e.Base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), e.Base)
	defer func() { _ = file.Close() }()
	if err := unix.Fstat(fd, &e.Stat); err != nil {
		return err
	}
	if e.Stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("it changed while it was read")
	}
	if err := p.writeHeader(tarfile.Header(header.Name, &e.Stat)); err != nil {
		return err
	}
	// What is written meanwhile is not taken; the size is promised.
	n, err := io.CopyBuffer(struct{ io.Writer }{p.tar}, io.LimitReader(file, e.Stat.Size), p.buffer)
	if err == nil && n < e.Stat.Size {
		return fmt.Errorf("it shrank while it was read: %d of %d bytes", n, e.Stat.Size)
	}
	return err
}

func (p *packer) writeHeader(header *tar.Header) error {
	if !p.how.Owners {
		header.Uid, header.Gid = 0, 0
	}
	return p.tar.WriteHeader(header)
}
