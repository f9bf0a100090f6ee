package tree

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// errQuit ends a deletion that goes on with the next start.
var errQuit = errors.New("the trash is closed")

// Trash deletes files after they are out of sight: what tens of thousands of files are in is gone at once. What is left
// when the engine ends goes with the next start. What cannot be deleted stays in its folder and is told of once.
type Trash struct {
	dir    string
	report func(error)
	wake   chan struct{} // one waiting mark is enough
	quit   chan struct{}
	done   chan struct{}

	empty sync.Mutex // held while the folder is emptied; guards told
	told  map[string]bool

	mu     sync.Mutex // guards busy, urgent and closed
	change *sync.Cond // of these, by mu
	busy   int        // calls of Stand that have not ended
	urgent int        // calls of Drain
	closed bool
}

// NewTrash makes a trash of a folder, which nobody else changes, and starts what deletes. report is told of what cannot be
// deleted. Close ends the trash.
func NewTrash(dir string, report func(error)) (*Trash, error) {
	t := &Trash{
		dir: dir, report: report, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		told: map[string]bool{},
	}
	t.change = sync.NewCond(&t.mu)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the trash: %w", err)
	}
	t.wake <- struct{}{} // for what the last engine left
	go t.run()
	return t, nil
}

// Close ends the deletion, wherever it is.
func (t *Trash) Close() {
	t.changeState(func() { t.closed = true })
	close(t.quit)
	<-t.done
}

func (t *Trash) run() {
	defer close(t.done)
	for {
		select {
		case <-t.quit:
			return
		case <-t.wake:
		}
		_ = t.deleteAll() // The report has been told.
	}
}

// changeState changes what awaitTurn looks at.
func (t *Trash) changeState(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	t.change.Broadcast()
}

// Stand has the deletion stand back until the caller calls what it gets: somebody waits for the disk.
func (t *Trash) Stand() (goOn func()) {
	t.changeState(func() { t.busy++ })
	return func() { t.changeState(func() { t.busy-- }) }
}

// awaitTurn waits until a file may be deleted.
func (t *Trash) awaitTurn() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.busy > 0 && t.urgent == 0 && !t.closed {
		t.change.Wait()
	}
	if t.closed {
		return errQuit
	}
	return nil
}

// Drain returns when all that was in the trash is deleted, without standing back.
func (t *Trash) Drain() error {
	t.changeState(func() { t.urgent++ })
	defer t.changeState(func() { t.urgent-- })
	return t.deleteAll()
}

// deleteAll deletes all in the folder, unless the trash is closed meanwhile. What cannot be deleted does not keep the rest.
func (t *Trash) deleteAll() error {
	t.empty.Lock()
	defer t.empty.Unlock()
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return fmt.Errorf("empty the trash: %w", err)
	}
	r := Remover{Turn: t.awaitTurn}
	var left error
	for _, entry := range entries {
		if err := t.awaitTurn(); err != nil {
			return err
		}
		path := filepath.Join(t.dir, entry.Name())
		err := r.RemovePath(path)
		if errors.Is(err, errQuit) {
			return err
		}
		if err == nil {
			continue
		}
		left = fmt.Errorf("empty the trash: %w", err)
		if !t.told[path] {
			t.told[path] = true
			t.report(fmt.Errorf("%s cannot be deleted and stays there: %w", path, err))
		}
	}
	return left
}

// Take moves what is at a path into the trash. What is not there is no error. Where it cannot be moved it is removed at
// once, as without a trash (nil): another file system may be mounted on the folder above, or the disk be full.
func (t *Trash) Take(path string) error {
	if t == nil || SetAside(t.dir, path) != nil {
		return RemovePath(path)
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return nil
}

// SetAside moves what is at a path into the folder of a trash, which deletes it once it is open. What is not there is no
// error.
func SetAside(trash, path string) error {
	// It has no folder around it there: an empty one might be deleted before.
	err := os.Rename(path, filepath.Join(trash, rand.Text()))
	if errors.Is(err, unix.ENOENT) {
		if _, gone := os.Lstat(path); errors.Is(gone, unix.ENOENT) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("move to the trash: %w", err)
	}
	return nil
}
