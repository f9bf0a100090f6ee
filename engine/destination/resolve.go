package destination

import (
	"errors"
	"os"
	"path"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tree"
)

const (
	maxLinks = 40   // as the kernel's
	maxSteps = 1024 // names on the way of one destination, those of links included
	beneath  = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
)

// resolver follows paths in a root as they will lead once the mounts are made, which they are not yet.
type resolver struct {
	covers  []cover // in the order in which they are mounted; the root is the first
	mounted bool    // the root is that of a container that runs, with all mounts
}

// cover is what can be seen at a place and below it.
type cover struct {
	at     string // a place: a path without links
	source string // a folder or file of the host's; empty: a new file system, with nothing in it that an image or a client chose
	root   int    // handle of source, once it was needed; -1: not yet
	absent bool   // source cannot be opened: the runtime refuses it
}

func newResolver(root string) (*resolver, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, pathError(root, err)
	}
	return &resolver{covers: []cover{{at: "/", source: root, root: fd}}}, nil
}

func (r *resolver) close() {
	for _, c := range r.covers {
		if c.root >= 0 {
			unix.Close(c.root) //nolint:errcheck // only a handle
		}
	}
}

// addCover adds the mount at a place to the covers. What it has in it counts for a bind alone, but for those of proc and sysfs,
// whose own links are the kernel's.
func (r *resolver) addCover(place string, m *specs.Mount) {
	c := cover{at: place, root: -1}
	if m.Type == "bind" && !isBelow(place, "/proc") && !isBelow(place, "/sys") {
		c.source = m.Source
	}
	r.covers = append(r.covers, c)
}

// findCover returns the cover of a place: the last mount on the way to it, since a later one on a folder further up hides
// the earlier ones below.
func (r *resolver) findCover(place string) *cover {
	for i := len(r.covers) - 1; i > 0; i-- {
		if isBelow(place, r.covers[i].at) {
			return &r.covers[i]
		}
	}
	return &r.covers[0]
}

// errProc says that a path leads into proc, whose links are the kernel's.
var errProc = errors.New("in proc")

// openPlace opens a place in its cover, without following links. It gives errProc for one in proc.
func (r *resolver) openPlace(c *cover, place string, flags uint64) (int, error) {
	if c.source == "" || c.absent {
		return -1, unix.ENOENT
	}
	if c.root < 0 {
		fd, err := unix.Open(c.source, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			c.absent = true
			return -1, unix.ENOENT
		}
		c.root = fd
	}
	name := strings.TrimPrefix(strings.TrimPrefix(place, c.at), "/")
	var fd int
	var err error
	if name == "" { // what is mounted may be a file
		fd, err = unix.FcntlInt(uintptr(c.root), unix.F_DUPFD_CLOEXEC, 0)
	} else {
		fd, err = tree.Openat2(c.root, name, unix.O_PATH|flags, beneath)
	}
	if err == nil && (c.at != "/" || r.mounted) && onProc(fd) {
		unix.Close(fd) //nolint:errcheck // only a handle
		return -1, errProc
	}
	return fd, err
}

// resolve returns the place where a cleaned absolute path ends. What is missing on its way will be made by that name.
func (r *resolver) resolve(asked string) (place string, err error) {
	fd, err := r.openPlace(r.findCover(asked), asked, 0)
	switch {
	case err == nil:
		return asked, unix.Close(fd)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT):
		return r.walkPath(asked)
	case errors.Is(err, unix.ENOTDIR):
		return "", fault.Invalid("%s lies below a file", asked)
	case errors.Is(err, unix.ENAMETOOLONG):
		return "", tooLong(asked)
	case errors.Is(err, errProc):
		return "", inProc(asked, asked)
	default:
		return "", pathError(asked, err)
	}
}

// walkPath follows a path name by name.
func (r *resolver) walkPath(asked string) (string, error) {
	place, rest, links := "/", strings.Split(asked, "/"), 0
	for steps := 0; len(rest) > 0; steps++ {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			place = path.Dir(place)
			continue
		}
		next := path.Join(place, name)
		target, linked, err := r.readLink(next)
		switch {
		case errors.Is(err, unix.ENOTDIR):
			return "", fault.Invalid("%s leads below a file: %s", asked, place)
		case errors.Is(err, unix.ENAMETOOLONG) || steps == maxSteps:
			return "", tooLong(asked)
		case errors.Is(err, errProc):
			return "", inProc(asked, next)
		case err != nil && !errors.Is(err, unix.ENOENT):
			return "", pathError(asked, err)
		case !linked:
			place = next
			continue
		}
		if links++; links > maxLinks {
			return "", fault.Invalid("%s leads through too many symbolic links", asked)
		}
		if strings.HasPrefix(target, "/") {
			place = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return place, nil
}

// readLink reads a link at a path that has none on its way.
func (r *resolver) readLink(place string) (target string, linked bool, err error) {
	fd, err := r.openPlace(r.findCover(place), place, unix.O_NOFOLLOW)
	if err != nil {
		return "", false, err
	}
	defer unix.Close(fd) //nolint:errcheck // only a handle
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) { // what is no link gives ENOENT where the name is empty
		return "", false, nil
	}
	return string(buf[:max(n, 0)]), err == nil, err
}

func pathError(asked string, err error) error {
	return &os.PathError{Op: "resolve in the container", Path: asked, Err: err}
}

func inProc(asked, place string) error {
	return fault.Invalid("%s%s, which is %w", asked, describeTarget(asked != place, place), errProc)
}

func tooLong(asked string) error {
	return fault.Invalid("%.64s… leads over too long a way", asked)
}
