package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tarfile"
	trees "moss/engine/tree"
)

// Root is a Source over a folder of this machine: an image's file system. It may be used by several goroutines at once.
// Owners are the numbers that the engine sees, which are those inside of containers.
type Root struct{ dir *os.File }

var _ Source = (*Root)(nil)

// Rooted returns the source that root, a handle of a folder, is for. The handle stays the caller's and open as long as the
// source is used.
func Rooted(root *os.File) *Root { return &Root{dir: root} }

// openClean opens a clean path on which there is no link; the last name may be one, for O_PATH with O_NOFOLLOW.
func (r *Root) openClean(clean string, flags uint64) (*os.File, error) {
	const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS
	return trees.OpenIn(r.dir, clean, flags|unix.O_NOFOLLOW, resolve)
}

// translateErrno gives an error of the kernel its kind of fault.
func translateErrno(err error, op, name string) error {
	switch {
	case err == nil || fault.KindOf(err) != fault.KindInternal:
		return err
	case errors.Is(err, unix.ENOENT):
		return noSuchFile(name)
	case errors.Is(err, unix.ENOTDIR):
		return notFolder(name)
	case errors.Is(err, unix.ELOOP):
		return tooManyLinks(name)
	case errors.Is(err, unix.ENAMETOOLONG):
		return fault.Invalid("stat %.64s…: file name too long", name)
	default:
		return &os.PathError{Op: op, Path: name, Err: err}
	}
}

// Stat implements Source.
func (r *Root) Stat(_ context.Context, name string, follow bool) (*Entry, error) {
	clean, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	e, err := r.statClean(clean)
	if errors.Is(err, unix.ELOOP) || err == nil && follow && e.Mode&fs.ModeSymlink != 0 { // links on the way, or at the end
		clean, err = resolveLinks(clean, follow, func(clean string) (fs.FileMode, string, error) {
			e, err := r.statClean(clean)
			if err != nil {
				return 0, "", err
			}
			return e.Mode, e.Link, nil
		})
		if err == nil {
			e, err = r.statClean(clean)
		}
	}
	if err != nil {
		return nil, translateErrno(err, "stat", name)
	}
	return e, nil
}

// statClean describes what is at a clean path without links on its way.
func (r *Root) statClean(clean string) (*Entry, error) {
	f, err := r.openClean(clean, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only a handle
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	e := entryOf(clean, &st)
	if e.Mode&fs.ModeSymlink != 0 {
		e.Link, err = tarfile.ReadLink(int(f.Fd()), "")
		return e, err
	}
	// A handle has no attributes of its own; its link in /proc leads to what it is a handle of.
	place := trees.PathOf(int(f.Fd()))
	e.Xattrs = readXattrs(func(list []byte) (int, error) { return unix.Listxattr(place, list) },
		func(name string, value []byte) (int, error) { return unix.Getxattr(place, name, value) })
	return e, nil
}

// entryOf describes what the kernel tells of a file.
func entryOf(name string, st *unix.Stat_t) *Entry {
	e := &Entry{
		Path: name, Mode: tarfile.FileMode(st.Mode), UID: int(st.Uid), GID: int(st.Gid), ModTime: time.Unix(st.Mtim.Unix()).UTC(),
	}
	switch {
	case e.Mode.IsRegular():
		e.Size = st.Size
		if st.Nlink > 1 {
			e.Inode = st.Ino ^ st.Dev<<48 // of an image's file systems, hardly ever more than one
		}
	case e.Mode&fs.ModeDevice != 0:
		e.Major, e.Minor = unix.Major(st.Rdev), unix.Minor(st.Rdev)
	}
	return e
}

// List implements Source. Names that go away meanwhile are left out.
func (r *Root) List(ctx context.Context, dir *Entry) ([]*Entry, error) {
	f, err := r.openClean(dir.Path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, translateErrno(err, "list", dir.Path)
	}
	defer f.Close() //nolint:errcheck // only read
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, translateErrno(err, "list", dir.Path)
	}
	slices.Sort(names)
	list := make([]*Entry, 0, len(names))
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e, err := childOf(f, name, path.Join(dir.Path, name))
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, translateErrno(err, "list", path.Join(dir.Path, name))
		}
		list = append(list, e)
	}
	return list, nil
}

// childOf describes what has a name in an open folder.
func childOf(dir *os.File, name, clean string) (*Entry, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	e := entryOf(clean, &st)
	switch {
	case e.Mode&fs.ModeSymlink != 0:
		var err error
		e.Link, err = tarfile.ReadLink(int(dir.Fd()), name)
		return e, err
	case e.Mode.IsRegular(), e.Mode.IsDir():
		place := trees.PathOf(int(dir.Fd())) + "/" + name // one name below a descriptor: no link is followed
		e.Xattrs = readXattrs(func(list []byte) (int, error) { return unix.Llistxattr(place, list) },
			func(name string, value []byte) (int, error) { return unix.Lgetxattr(place, name, value) })
	}
	return e, nil
}

// readXattrs reads the extended attributes that belong in a layer. What cannot be read is not there.
func readXattrs(list func([]byte) (int, error), get func(string, []byte) (int, error)) map[string]string {
	var few [512]byte
	names := few[:]
	n, err := list(names)
	if errors.Is(err, unix.ERANGE) {
		names = make([]byte, maxXattr)
		n, err = list(names)
	}
	if err != nil || n == 0 {
		return nil
	}
	var found map[string]string
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		if !trees.Carried(name) {
			continue
		}
		size, err := get(name, nil)
		if err != nil {
			continue
		}
		value := make([]byte, size)
		if size, err = get(name, value); err != nil {
			continue
		}
		if found == nil {
			found = map[string]string{}
		}
		found[name] = string(value[:size])
	}
	return found
}

// Open implements Source.
func (r *Root) Open(_ context.Context, file *Entry) (io.ReadCloser, error) {
	f, err := r.openClean(file.Path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, translateErrno(err, "open", file.Path)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(translateErrno(err, "stat", file.Path), f.Close())
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.Join(notRegular(file.Path), f.Close())
	}
	return f, nil
}

// Digest implements Source. It reads the file.
func (r *Root) Digest(ctx context.Context, file *Entry) (digest.Digest, error) {
	f, err := r.Open(ctx, file)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	h := sha256.New()
	if _, err := io.CopyBuffer(h, contextReader{ctx, f}, make([]byte, min(max(file.Size+1, 512), piece))); err != nil {
		return "", translateErrno(err, "read", file.Path)
	}
	return digest.NewDigest(digest.SHA256, h), nil
}
