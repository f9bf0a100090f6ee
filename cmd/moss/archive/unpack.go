package archive

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/tarfile"
	"moss/engine/tree"
)

// maxEntries bounds what a container may make of a folder of this machine, with the folders that its entries imply.
const maxEntries = 4 << 20

// Unpacking says where in a folder an archive goes.
type Unpacking struct {
	Name     string            // what the archive's top becomes; "." puts what it holds straight into the folder
	Contents bool              // the archive's entries have no folder in common: Name is above all of them
	Owners   bool              // keep user and group ids where the user may, and the bits that depend on them
	Notice   func(text string) // told of what is left out; may be nil
}

// Unpack writes what a tar stream holds into a folder that exists. Folders stay folders: an entry that would replace
// one by something else, or the reverse, is an error. Files that exist are replaced, folders that exist keep their mode.
// No entry and no symbolic link, an older one either, leads out of the folder.
func Unpack(r io.Reader, dir string, how Unpacking) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	budget := tree.NewBudget(tree.Limits{Entries: maxEntries})
	u := &unpacker{root: root, how: how, buffer: make([]byte, pieces), names: tree.NewNames(budget)}
	archive := tar.NewReader(bufio.NewReaderSize(r, pieces))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if err := u.unpackEntry(header, archive); err != nil {
			return err
		}
	}
	return u.finishFolders()
}

type unpacker struct {
	root   *os.Root
	how    Unpacking
	buffer []byte
	names  *tree.Names // what the entries cost: the container chose them
	begun  bool
	top    string // the first part of all names
	dirs   []*tar.Header
}

func (u *unpacker) unpackEntry(header *tar.Header, content io.Reader) error {
	var create func(*tar.Header, io.Reader) error
	switch header.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir:
		create = u.unpackFolder
	case tar.TypeReg, tar.TypeGNUSparse:
		create = u.unpackFile
	case tar.TypeSymlink:
		create = func(h *tar.Header, _ io.Reader) error {
			return u.replaceNonFolder(h, func() error { return u.root.Symlink(h.Linkname, h.Name) })
		}
	case tar.TypeLink:
		create = u.unpackLink
	case tar.TypeFifo:
		create = func(h *tar.Header, _ io.Reader) error {
			return u.replaceNonFolder(h, func() error { return u.makeFifo(h) })
		}
	default:
		if u.how.Notice != nil {
			u.how.Notice(fmt.Sprintf("%q is no file, folder, link or pipe and left out", header.Name))
		}
		return nil
	}
	name, err := u.entryPath(header.Name)
	if err != nil {
		return err
	}
	header.Name = name
	if err := u.chargeEntry(header); err != nil {
		return err
	}
	if err := create(header, content); err != nil {
		return unpackError(name, err)
	}
	return nil
}

// chargeEntry counts what an entry costs, before anything is made of it.
func (u *unpacker) chargeEntry(header *tar.Header) error {
	link := header.Linkname
	if header.Typeflag == tar.TypeLink {
		var err error
		if link, err = u.entryPath(link); err != nil {
			return err
		}
	}
	return u.names.Enter(header.Name, header.Typeflag, link)
}

// entryPath returns where an entry of the given name goes, relative to the folder.
func (u *unpacker) entryPath(name string) (string, error) {
	if len(name) > tarfile.MaxName || strings.Count(name, "/") > tarfile.MaxDepth {
		return "", fmt.Errorf("the archive's entry %.64q… is longer than %d bytes or more than %d folders deep", name, tarfile.MaxName, tarfile.MaxDepth)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("the archive's entry %q leads out of it", name)
		}
	}
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	top, rest, _ := strings.Cut(name, "/")
	if !u.begun {
		u.begun, u.top = true, top
	}
	switch {
	case u.how.Contents || u.top == "":
		return path.Join(u.how.Name, name), nil
	case top != u.top:
		return "", fmt.Errorf("the archive's entry %q lies beside %q", name, u.top)
	default:
		return path.Join(u.how.Name, rest), nil
	}
}

