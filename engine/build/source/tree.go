package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/tarfile"
	trees "moss/engine/tree"
)

// Options say where trees keep their content and what they may hold.
type Options struct {
	Dir string // where the content goes: one file without a name, gone when the tree is closed or the engine ends
	// Room is asked before that many more bytes and files are written; its error ends the intake. It may be nil.
	Room       func(bytes, files int64) error
	MaxEntries int   // 0: a million
	FreeOut    int64 // bytes that may come out of a compressed archive whatever went in; 0: 512 MiB
}

// Tree is a Source whose index is in memory and whose content is one file without a name. It may be used by several
// goroutines at once; trees that Without and Sub make of it share its content and need not be closed.
type Tree struct {
	root    *inode
	content io.ReaderAt
	file    *os.File // to be closed; nil if the content is another's
	entries int
	bytes   int64
}

var _ Source = (*Tree)(nil)

// SingleFile returns a tree of one regular file, owned by 0:0, whose content is in memory. It need not be closed.
func SingleFile(name string, content []byte, mode fs.FileMode, at time.Time) *Tree {
	node := &inode{mode: mode &^ fs.ModeType, size: int64(len(content)), sum: sumContent(content)}
	node.setOwnerAndTime(0, 0, at)
	root := &inode{mode: fs.ModeDir | 0o755, kids: &folder{children: []child{{name, node}}}}
	return &Tree{root: root, content: bytes.NewReader(content), entries: 1, bytes: node.size}
}

// Empty returns a tree of nothing. It need not be closed.
func Empty() *Tree {
	return &Tree{root: &inode{mode: fs.ModeDir | 0o755, kids: &folder{}}, content: bytes.NewReader(nil)}
}

// Close frees the content.
func (t *Tree) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// Count returns how many entries the tree has, its root left out, and how many bytes its regular files hold: all of
// a file for each of its names.
func (t *Tree) Count() (entries int, bytes int64) { return t.entries, t.bytes }

// Sub returns the tree below a folder, to which no link may lead. Errors are fault.NotFound and fault.Invalid.
func (t *Tree) Sub(name string) (*Tree, error) {
	clean, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	node, err := t.findNode(clean)
	if err != nil {
		return nil, err
	}
	if node.kids == nil {
		return nil, notFolder(name)
	}
	sub := &Tree{root: node, content: t.content}
	sub.entries, sub.bytes = node.countBelow()
	return sub, nil
}

// Into is Sub with the whole tree's content: t is used up, and its content closed with the new tree, or because of an error.
func (t *Tree) Into(name string) (*Tree, error) {
	sub, err := t.Sub(name)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	sub.file = t.file
	return sub, nil
}

// countBelow counts the entries below a folder and their bytes.
func (n *inode) countBelow() (entries int, bytes int64) {
	for _, c := range n.kids.children {
		entries, bytes = entries+1, bytes+c.node.size
		if c.node.kids != nil {
			e, b := c.node.countBelow()
			entries, bytes = entries+e, bytes+b
		}
	}
	return entries, bytes
}

// ReadFile returns the content of a regular file, links followed. Errors are fault.NotFound and fault.Invalid, also for more
// than limit bytes.
func (t *Tree) ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	file, err := t.Stat(ctx, name, true)
	if err != nil {
		return nil, err
	}
	if !file.Mode.IsRegular() {
		return nil, notRegular(name)
	}
	if file.Size > limit {
		return nil, fault.Invalid("%s has %d bytes, more than %d", name, file.Size, limit)
	}
	content := make([]byte, file.Size)
	if n, err := t.content.ReadAt(content, file.node.at); n < len(content) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return content, nil
}

func notRegular(name string) error { return fault.Invalid("%s is not a regular file", name) }

// Stat implements Source.
func (t *Tree) Stat(_ context.Context, name string, follow bool) (*Entry, error) {
	clean, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	clean, node, err := t.walkPath(clean, follow, nil)
	if err != nil {
		return nil, err
	}
	return node.toEntry(clean), nil
}

// walkPath returns the inode at a clean path, links followed, and the path that they led to. step is told of names that are
// looked up because of a link; it may be nil.
func (t *Tree) walkPath(clean string, follow bool, step func(names int) error) (string, *inode, error) {
	at, parts, links := []*inode{t.root}, []string(nil), 0 // the folders on the way, and their names below the root
	for rest := clean; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if links > 0 && step != nil {
			if err := step(1); err != nil {
				return "", nil, err
			}
		}
		in := at[len(at)-1]
		if part != "" && in.kids == nil {
			return "", nil, notFolder(clean)
		}
		switch part {
		case "", ".":
			continue
		case "..":
			if len(parts) > 0 {
				at, parts = at[:len(at)-1], parts[:len(parts)-1]
			}
			continue
		}
		next := in.kids.findInode(part)
		if next == nil {
			return "", nil, noSuchFile(clean)
		}
		if next.mode&fs.ModeSymlink != 0 && (rest != "" || follow) {
			link := next.linkTarget()
			if links++; links > trees.MaxLinks || len(link)+len(rest) > tarfile.MaxName {
				return "", nil, tooManyLinks(clean)
			}
			if path.IsAbs(link) {
				at, parts = at[:1], parts[:0]
			}
			rest = link + "/" + rest
			continue
		}
		at, parts = append(at, next), append(parts, part)
	}
	if len(parts) == 0 {
		return ".", t.root, nil
	}
	return strings.Join(parts, "/"), at[len(at)-1], nil
}

// findNode returns the inode at a clean path without links on its way.
func (t *Tree) findNode(clean string) (*inode, error) {
	at := t.root
	for rest := clean; rest != "" && rest != "."; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if at.kids == nil {
			return nil, notFolder(clean)
		}
		if at = at.kids.findInode(part); at == nil {
			return nil, noSuchFile(clean)
		}
	}
	return at, nil
}

// nodeOf returns what an entry describes.
func (t *Tree) nodeOf(e *Entry) (*inode, error) {
	if e.node != nil {
		return e.node, nil
	}
	return t.findNode(e.Path)
}

// List implements Source.
func (t *Tree) List(_ context.Context, dir *Entry) ([]*Entry, error) {
	node, err := t.nodeOf(dir)
	if err != nil {
		return nil, err
	}
	if node.kids == nil {
		return nil, notFolder(dir.Path)
	}
	list := make([]*Entry, len(node.kids.children))
	for i, c := range node.kids.children {
		list[i] = c.node.toEntry(path.Join(dir.Path, c.name))
	}
	return list, nil
}

// Open implements Source.
func (t *Tree) Open(_ context.Context, file *Entry) (io.ReadCloser, error) {
	node, err := t.nodeOf(file)
	if err != nil {
		return nil, err
	}
	if !node.mode.IsRegular() {
		return nil, notRegular(file.Path)
	}
	return section{io.NewSectionReader(t.content, node.at, node.size)}, nil
}

// section is one file of the content.
type section struct{ *io.SectionReader }

// Close does nothing: the content is the tree's.
func (section) Close() error { return nil }

// Digest implements Source.
func (t *Tree) Digest(_ context.Context, file *Entry) (digest.Digest, error) {
	node, err := t.nodeOf(file)
	if err != nil {
		return "", err
	}
	if !node.mode.IsRegular() {
		return "", notRegular(file.Path)
	}
	return node.contentDigest(), nil
}
