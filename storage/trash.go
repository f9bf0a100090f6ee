package storage

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// trashFolder is where the files of removed layers wait for their end.
const trashFolder = "moss-trash"

// errQuit ends a deletion that goes on with the next start.
var errQuit = errors.New("the store is closed")

// trash deletes files after they are out of sight: an image of tens of thousands of files is gone at once. It stands back
// for layers that are unpacked, since somebody waits for those. What is left when the engine ends goes with the next start.
type trash struct {
	dir  string
	wake chan struct{} // one waiting mark is enough
	quit chan struct{}
	done chan struct{}

	empty sync.Mutex // held while the folder is emptied

	mu     sync.Mutex // guards busy, urgent and closed
	change *sync.Cond // of these, by mu
	busy   int        // layers that are unpacked
	urgent int        // callers of drain
	closed bool
}

// newTrash starts what deletes. close ends it.
func newTrash(root string) (*trash, error) {
	t := &trash{dir: filepath.Join(root, trashFolder), wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	t.change = sync.NewCond(&t.mu)
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, wrap(err, "make the trash")
	}
	t.wake <- struct{}{} // for what the last engine left
	go t.run()
	return t, nil
}

// close ends the deletion, wherever it is.
func (t *trash) close() {
	t.set(func() { t.closed = true })
	close(t.quit)
	<-t.done
}

func (t *trash) run() {
	defer close(t.done)
	for {
		select {
		case <-t.quit:
			return
		case <-t.wake:
		}
		_ = t.clearAll() // What cannot be deleted now is tried again at the next start.
	}
}

// set changes what turn looks at.
func (t *trash) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	t.change.Broadcast()
}

// stand has the deletion stand back until the caller calls what it gets.
func (t *trash) stand() (goOn func()) {
	t.set(func() { t.busy++ })
	return func() { t.set(func() { t.busy-- }) }
}

// turn waits until a file may be deleted; false if the store is closed.
func (t *trash) turn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.busy > 0 && t.urgent == 0 && !t.closed {
		t.change.Wait()
	}
	return !t.closed
}

// drain returns when all that was in the trash is deleted, without standing back.
func (t *trash) drain() error {
	t.set(func() { t.urgent++ })
	defer t.set(func() { t.urgent-- })
	return t.clearAll()
}

func (t *trash) clearAll() error {
	t.empty.Lock()
	defer t.empty.Unlock()
	return t.clear(t.dir)
}

// clear deletes all below dir, unless the store is closed meanwhile. What cannot be deleted does not keep the rest.
func (t *trash) clear(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("empty the trash: %w", err)
	}
	var left error
	for _, entry := range entries {
		if !t.turn() {
			return errQuit
		}
		path := filepath.Join(dir, entry.Name())
		if entry.IsDir() {
			err = t.clear(path)
		}
		switch {
		case err == nil:
			err = os.Remove(path)
		case errors.Is(err, errQuit):
			return err
		case errors.Is(err, unix.ENAMETOOLONG):
			err = os.RemoveAll(path) // goes folder by folder: names were shorter in the layer's own root
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			left = fmt.Errorf("empty the trash: %w", err)
		}
		err = nil
	}
	return left
}

// take moves a folder into the trash and leaves an empty one in its place.
func (t *trash) take(folder string) error {
	info, err := os.Lstat(folder)
	if err != nil {
		return fmt.Errorf("move to the trash: %w", err)
	}
	// It has no folder around it there: an empty one might be deleted before.
	if err := os.Rename(folder, filepath.Join(t.dir, rand.Text())); err != nil {
		return fmt.Errorf("move to the trash: %w", err)
	}
	if err := os.Mkdir(folder, info.Mode().Perm()); err != nil {
		return fmt.Errorf("move to the trash: %w", err)
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return nil
}

// deleteLayer removes the layer of an image that is gone from the records. Its files are deleted later, unless there is
// hardly any room: then who removes something wants it at once.
func (s *Store) deleteLayer(layerID string) error {
	layer, err := s.cs.Layer(layerID)
	if err != nil {
		return err
	}
	s.birth.Lock()
	defer s.birth.Unlock()
	if s.room(ballastSize, reserveFiles) == nil && !s.hasChildren(layer.ID) {
		// Nothing is lost if this fails: the library deletes what is still there.
		_ = s.trash.take(s.layerFolder(layer.ID))
	}
	s.flusher.mark()
	return s.cs.DeleteLayer(layer.ID)
}

// hasChildren reports whether layers lie on a layer; it stays then, whoever asks for its end.
func (s *Store) hasChildren(layerID string) bool {
	layers, err := s.cs.Layers()
	if err != nil {
		return true
	}
	for i := range layers {
		if layers[i].Parent == layerID {
			return true
		}
	}
	return false
}
