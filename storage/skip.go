package storage

import (
	"archive/tar"
	"errors"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	graphdriver "go.podman.io/storage/drivers"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/tree"
)

// leftOut returns the paths among sorted changes that are there only because something is mounted over them.
func (w *Writable) leftOut(
	layer *containerLayer, driver graphdriver.Driver, changes []container.Change, skip []string,
) (map[string]bool, error) {
	left := map[string]bool{}
	if len(skip) == 0 || len(changes) == 0 {
		return left, nil
	}
	own, below, err := w.foldersOf(layer, driver)
	if err != nil {
		return nil, wrapError(err, "changes of layer of %s", layer.id)
	}
	points := make(map[string]bool, len(skip))
	for _, point := range skip {
		points[w.resolveMountPoint(layer.id, point)] = true
	}
	kept, emptied := map[string]bool{}, map[string]bool{} // folders with a child that stays, with one that goes
	for _, c := range slices.Backward(changes) {          // children come before their parents
		parent := path.Dir(c.Path)
		switch {
		case kept[c.Path], !points[c.Path] && !emptied[c.Path], !madeOnly(own, below, c):
			kept[parent] = true
		default:
			left[c.Path] = true
			emptied[parent] = true
		}
	}
	return left, nil
}

// madeOnly reports whether a change is no more than what a runtime makes to mount over it: a new folder, a new empty
// file, or a folder of the image's that only got such a child.
func madeOnly(own string, below []string, c container.Change) bool {
	var now unix.Stat_t
	if c.Kind == container.ChangeDeleted || statBelow(own, c.Path, &now) != nil {
		return false
	}
	switch now.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return c.Kind == container.ChangeAdded && now.Size == 0
	case unix.S_IFDIR:
	default:
		return false
	}
	if c.Kind == container.ChangeAdded {
		return true
	}
	for _, layer := range below {
		var before unix.Stat_t
		if statBelow(layer, c.Path, &before) == nil {
			return before.Mode == now.Mode && before.Uid == now.Uid && before.Gid == now.Gid
		}
	}
	return false
}

// statBelow looks at a path of a layer, without following any link of it.
func statBelow(dir, name string, st *unix.Stat_t) error {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root) //nolint:errcheck // only a handle
	return statIn(root, name, st)
}

// statIn is statBelow with an open folder.
func statIn(root int, name string, st *unix.Stat_t) error {
	fd, err := tree.Openat2(root, "."+name, unix.O_PATH|unix.O_NOFOLLOW, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only a handle
	return unix.Fstat(fd, st)
}

// foldersOf returns where a container's own files lie, and those of its image, the upper layers first.
func (d *disk) foldersOf(layer *containerLayer, driver graphdriver.Driver) (own string, below []string, err error) {
	if d.choice.driver == driverVFS {
		dir := filepath.Join(d.root, driverVFS, "dir")
		if layer.parent != "" {
			below = []string{filepath.Join(dir, layer.parent)}
		}
		return filepath.Join(dir, layer.id), below, nil
	}
	about, err := driver.Metadata(layer.id)
	if err != nil {
		return "", nil, err
	}
	if lower := about["LowerDir"]; lower != "" {
		below = strings.Split(lower, ":")
	}
	return about["UpperDir"], below, nil
}

// resolveMountPoint follows the links in a mount point's parents, where the layer is mounted; elsewhere, and for a path that
// is not there, the name itself is the best there is.
func (w *Writable) resolveMountPoint(containerID, point string) string {
	dir := w.mountedAt(containerID)
	if w.choice.driver == driverVFS {
		dir = filepath.Join(w.root, driverVFS, "dir", containerID)
	}
	clean := path.Clean("/" + point)
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return clean
	}
	defer unix.Close(root) //nolint:errcheck // only a handle
	fd, err := tree.Openat2(root, clean, unix.O_PATH, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return clean
	}
	defer unix.Close(fd) //nolint:errcheck // only a handle
	name := make([]byte, unix.PathMax)
	n, err := unix.Readlink(tree.PathOf(fd), name)
	if err != nil {
		return clean
	}
	if inside, ok := strings.CutPrefix(string(name[:n]), dir); ok && strings.HasPrefix(inside, "/") {
		return inside
	}
	return clean
}

// leaveOut returns an archive without the entries of some paths. The caller closes what it gets, which closes diff.
func leaveOut(diff io.ReadCloser, left map[string]bool) io.ReadCloser {
	out, in := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.CloseWithError(copyWithout(in, diff, left))
	}()
	return &filtered{Reader: out, stop: func() error {
		err := errors.Join(out.Close(), diff.Close())
		<-done
		return err
	}}
}

// filtered is an archive that another goroutine writes.
type filtered struct {
	io.Reader
	stop func() error
}

// Close ends the archive and waits for who writes it.
func (f *filtered) Close() error { return f.stop() }

func copyWithout(w io.Writer, diff io.Reader, left map[string]bool) error {
	in, out := tar.NewReader(diff), tar.NewWriter(w)
	buf := make([]byte, 256<<10)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		if left[path.Clean("/"+h.Name)] {
			continue
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.CopyBuffer(out, in, buf); err != nil {
			return err
		}
	}
}
