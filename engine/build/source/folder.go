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

	"golang.org/x/sys/unix"

	"moss/engine/tarfile"
)

func sumContent(content []byte) [32]byte { return sha256.Sum256(content) }

// FromFolder takes in what a folder of this machine holds, except the names, at any depth, to skip. Owners are 0:0 and
// permissions 0755 or 0644, as a checkout by root has them; all are as old as at. Nobody else may change the folder
// meanwhile. The caller closes the tree.
//
// Errors are fault.Invalid (more than opt allows), those of ctx and of Room, and internal.
func FromFolder(ctx context.Context, dir string, skip []string, at time.Time, opt Options) (*Tree, error) {
	handle, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	root := os.NewFile(uintptr(handle), dir)
	defer root.Close() //nolint:errcheck // only a handle
	b, err := newBuilder(ctx, opt)
	if err != nil {
		return nil, err
	}
	c := &collector{builder: b, ctx: ctx, from: Rooted(root), skip: skip, at: at}
	if err := c.collectFolder(&Entry{Path: "."}); err != nil {
		b.abandonTree()
		return nil, err
	}
	return b.finishTree()
}

// collector takes in one folder.
type collector struct {
	*builder
	ctx  context.Context //nolint:containedctx // of the one call that the collector lives for
	from *Root
	skip []string
	at   time.Time
}

// collectFolder adds the entries of a folder to the tree.
func (c *collector) collectFolder(dir *Entry) error {
	list, err := c.from.List(c.ctx, dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if slices.Contains(c.skip, path.Base(e.Path)) {
			continue
		}
		if err := c.collectEntry(e); err != nil {
			return err
		}
	}
	return nil
}

// collectEntry adds one entry to the tree, with all below it.
func (c *collector) collectEntry(e *Entry) error {
	node := &inode{mode: 0o644}
	if e.Mode&0o100 != 0 {
		node.mode = 0o755
	}
	node.setOwnerAndTime(0, 0, c.at)
	switch {
	case e.Mode.IsDir():
		node.mode |= fs.ModeDir
		if err := c.putNode(e.Path, node); err != nil {
			return err
		}
		return c.collectFolder(e)
	case e.Mode&fs.ModeSymlink != 0:
		node.mode = fs.ModeSymlink | 0o777
		node.ensureMore().link = e.Link
		if err := c.chargeText(len(e.Link)); err != nil {
			return err
		}
	case e.Mode.IsRegular():
		f, err := c.from.Open(c.ctx, e)
		if err != nil {
			return err
		}
		err = c.readContent(node, f, false)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	default:
		return nil // git has nothing else
	}
	return c.putNode(e.Path, node)
}

// FromReader takes in one regular file, owned by 0:0. The caller closes the tree.
//
// Errors are fault.Invalid (the name), those of src, of ctx and of Room, and internal.
func FromReader(ctx context.Context, name string, src io.Reader, mode fs.FileMode, at time.Time, opt Options) (*Tree, error) {
	name, err := tarfile.CleanName("name", name, "build context")
	if err != nil {
		return nil, err
	}
	if strings.Contains(name, "/") || name == "." {
		return nil, notRegular(name)
	}
	b, err := newBuilder(ctx, opt)
	if err != nil {
		return nil, err
	}
	node := &inode{mode: mode &^ fs.ModeType}
	node.setOwnerAndTime(0, 0, at)
	if err := b.readContent(node, contextReader{ctx, src}, false); err != nil {
		b.abandonTree()
		return nil, err
	}
	if err := b.putNode(name, node); err != nil {
		b.abandonTree()
		return nil, err
	}
	return b.finishTree()
}
