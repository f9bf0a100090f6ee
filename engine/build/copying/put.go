package copying

import (
	"context"
	"io/fs"
	"strings"

	"moss/engine/fault"
)

// putMatch puts a match where the instruction says. Below the destination no link of the image is followed.
func (l *layer) putMatch(ctx context.Context, m *match) error {
	at, missing, err := l.tree.walkPath(ctx, l.tree.root, l.plan.dest.path, true)
	if err != nil {
		return err
	}
	switch {
	case m.archive:
		if at, err = l.tree.mkdirAll(at, missing, l.like.withDefaultMode()); err != nil {
			return err
		}
		return l.indexArchive(ctx, m, at)
	case m.file.entry.Mode.IsDir():
		if len(missing) == 0 && !at.isDir() && !l.plan.dest.folder {
			return notInto(at)
		}
		if at, err = l.tree.mkdirAll(at, missing, l.like); err != nil {
			return err
		}
		return l.mergeFiles(ctx, at, m.file.kids, m)
	default:
		return l.putFile(ctx, at, missing, m)
	}
}

// putFile puts a file into the destination, or in its place.
func (l *layer) putFile(ctx context.Context, at *node, missing []string, m *match) error {
	into := l.plan.dest.folder || len(missing) == 0 && at.isDir()
	name := m.name
	switch {
	case into:
	case len(l.plan.matches) > 1:
		return l.plan.req.tooManySources()
	case len(missing) > 0:
		name, missing = missing[len(missing)-1], missing[:len(missing)-1]
	default:
		at, name = at.parent, at.name
	}
	if strings.HasPrefix(name, whiteout) {
		return noWhiteout(name)
	}
	dir, err := l.tree.mkdirAll(at, missing, l.like)
	if err != nil {
		return err
	}
	f := m.file
	f.name = name
	return l.mergeFiles(ctx, dir, []file{f}, m)
}

// mergeFiles puts files into a folder.
func (l *layer) mergeFiles(ctx context.Context, dir *node, files []file, m *match) error {
	if len(files) == 0 {
		return nil
	}
	if dir.lower == nil && dir.kids == nil && dir.rest == nil {
		dir.deferFiles(files, m) // nothing is in their way
		dir.markChanged()
		return nil
	}
	if err := l.tree.prefetchNames(ctx, dir, len(files)); err != nil {
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
	there, err := l.tree.lookUpChild(ctx, dir, f.name)
	if err != nil {
		return err
	}
	if there == nil || !f.entry.Mode.IsDir() {
		if there != nil && there.isDir() {
			return fault.Invalid("cannot replace to directory /%s with file", there.path())
		}
		n := &node{entry: f.entry, from: m}
		n.deferFiles(f.kids, m)
		dir.addChild(f.name, n)
		n.markChanged()
		return nil
	}
	if !there.isDir() {
		return notInto(there)
	}
	if f.passage { // as it is, but for the mode
		e := *there.entry
		e.Mode = fs.ModeDir | f.entry.Mode.Perm() | f.entry.Mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)
		if there.from != nil {
			e = *l.finalizeEntry(there.entry, there.from)
		}
		there.entry, there.from = &e, nil
	} else {
		there.entry, there.from = f.entry, m
	}
	there.markChanged()
	return l.mergeFiles(ctx, there, f.kids, m)
}

func notInto(n *node) error { return fault.Invalid("cannot copy to non-directory: /%s", n.path()) }
