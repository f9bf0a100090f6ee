package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// pieces is the size of the pieces in which files are copied.
const pieces = 256 << 10

// Packing says what a packed file or folder looks like in the archive.
type Packing struct {
	Name   string            // its name; "." puts what a folder holds at the archive's top
	Owners bool              // keep user and group ids; without it all files are root's
	Notice func(text string) // told of what is left out; may be nil
}

// Pack writes a file, or a folder and all below it, as a tar stream. source is not followed if it is a symbolic link.
func Pack(w io.Writer, source string, how Packing) error {
	info, err := os.Lstat(source)
	if err != nil {
		return err
	}
	p := &packer{tar: tar.NewWriter(w), how: how, buffer: make([]byte, pieces), linked: map[inode]string{}}
	if info.IsDir() {
		root, err := os.OpenRoot(source)
		if err != nil {
			return err
		}
		defer func() { _ = root.Close() }()
		if err := p.folder(root, how.Name, source, info); err != nil {
			return err
		}
		return p.tar.Close()
	}
	root, err := os.OpenRoot(filepath.Dir(source))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := p.entry(root, filepath.Base(source), how.Name, source, info); err != nil {
		return err
	}
	return p.tar.Close()
}

type packer struct {
	tar    *tar.Writer
	how    Packing
	buffer []byte
	linked map[inode]string // the first name of files with several
}

// inode tells a file from all others.
type inode struct{ device, number uint64 }

// folder packs an open folder. name is what it is called in the archive, shown what errors call it.
func (p *packer) folder(root *os.Root, name, shown string, info fs.FileInfo) error {
	if name != "." { // the archive's top has no entry: it is a folder that exists, and keeps its mode
		if err := p.header(info, name+"/", ""); err != nil {
			return packing(shown, err)
		}
	}
	dir, err := root.Open(".")
	if err != nil {
		return packing(shown, err)
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return packing(shown, err)
	}
	for _, base := range names {
		info, err := root.Lstat(base)
		if err != nil {
			return packing(filepath.Join(shown, base), err)
		}
		if err := p.entry(root, base, path.Join(name, base), filepath.Join(shown, base), info); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) entry(root *os.Root, base, name, shown string, info fs.FileInfo) error {
	switch info.Mode().Type() {
	case fs.ModeDir:
		sub, err := root.OpenRoot(base)
		if err != nil {
			return packing(shown, err)
		}
		defer func() { _ = sub.Close() }()
		return p.folder(sub, name, shown, info)
	case 0:
		return packing(shown, p.file(root, base, name, info))
	case fs.ModeSymlink:
		target, err := root.Readlink(base)
		if err != nil {
			return packing(shown, err)
		}
		return packing(shown, p.header(info, name, target))
	case fs.ModeNamedPipe, fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return packing(shown, p.header(info, name, ""))
	default: // a socket: archives have no name for it
		if p.how.Notice != nil {
			p.how.Notice(shown + " is a socket and left out")
		}
		return nil
	}
}

// file packs a regular file; one that was packed under another name becomes a link to that.
func (p *packer) file(root *os.Root, base, name string, info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		key := inode{device: uint64(stat.Dev), number: stat.Ino} //nolint:unconvert // its type differs by platform
		if first, known := p.linked[key]; known {
			return p.link(info, name, first)
		}
		p.linked[key] = name
	}
	// Nothing may come between the look and the opening that would block or lead away.
	file, err := root.OpenFile(base, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if info, err = file.Stat(); err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it changed while it was read")
	}
	if err := p.header(info, name, ""); err != nil {
		return err
	}
	// What is written meanwhile is not taken; the size is promised.
	n, err := io.CopyBuffer(struct{ io.Writer }{p.tar}, io.LimitReader(file, info.Size()), p.buffer)
	if err == nil && n < info.Size() {
		return fmt.Errorf("it shrank while it was read: %d of %d bytes", n, info.Size())
	}
	return err
}

func (p *packer) header(info fs.FileInfo, name, target string) error {
	header, err := tar.FileInfoHeader(nameless{info}, target)
	if err != nil {
		return err
	}
	return p.write(header, name)
}

func (p *packer) link(info fs.FileInfo, name, first string) error {
	header, err := tar.FileInfoHeader(nameless{info}, "")
	if err != nil {
		return err
	}
	header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
	return p.write(header, name)
}

func (p *packer) write(header *tar.Header, name string) error {
	header.Name = name
	if !p.how.Owners {
		header.Uid, header.Gid = 0, 0
	}
	return p.tar.WriteHeader(header)
}

// nameless is a file whose owners' names nobody looks up: they mean nothing in a container.
type nameless struct{ fs.FileInfo }

// Uname returns no name.
func (nameless) Uname() (string, error) { return "", nil }

// Gname returns no name.
func (nameless) Gname() (string, error) { return "", nil }

// packing names the file in an error, unless it stands there already.
func packing(shown string, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if wrapped, ok := err.(*fs.PathError); ok { //nolint:errorlint // only the outermost one names a file below the root
		text = wrapped.Err.Error()
	}
	return fmt.Errorf("pack %s: %s", shown, strings.TrimPrefix(text, "archive/tar: "))
}
