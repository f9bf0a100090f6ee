package storage

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// imagesLock tells of each time that it was held, since images may have changed then.
type imagesLock struct {
	sync.Mutex
	changed func() // nil while the store is opened
}

// Unlock ends the holding.
func (l *imagesLock) Unlock() {
	changed := l.changed
	l.Mutex.Unlock()
	if changed != nil {
		changed()
	}
}

// copier keeps the copies of the indexes of images and their layers that mendIndexes falls back to. They follow the
// changes soon, and wait for no disk: an index that a power cut damages has been there before.
type copier struct {
	indexes []*index
	still   sync.Locker   // held, nothing of the images is half done
	copied  []fs.FileInfo // of the indexes, when their copies were made

	wake chan struct{} // one waiting mark is enough
	quit chan struct{}
	done chan struct{}
	once sync.Once
}

// newCopier starts a copier of a store whose indexes and copies are in line. close ends it, without still held.
func newCopier(root, driver string, still sync.Locker) *copier {
	layers, _, images := indexesOf(root, driver)
	c := &copier{
		indexes: []*index{layers, images}, still: still, copied: make([]fs.FileInfo, 2),
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	c.requestCopy() // the opening may have changed something
	go c.run()
	return c
}

// requestCopy asks for copies: an index may have changed.
func (c *copier) requestCopy() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// close copies what is left and ends the copier. It may be called again.
func (c *copier) close() {
	c.once.Do(func() { close(c.quit) })
	<-c.done
}

func (c *copier) run() {
	defer close(c.done)
	for {
		select {
		case <-c.quit:
			c.copyChanged()
			return
		case <-c.wake:
		}
		delay := time.NewTimer(flushDelay)
		select {
		case <-c.quit:
			delay.Stop()
		case <-delay.C:
		}
		c.copyChanged()
	}
}

// copyChanged copies the indexes that changed. The library replaces them, so none changes while it is read. On a full disk the
// old copy stays until the next time.
func (c *copier) copyChanged() {
	c.still.Lock()
	defer c.still.Unlock()
	for i, x := range c.indexes {
		info, err := os.Stat(x.path)
		if err == nil && !sameFile(info, c.copied[i]) && copyIndex(x) == nil {
			c.copied[i] = info
		}
	}
}

// sameFile also tells files apart that had the same number one after the other.
func sameFile(a, b fs.FileInfo) bool {
	return b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func copyIndex(x *index) error {
	raw, err := os.ReadFile(x.path)
	if err != nil {
		return err
	}
	next := x.copy + newSuffix
	if err = os.WriteFile(next, raw, 0o600); err == nil {
		err = os.Rename(next, x.copy)
	}
	if err != nil {
		err = errors.Join(err, removeFile(next))
	}
	return err
}
