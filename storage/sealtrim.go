package storage

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/tree"
)

// trimFolder removes from a container's folder what is there only because something was mounted over it: the rules are those
// of leftOut. Nothing of it is mounted any more, so the mount points' names are followed over the folders of the layers.
func trimFolder(own string, below, points []string) error {
	if len(points) == 0 {
		return nil
	}
	resolved := followAll(own, below, points)
	slices.SortFunc(resolved, func(a, b string) int { return strings.Compare(b, a) }) // children come before their parents
	root, err := unix.Open(own, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root) //nolint:errcheck // only a handle
	for _, point := range slices.Compact(resolved) {
		for name := point; name != "/"; name = path.Dir(name) {
			removed, err := removeMade(root, own, below, name)
			if err != nil {
				return err
			}
			if !removed {
				break
			}
		}
	}
	return nil
}

// removeMade removes one name if it was made only to be mounted over, or to hold such a one.
func removeMade(root int, own string, below []string, name string) (bool, error) {
	var now, before unix.Stat_t
	if statBelow(own, name, &now) != nil {
		return false, nil
	}
	flags := 0
	switch now.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if now.Size > 0 || isBelow(below, name) {
			return false, nil
		}
	case unix.S_IFDIR:
		flags = unix.AT_REMOVEDIR
		if !isBelow(below, name) {
			break
		}
		if statTopmost(below, name, &before) && (before.Mode != now.Mode || before.Uid != now.Uid || before.Gid != now.Gid) {
			return false, nil
		}
		if opaqueAt(own, name) {
			return false, nil
		}
	default:
		return false, nil
	}
	dir, err := tree.Openat2(root, "."+path.Dir(name), unix.O_RDONLY|unix.O_DIRECTORY, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return false, err
	}
	defer unix.Close(dir) //nolint:errcheck // opened for reading
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return false, err
	}
	err = unix.Unlinkat(dir, path.Base(name), flags)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, setTimes(dir, &st)
}

// statTopmost looks at a name in the uppermost layer that has it.
func statTopmost(below []string, name string, st *unix.Stat_t) bool {
	for _, layer := range below {
		if statBelow(layer, name, st) == nil {
			return true
		}
	}
	return false
}

// opaqueAt reports whether a folder of a container hides what the image has there.
func opaqueAt(own, name string) bool {
	var value [1]byte
	n, err := unix.Lgetxattr(own+name, overlayXattrs+"opaque", value[:])
	return err == nil && n == 1 && value[0] == 'y'
}

// maxLinks is how many symbolic links a mount point's name may lead over, as in the kernel.
const maxLinks = 40

// followAll follows the names of mount points where nothing is mounted.
func followAll(own string, below, points []string) []string {
	layers := append([]string{own}, below...)
	resolved := make([]string, 0, len(points))
	for _, point := range points {
		resolved = append(resolved, followLinks(layers, point))
	}
	return resolved
}

// followLinks returns where a name leads to over the folders of layers, the upper ones first. A name that is not there comes
// back as it is.
func followLinks(layers []string, point string) string {
	at := "/"
	rest := strings.Split(path.Clean("/"+point), "/")[1:]
	for links := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		target, ok := linkOf(layers, next)
		if !ok {
			at, rest = next, rest[1:]
			continue
		}
		if links++; links > maxLinks {
			return path.Clean("/" + point)
		}
		if path.IsAbs(target) {
			at = "/"
		}
		parts := strings.FieldsFunc(target, func(r rune) bool { return r == '/' })
		rest = append(parts, rest[1:]...)
	}
	return at
}

// linkOf returns what a symbolic link says, if the uppermost layer that has the name has one there.
func linkOf(layers []string, name string) (string, bool) {
	for _, layer := range layers {
		var st unix.Stat_t
		if statBelow(layer, name, &st) != nil {
			continue
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			return "", false
		}
		target, err := readlinkBelow(layer, name)
		return target, err == nil
	}
	return "", false
}

// readlinkBelow reads a link of a layer, without following any on the way.
func readlinkBelow(layer, name string) (string, error) {
	root, err := os.OpenRoot(layer)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // only a handle
	return root.Readlink(strings.TrimPrefix(name, "/"))
}
