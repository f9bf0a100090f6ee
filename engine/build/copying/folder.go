package copying

import (
	"context"
	"io"
	"io/fs"

	"moss/engine/build/source"
)

// locateIn returns the last node on the way to the folder in an image, and the names that are missing.
func (f Folder) locateIn(ctx context.Context, t *tree) (*node, []string, error) {
	at, err := newPlace("", f.Path)
	if err != nil {
		return nil, nil, err
	}
	n, missing, err := t.walkPath(ctx, t.root, at.path, true)
	if err == nil && !n.isDir() {
		err = notFolder(n)
	}
	if err != nil {
		return nil, nil, err
	}
	return n, missing, nil
}

func (f Folder) existsIn(ctx context.Context, base source.Source) (bool, error) {
	_, missing, err := f.locateIn(ctx, newTree(base))
	return err == nil && len(missing) == 0, err
}

func (f Folder) writeLayer(ctx context.Context, base source.Source, w io.Writer) error {
	l := &layer{plan: &Plan{}, tree: newTree(base), writer: newWriter(w)}
	at, missing, err := f.locateIn(ctx, l.tree)
	if err != nil {
		return err
	}
	whose, err := parseOwner(f.Owner)
	if err != nil {
		return err
	}
	like := made{mode: fs.ModeDir | 0o755, time: f.Created}
	if like.ids, err = whose.orRoot(ctx, base); err != nil {
		return err
	}
	if _, err := l.tree.mkdirAll(at, missing, like); err != nil {
		return err
	}
	if err := l.flushTree(ctx); err != nil {
		return err
	}
	return l.close()
}
