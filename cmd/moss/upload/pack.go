package upload

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pieces is the size in bytes of the pieces in which files are read and the archive is written.
const pieces = 256 << 10

// capabilities is the only extended attribute that belongs to a file wherever it is.
const capabilities = "security.capability"

// Write writes the context as a tar stream: files and folders sorted by name, all of them root's. Links are not followed.
func (f *Folder) Write(w io.Writer) error {
	out := bufio.NewWriterSize(w, pieces)
	p := &packer{folder: f, tar: tar.NewWriter(out), buffer: make([]byte, pieces), linked: map[inode]string{}}
	fd, err := unix.Open(f.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return p.fileErrorOf(".", err)
	}
	if err := p.packEntries(fd, "", outcome{}); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(f.added)) {
		content := f.added[name]
		head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}
		if err := p.tar.WriteHeader(head); err != nil {
			return err
		}
		if _, err := p.tar.Write(content); err != nil {
			return err
		}
	}
	if err := p.tar.Close(); err != nil {
		return err
	}
	return out.Flush()
}

type packer struct {
	folder  *Folder
	tar     *tar.Writer
	buffer  []byte
	linked  map[inode]string // the first name of files with several
	pending []*tar.Header    // excluded folders on the way here: they are packed if anything in them is
}

// inode tells a file from all others.
type inode struct{ device, number uint64 }

// packEntries packs what is in an open folder, and closes it. Its own name is empty for the context itself.
func (p *packer) packEntries(fd int, name string, parent outcome) error {
	dir := os.NewFile(uintptr(fd), p.folder.localPath(name))
	defer func() { _ = dir.Close() }()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return p.fileErrorOf(name, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		if err := p.packEntry(fd, entry, path.Join(name, entry.Name()), parent); err != nil {
			return err
		}
	}
	return nil
}

// packEntry packs one file, or a folder with all in it, unless the patterns exclude it.
func (p *packer) packEntry(fd int, entry fs.DirEntry, name string, parent outcome) error {
	if _, replaced := p.folder.added[name]; replaced {
		return nil
	}
	excluded, own, err := p.folder.ignore.match(name, parent)
	if err != nil {
		return p.fileErrorOf(name, err)
	}
	itself, below := p.folder.isKept(name)
	excluded = excluded && !itself
	switch kind := entry.Type(); {
	case kind == fs.ModeDir:
		if excluded && !below && !p.folder.ignore.hasExceptionIn(name) {
			return nil
		}
		err = p.packFolder(fd, entry.Name(), name, excluded, own)
	case excluded:
		return nil
	case kind == 0:
		err = p.packFile(fd, entry.Name(), name)
	case kind == fs.ModeSocket:
		if p.folder.Notice != nil {
			p.folder.Notice(name + " is a socket and left out")
		}
		return nil
	default:
		err = p.packSpecial(fd, entry.Name(), name)
	}
	return p.fileErrorOf(name, err)
}

// packFolder packs a folder. One that is excluded shows only if something in it is not.
func (p *packer) packFolder(at int, base, name string, excluded bool, own outcome) error {
	fd, err := unix.Openat(at, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	head := headerOf(&stat, name+"/")
	depth := len(p.pending)
	if excluded {
		p.pending = append(p.pending, head)
	} else if err := p.writeHeader(head); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	err = p.packEntries(fd, name, own)
	p.pending = p.pending[:min(depth, len(p.pending))]
	return err
}

// packFile packs a regular file; one that was packed under another name becomes a link to that.
func (p *packer) packFile(at int, base, name string) error {
	// Nothing may come between the look and the opening that would block or lead away.
	fd, err := unix.Openat(at, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("it changed while it was read")
	}
	head := headerOf(&stat, name)
	if stat.Nlink > 1 {
		key := inode{device: uint64(stat.Dev), number: stat.Ino} //nolint:unconvert // its type differs by platform
		if first, known := p.linked[key]; known {
			head.Typeflag, head.Linkname, head.Size = tar.TypeLink, first, 0
			return p.writeHeader(head)
		}
		p.linked[key] = name
	}
	if stat.Mode&0o111 != 0 { // nothing else can be run
		if n, err := unix.Fgetxattr(fd, capabilities, p.buffer); err == nil {
			head.PAXRecords = map[string]string{"SCHILY.xattr." + capabilities: string(p.buffer[:n])}
		}
	}
	if err := p.writeHeader(head); err != nil {
		return err
	}
	return p.copyContent(fd, head.Size)
}

// copyContent packs as many bytes of a file as its header has promised: what is written meanwhile is not taken.
func (p *packer) copyContent(fd int, size int64) error {
	for left := size; left > 0; {
		n, err := unix.Read(fd, p.buffer[:min(left, pieces)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("it shrank while it was read: %d of %d bytes", size-left, size)
		}
		if _, err := p.tar.Write(p.buffer[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// packSpecial packs what has no content: links, pipes, devices.
func (p *packer) packSpecial(at int, base, name string) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(at, base, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	head := headerOf(&stat, name)
	head.Size = 0
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		n, err := unix.Readlinkat(at, base, p.buffer)
		if err != nil {
			return err
		}
		head.Typeflag, head.Linkname, head.Mode = tar.TypeSymlink, string(p.buffer[:n]), 0o777
	case unix.S_IFIFO:
		head.Typeflag = tar.TypeFifo
	case unix.S_IFCHR, unix.S_IFBLK:
		head.Typeflag = tar.TypeChar
		if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
			head.Typeflag = tar.TypeBlock
		}
		head.Devmajor, head.Devminor = int64(unix.Major(uint64(stat.Rdev))), int64(unix.Minor(uint64(stat.Rdev))) //nolint:unconvert // as above
	default:
		return errors.New("it changed while it was read")
	}
	return p.writeHeader(head)
}

// headerOf describes a file, or by a name with a slash at its end a folder.
func headerOf(stat *unix.Stat_t, name string) *tar.Header {
	head := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: int64(stat.Mode & 0o7777), Size: stat.Size, ModTime: time.Unix(stat.Mtim.Sec, 0),
	}
	if strings.HasSuffix(name, "/") {
		head.Typeflag, head.Size = tar.TypeDir, 0
	}
	return head
}

// writeHeader packs a header, after those of the folders on the way to it.
func (p *packer) writeHeader(head *tar.Header) error {
	for _, dir := range p.pending {
		if err := p.tar.WriteHeader(dir); err != nil {
			return err
		}
	}
	p.pending = nil
	return p.tar.WriteHeader(head)
}

// fileErrorOf names the file in an error, unless it stands there already.
func (p *packer) fileErrorOf(name string, err error) error {
	if err == nil {
		return nil
	}
	if _, named := errors.AsType[*fileError](err); named {
		return err
	}
	return &fileError{path: p.folder.localPath(name), err: err}
}

// fileError is what is wrong with one file of the context.
type fileError struct {
	path string
	err  error
}

// Error names the file.
func (e *fileError) Error() string { return "context: " + e.path + ": " + withoutPath(e.err).Error() }

// Unwrap returns the reason.
func (e *fileError) Unwrap() error { return e.err }