func (u *unpacker) unpackFolder(header *tar.Header, _ io.Reader) error {
	info, err := u.root.Lstat(header.Name)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return errors.New("a folder would replace what is no folder")
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := u.makeParents(header.Name); err != nil {
		return err
	}
	// It gets its mode at the end: one that nobody may write to has to be filled first.
	if err := u.root.Mkdir(header.Name, 0o700); err != nil {
		return err
	}
	u.dirs = append(u.dirs, header)
	return nil
}

func (u *unpacker) unpackFile(header *tar.Header, content io.Reader) error {
	return u.replaceNonFolder(header, func() error {
		file, err := u.root.OpenFile(header.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{file}, struct{ io.Reader }{content}, u.buffer)
		var owned bool
		if err == nil {
			owned, err = u.setOwner(header) // before the mode: a new owner clears the set-id bits
		}
		if err == nil {
			err = file.Chmod(u.modeOf(header, owned))
		}
		err = errors.Join(err, file.Close())
		if err != nil {
			return errors.Join(err, u.root.Remove(header.Name))
		}
		return u.root.Chtimes(header.Name, time.Time{}, header.ModTime)
	})
}

func (u *unpacker) unpackLink(header *tar.Header, _ io.Reader) error {
	target, err := u.entryPath(header.Linkname)
	if err != nil {
		return err
	}
	return u.replaceNonFolder(header, func() error { return u.root.Link(target, header.Name) })
}

// makeFifo makes a named pipe, by the descriptor of the folder it goes to.
func (u *unpacker) makeFifo(header *tar.Header) error {
	dir, err := u.root.Open(path.Dir(header.Name))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return unix.Mkfifoat(int(dir.Fd()), path.Base(header.Name), uint32(u.modeOf(header, false).Perm()))
}

// replaceNonFolder makes something that is no folder in the place of what is there and no folder either.
func (u *unpacker) replaceNonFolder(header *tar.Header, create func() error) error {
	info, err := u.root.Lstat(header.Name)
	switch {
	case err == nil && info.IsDir():
		return errors.New("a folder would be replaced by what is none")
	case err == nil:
		if err := u.root.Remove(header.Name); err != nil {
			return err
		}
	case errors.Is(err, fs.ErrNotExist):
		if err := u.makeParents(header.Name); err != nil {
			return err
		}
	default:
		return err
	}
	return create()
}

// makeParents makes the folders above a name, which an archive need not list.
func (u *unpacker) makeParents(name string) error {
	if dir := path.Dir(name); dir != "." {
		return u.root.MkdirAll(dir, 0o777)
	}
	return nil
}

// finishFolders gives new folders their modes and times, the inner ones first.
func (u *unpacker) finishFolders() error {
	for _, header := range slices.Backward(u.dirs) {
		owned, err := u.setOwner(header)
		if err == nil {
			err = u.root.Chmod(header.Name, u.modeOf(header, owned))
		}
		if err == nil {
			err = u.root.Chtimes(header.Name, time.Time{}, header.ModTime)
		}
		if err != nil {
			return unpackError(header.Name, err)
		}
	}
	return nil
}

// modeOf returns an entry's permissions. The set-id bits go with the owners: a container's choice of them must not
// become a program of this user's.
func (u *unpacker) modeOf(header *tar.Header, owned bool) fs.FileMode {
	mode := header.FileInfo().Mode()
	if owned {
		return mode & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	}
	return mode & (fs.ModePerm | fs.ModeSticky)
}

// setOwner gives an entry its owner, where the user may, and reports whether it has that owner now.
func (u *unpacker) setOwner(header *tar.Header) (owned bool, err error) {
	if !u.how.Owners {
		return false, nil
	}
	err = u.root.Lchown(header.Name, header.Uid, header.Gid)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
		return false, nil
	}
	return err == nil, err
}

// unpackError names the file in an error.
func unpackError(name string, err error) error {
	text := err.Error()
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		text = wrapped.Err.Error()
	}
	return fmt.Errorf("unpack %q: %s", name, text)
}
