package copying

import (
	"context"
	"io/fs"
	"strings"

	"moss/engine/fault"
)

// put puts what a source names where the instruction says. Below the destination no link of the image is followed.
func (l *layer) put(ctx context.Context, m *match) error {
	at, missing, err := l.tree.walk(ctx, l.tree.root, l.plan.dest.path, true)
	if err != nil {
		return err
	}
	switch {
	case m.archive:
		if at, err = l.tree.mkdir(at, missing, l.like.plain()); err != nil {
			return err
		}
		return l.index(ctx, m, at)
	case m.file.entry.Mode.IsDir():
		if len(missing) == 0 && !at.dir() && !l.plan.dest.folder {
			return notInto(at)
		}
		if at, err = l.tree.mkdir(at, missing, l.like); err != nil {
			return err
		}
		return l.merge(ctx, at, m.file.kids, m)
	default:
		return l.putFile(ctx, at, missing, m)
	}
}

// putFile puts a file into the destination, or in its place.
func (l *layer) putFile(ctx context.Context, at *node, missing []string, m *match) error {
	into := l.plan.dest.folder || len(missing) == 0 && at.dir()
	name := m.name
	switch {
	case into:
	case len(l.plan.matches) > 1:
		return l.plan.req.several()
	case len(missing) > 0:
		name, missing = missing[len(missing)-1], missing[:len(missing)-1]
	default:
		at, name = at.parent, at.name
	}
	if strings.HasPrefix(name, whiteout) {
		return hidden(name)
	}
	dir, err := l.tree.mkdir(at, missing, l.like)
	if err != nil {
		return err
	}
	f := m.file
	f.name = name
	return l.merge(ctx, dir, []file{f}, m)
}

// merge puts files into a folder.
func (l *layer) merge(ctx context.Context, dir *node, files []file, m *match) error {
	if len(files) == 0 {
		return nil
	}
	if dir.lower == nil && dir.kids == nil && dir.rest == nil {
		dir.pend(files, m) // nothing is in their way
		dir.touch()
		return nil
	}
	if err := l.tree.list(ctx, dir, len(files)); err != nil {
		return err
	}
	for i := range files {
		if err := l.mergeOne(ctx, dir, &files[i], m); err != nil {
			return err
		}
	}
	return nil
}

func (l *layer) mergeOne(ctx context.Context, dir *node, f *file, m *match) error {
	there, err := l.tree.child(ctx, dir, f.name)
	if err != nil {
		return err
	}
	if there == nil || !f.entry.Mode.IsDir() {
		if there != nil && there.dir() {
			return fault.Invalid("cannot replace to directory /%s with file", there.path())
		}
		n := &node{entry: f.entry, from: m}
		n.pend(f.kids, m)
		dir.adopt(f.name, n)
		n.touch()
		return nil
	}
	if !there.dir() {
		return notInto(there)
	}
	if f.passage { // as it is, but for the mode
		e := *there.entry
		e.Mode = fs.ModeDir | f.entry.Mode.Perm() | f.entry.Mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)
		if there.from != nil {
			e = *l.final(there.entry, there.from)
		}
		there.entry, there.from = &e, nil
	} else {
		there.entry, there.from = f.entry, m
	}
	there.touch()
	return l.merge(ctx, there, f.kids, m)
}

func notInto(n *node) error { return fault.Invalid("cannot copy to non-directory: /%s", n.path()) }
