package archive

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tarfile"
	trees "moss/engine/tree"
)

// place is a path in a container as a client names it.
type place struct {
	asked  string
	path   string // absolute and cleaned
	name   string // what the entries of its archive begin with: its base name, "." for contents only, "/" for the root
	folder bool   // the client says that it is one
}

// parsePlace reads a path: one that is not absolute counts from the root, a "/" at the end asserts a folder, and "/." at
// the end means the folder's contents alone.
func parsePlace(asked string) (place, error) {
	switch {
	case asked == "":
		return place{}, fault.Invalid("bad parameter: 'path' cannot be empty")
	case strings.ContainsRune(asked, 0):
		return place{}, fault.Invalid("bad parameter: 'path' holds a zero byte")
	case len(asked) > tarfile.MaxName:
		return place{}, fault.Invalid("bad parameter: 'path' has more than %d bytes", tarfile.MaxName)
	}
	p := place{asked: asked, path: path.Join("/", asked)}
	p.name = path.Base(p.path)
	if asked == "." || strings.HasSuffix(asked, "/.") {
		p.name = "."
		p.folder = true
	}
	p.folder = p.folder || strings.HasSuffix(asked, "/")
	return p, nil
}

// noSuchFile is the error for a path that is not there.
func (p place) noSuchFile(containerRef string) error {
	return fault.NotFound("Could not find the file %s in container %s", p.asked, containerRef)
}

// notFolder is what clients are told of a file that they say is a folder.
func (p place) notFolder() error { return fault.Invalid("%s is not a directory", p.asked) }

// tree is a container's root, within which names are resolved.
type tree struct {
	root *os.File
	ref  string // what the client calls the container
}

// openPlace opens a place as a handle that neither reads nor writes (O_PATH). follow says what becomes of a symbolic link at
// its end. Errors are fault.NotFound and fault.Invalid, which name the path.
func (t tree) openPlace(p place, follow bool) (*os.File, error) {
	flags := uint64(unix.O_PATH)
	if !follow && !p.folder {
		flags |= unix.O_NOFOLLOW
	}
	f, err := trees.OpenIn(t.root, p.path, flags, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ESTALE):
		return nil, p.noSuchFile(t.ref)
	case errors.Is(err, unix.ELOOP):
		return nil, fault.Invalid("%s leads through too many symbolic links, or through one of the kernel's own", p.asked)
	case errors.Is(err, unix.ENAMETOOLONG):
		return nil, fault.Invalid("%.64s…: the name is too long", p.asked)
	default:
		return nil, &os.PathError{Op: "open in container", Path: p.asked, Err: err}
	}
	if !p.folder {
		return f, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		f.Close() //nolint:errcheck // only a handle
		return nil, p.notFolder()
	}
	return f, nil
}

// systemFS reports whether a file lies on a file system of the kernel's own, whose files are not data: reading them may
// block, end never, or do something.
func systemFS(fd int) (bool, error) {
	var fs unix.Statfs_t
	for {
		err := unix.Fstatfs(fd, &fs)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return false, err
		}
	}
	switch int64(fs.Type) { //nolint:unconvert // its size depends on the machine
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
		unix.DEVPTS_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC,
		unix.NSFS_MAGIC, unix.PSTOREFS_MAGIC, unix.EFIVARFS_MAGIC, unix.SELINUX_MAGIC, unix.BINFMTFS_MAGIC,
		unix.AUTOFS_SUPER_MAGIC, mqueueMagic, configfsMagic, fusectlMagic:
		return true, nil
	default:
		return false, nil
	}
}

// Magic numbers that x/sys has no names for (the kernel's ipc/mqueue.c, fs/configfs/mount.c, fs/fuse/control.c).
const (
	mqueueMagic   = 0x19800202
	configfsMagic = 0x62656570
	fusectlMagic  = 0x65735543
)
