package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"moss/engine/build/source"
	"moss/engine/id"
	"moss/engine/tree"
)

// copyKey is what a copy is of.
type copyKey struct {
	files source.Source
	path  string
}

// copied is a copy of files that several runs may read. done is closed when it is made; at and err are set before.
type copied struct {
	dir   string // below which it lies
	at    string
	err   error
	done  chan struct{}
	users int // guarded by Worker.mu
}

// copyOf writes what is at a path of a source to the disk, and returns where. What is only read is shared with other runs
// and removed after the last of them, but see Hold.
func (w *Worker) copyOf(
	ctx context.Context, files source.Source, path string, shared bool,
) (at string, release func() error, err error) {
	if !shared {
		c := &copied{dir: filepath.Join(w.copyDir(), id.New())}
		if at, err = c.writeFiles(ctx, files, path); err != nil {
			return "", nil, err
		}
		return at, c.removeFolder, nil
	}
	key := copyKey{files, filepath.Clean("/" + path)}
	for {
		c, first := w.useCopy(key)
		if first {
			c.at, c.err = c.writeFiles(ctx, files, path)
			close(c.done)
		}
		release := func() error { return w.leaveCopy(key, c) }
		select {
		case <-c.done:
		case <-ctx.Done():
			return "", nil, errors.Join(context.Cause(ctx), release())
		}
		if c.err == nil {
			return c.at, release, nil
		}
		if err := errors.Join(release(), ctx.Err()); err != nil || first {
			return "", nil, errors.Join(c.err, err)
		}
		// Whoever began it may have given up: then it is this one's turn.
	}
}

// useCopy finds a copy, or begins one, which is for the first user to make.
func (w *Worker) useCopy(key copyKey) (c *copied, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c = w.copies[key]
	if c == nil {
		c, first = &copied{dir: filepath.Join(w.copyDir(), id.New()), done: make(chan struct{})}, true
		w.copies[key] = c
	}
	c.users++
	return c, first
}

// leaveCopy ends the use of a copy. With the last user it goes, unless it is held; one that failed goes at once.
func (w *Worker) leaveCopy(key copyKey, c *copied) error {
	w.mu.Lock()
	c.users--
	last := c.users == 0 && (w.held[key.files] == 0 || c.hasFailed())
	if (last || c.hasFailed()) && w.copies[key] == c {
		delete(w.copies, key)
	}
	w.mu.Unlock()
	if !last {
		return nil
	}
	return c.removeFolder()
}

// hasFailed reports whether making the copy has failed.
func (c *copied) hasFailed() bool {
	select {
	case <-c.done:
		return c.err != nil
	default:
		return false
	}
}

// writeFiles writes the copy. On error nothing is left.
func (c *copied) writeFiles(ctx context.Context, files source.Source, path string) (at string, err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return "", err
	}
	inside := filepath.Join(c.dir, "files")
	if err = os.Mkdir(inside, 0o755); err == nil { //nolint:gosec // below a folder that is the user's alone
		at, err = source.Materialize(ctx, files, path, inside)
	}
	if err != nil {
		tree.RemovePath(c.dir) //nolint:errcheck // the first error says more; the next engine removes it
		return "", fmt.Errorf("%s: %w", filepath.Clean("/"+path), err)
	}
	return at, nil
}

func (c *copied) removeFolder() error { return tree.RemovePath(c.dir) }

// Hold has the copies of a build's context stay for the next run of that build. release, which is called once, removes them
// when no run uses them any more.
func (w *Worker) Hold(files source.Source) (release func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[files]++
	return func() error { return w.letGo(files) }
}

func (w *Worker) letGo(files source.Source) (err error) {
	w.mu.Lock()
	var old []*copied
	if w.held[files]--; w.held[files] == 0 {
		delete(w.held, files)
		for key, c := range w.copies {
			if key.files == files && c.users == 0 {
				old = append(old, c)
				delete(w.copies, key)
			}
		}
	}
	w.mu.Unlock()
	for _, c := range old {
		if failed := c.removeFolder(); failed != nil {
			err = fmt.Errorf("remove copies of a context: %w", failed)
		}
	}
	return err
}
