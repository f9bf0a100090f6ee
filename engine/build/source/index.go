package source

import (
	"encoding/hex"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
)

// inode is a file, folder or link of a tree, whatever its names. A tree may have a million of them: what few have is in more.
type inode struct {
	mode     fs.FileMode
	uid, gid uint32
	nsec     uint32
	sec      int64
	size     int64 // bytes of a regular file
	at       int64 // where they begin in the content
	sum      [32]byte
	kids     *folder // of a folder
	more     *more   // of what has more; may be nil
}

// more is what few files have.
type more struct {
	link   string
	xattrs map[string]string
	number uint64 // the same for all names of a file that has several
}

// ensureMore returns the inode's more, which is made if there is none.
func (n *inode) ensureMore() *more {
	if n.more == nil {
		n.more = &more{}
	}
	return n.more
}

// linkTarget returns the target of a symbolic link, as it is written.
func (n *inode) linkTarget() string {
	if n.more == nil {
		return ""
	}
	return n.more.link
}

// toEntry describes the inode under one of its names.
func (n *inode) toEntry(path string) *Entry {
	e := &Entry{
		Path: path, Mode: n.mode, UID: int(n.uid), GID: int(n.gid), Size: n.size, ModTime: time.Unix(n.sec, int64(n.nsec)).UTC(),
		node: n,
	}
	if n.more != nil {
		e.Link, e.Xattrs, e.Inode = n.more.link, n.more.xattrs, n.more.number
	}
	return e
}

// contentDigest returns the digest of a regular file's content.
func (n *inode) contentDigest() digest.Digest {
	return digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(n.sum[:]))
}

// child is a name in a folder.
type child struct {
	name string
	node *inode
}

// folder is what a folder holds. Names are never taken away, only replaced.
type folder struct {
	children []child
	unsorted bool           // while it is filled by somebody who knows no order
	index    map[string]int // of a large one that is not sorted
}

// small is how many names are looked through without an index.
const small = 16

func compareName(c child, name string) int { return strings.Compare(c.name, name) }

// indexOf returns the index of a name among the children, -1 if it is not there.
func (f *folder) indexOf(name string) int {
	switch {
	case !f.unsorted:
		if i, ok := slices.BinarySearchFunc(f.children, name, compareName); ok {
			return i
		}
	case f.index != nil:
		if i, ok := f.index[name]; ok {
			return i
		}
	default:
		return slices.IndexFunc(f.children, func(c child) bool { return c.name == name })
	}
	return -1
}

// findInode returns what has a name, nil if nothing has.
func (f *folder) findInode(name string) *inode {
	if i := f.indexOf(name); i >= 0 {
		return f.children[i].node
	}
	return nil
}

// addInode appends a name that is not there.
func (f *folder) addInode(name string, node *inode) {
	if n := len(f.children); n > 0 && name < f.children[n-1].name {
		f.unsorted = true
	}
	f.children = append(f.children, child{name, node})
	switch {
	case !f.unsorted:
	case f.index != nil:
		f.index[name] = len(f.children) - 1
	case len(f.children) > small:
		f.index = make(map[string]int, 2*len(f.children))
		for i, c := range f.children {
			f.index[c.name] = i
		}
	}
}

// sortChildren sorts the names once all are there.
func (f *folder) sortChildren() {
	if f.unsorted {
		slices.SortFunc(f.children, func(a, b child) int { return strings.Compare(a.name, b.name) })
	}
	f.unsorted, f.index = false, nil
}
