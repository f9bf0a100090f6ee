package copying

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"moss/engine/build/source"
	"moss/engine/fault"
	"moss/engine/tarfile"
	trees "moss/engine/tree"
)

// tree is the file system that comes out: what the image below has, as far as it was looked at, and what is put on top.
// A path in it means what it means in the image; nothing leads out.
type tree struct {
	base   source.Source // nil: nothing is below
	root   *node
	budget *trees.Budget // what archives and links may cost
}

// node is a file, folder or link of a tree.
type node struct {
	parent *node // nil: the root
	name   string
	entry  *source.Entry
	from   *match                   // whose file it is: the instruction's owner and mode go for it; nil: entry is as it will be
	kids   map[string]*node         // those that were looked at
	rest   []file                   // those that the instruction puts into a new folder, sorted, not among kids yet
	restOf *match                   // whose rest is
	lower  *source.Entry            // folder of the image below that is under this one
	names  map[string]*source.Entry // all that is in lower, once it was listed

	stored *stored // content that it shares with other nodes, or that an archive has; nil: its entry's own

	changed bool // the layer says what it is
	above   bool // something below it is changed
	written bool // the layer has it already
	gone    bool // another one took its place
	hides   bool // it is no folder, in the place of one that the image below has
	opaque  bool // a folder that shows nothing of the image below
}

func newTree(base source.Source) *tree {
	t := &tree{base: base, root: &node{entry: &source.Entry{Path: ".", Mode: fs.ModeDir | 0o755}}, budget: newBudget()}
	if base != nil {
		t.root.lower = t.root.entry // stands for one
	}
	return t
}

func (n *node) isDir() bool { return n.entry.Mode.IsDir() }

// path returns where the node is; "." is the root.
func (n *node) path() string {
	if n.parent == nil {
		return "."
	}
	var parts []string
	for ; n.parent != nil; n = n.parent {
		parts = append(parts, n.name)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

// depth returns how many folders the node is in.
func (n *node) depth() int {
	depth := 0
	for ; n.parent != nil; n = n.parent {
		depth++
	}
	return depth
}

// isInTree reports whether the node is still in its tree.
func (n *node) isInTree() bool {
	for ; n.parent != nil; n = n.parent {
		if n.gone {
			return false
		}
	}
	return true
}

// expandDeferred makes nodes of the files that deferFiles has put into a folder.
func (n *node) expandDeferred() {
	if n.rest == nil {
		return
	}
	rest := n.rest
	n.rest = nil
	if n.kids == nil {
		n.kids = make(map[string]*node, len(rest))
	}
	for i := range rest {
		f := &rest[i]
		kid := &node{parent: n, name: f.name, entry: f.entry, from: n.restOf, changed: true}
		kid.deferFiles(f.kids, n.restOf)
		n.kids[f.name] = kid
	}
}

// deferFiles puts files into an empty folder; nodes are made of them when they are needed.
func (n *node) deferFiles(files []file, m *match) {
	if len(files) > 0 {
		n.rest, n.restOf, n.above = files, m, true
	}
}

// lookUpChild returns the node of a name in a folder, nil if there is none.
func (t *tree) lookUpChild(ctx context.Context, dir *node, name string) (*node, error) {
	dir.expandDeferred()
	if n := dir.kids[name]; n != nil {
		return n, nil
	}
	if dir.lower == nil {
		return nil, nil
	}
	entry := dir.names[name]
	if dir.names == nil {
		var err error
		entry, err = t.base.Stat(ctx, path.Join(dir.path(), name), false)
		if err != nil && !notThere(err) {
			return nil, err
		}
		if err != nil {
			entry = nil
		}
	}
	if entry == nil {
		return nil, nil
	}
	n := &node{entry: entry}
	if entry.Mode.IsDir() {
		n.lower = entry
	}
	dir.addChild(name, n)
	return n, nil
}

// addChild puts a node into a folder, in the place of one with the same name.
func (n *node) addChild(name string, kid *node) {
	kid.parent, kid.name = n, name
	if n.kids == nil {
		n.kids = map[string]*node{}
	}
	if there := n.kids[name]; there != nil {
		there.gone = true
	}
	n.kids[name] = kid
}

// prefetchNames lists a folder of the image below, where that is cheaper than to ask for each name.
func (t *tree) prefetchNames(ctx context.Context, dir *node, asked int) error {
	const worth = 8
	if dir.lower == nil || dir.names != nil || asked < worth {
		return nil
	}
	entry := dir.lower
	if dir.parent == nil {
		var err error
		if entry, err = t.base.Stat(ctx, ".", false); err != nil {
			return err
		}
	}
	entries, err := t.base.List(ctx, entry)
	if err != nil {
		return err
	}
	dir.names = make(map[string]*source.Entry, len(entries))
	for _, e := range entries {
		dir.names[path.Base(e.Path)] = e
	}
	return nil
}

// markChanged marks a node as one that the layer holds, and the folders above it as ones with changes below.
func (n *node) markChanged() {
	n.changed = true
	for p := n.parent; p != nil && !p.above; p = p.parent {
		p.above = true
	}
}

// walkPath follows a path from top, which nothing leads out of: "/" and what is above it are top itself. It returns the last
// node that is there and the names that are not. A link at the end is followed only if follow is set.
func (t *tree) walkPath(ctx context.Context, top *node, name string, follow bool) (at *node, missing []string, err error) {
	at = top
	links := 0
	for rest := name; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if links > 0 {
			if err := t.budget.Step(1); err != nil {
				return nil, nil, err
			}
		}
		switch {
		case part == "" || part == ".":
			continue
		case part == ".." && len(missing) > 0:
			missing = missing[:len(missing)-1]
			continue
		case part == "..":
			if at != top {
				at = at.parent
			}
			continue
		case len(missing) > 0:
			missing = append(missing, part)
			continue
		case !at.isDir():
			return nil, nil, notFolder(at)
		}
		next, err := t.lookUpChild(ctx, at, part)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case next == nil:
			missing = append(missing, part)
		case next.entry.Mode&fs.ModeSymlink != 0 && (follow || !isPathEnd(rest)):
			link := next.entry.Link
			if links++; links > trees.MaxLinks || len(link)+len(rest) > tarfile.MaxName {
				return nil, nil, fault.Invalid("%.64s: too many levels of symbolic links", name)
			}
			if path.IsAbs(link) {
				at = top
			}
			rest = link + "/" + rest
		default:
			at = next
		}
	}
	return at, missing, nil
}

// isPathEnd reports whether the rest of a path names nothing more.
func isPathEnd(rest string) bool {
	for rest != "" {
		var part string
		if part, rest, _ = strings.Cut(rest, "/"); part != "" && part != "." {
			return false
		}
	}
	return true
}

// notFolder is what is said where a folder is needed.
func notFolder(n *node) error { return fault.Invalid("mkdir /%s: not a directory", n.path()) }

// made is what folders are like that are made on the way.
type made struct {
	mode fs.FileMode
	ids  ids
	time time.Time
}

// mkdirAll makes folders below at, each inside the one before, and returns the last.
func (t *tree) mkdirAll(at *node, names []string, like made) (*node, error) {
	if !at.isDir() {
		return nil, notFolder(at)
	}
	for _, name := range names {
		if strings.HasPrefix(name, whiteout) {
			return nil, noWhiteout(name)
		}
		n := &node{entry: &source.Entry{Mode: like.mode, UID: like.ids.uid, GID: like.ids.gid, ModTime: like.time}}
		at.expandDeferred()
		at.addChild(name, n)
		n.markChanged()
		at = n
	}
	return at, nil
}
