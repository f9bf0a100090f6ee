package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"moss/engine/build/source"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/record"
	"moss/engine/thread"
	"moss/engine/tree"
)

// seedCache copies a folder of an image.
func (w *Worker) seedCache(ctx context.Context, want *cacheMount, dir string) error {
	view, err := w.opt.Images.Open(ctx, want.Image)
	if err != nil {
		return err
	}
	at, err := source.Materialize(ctx, source.Rooted(view.Root), want.Path, dir)
	if err == nil && at != dir {
		err = fault.Invalid("%s is no folder", want.Path)
	}
	return errors.Join(err, view.Close())
}

// Caches lists the folders of cache mounts, the latest used first. Their sizes are of the end of their last use.
func (w *Worker) Caches(ctx context.Context) ([]Cache, error) {
	return w.caches.listCaches(), ctx.Err()
}

func (c *caches) listCaches() []Cache {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Cache
	for _, e := range c.entries {
		if e.about.ID != "" {
			about := e.about
			about.InUse = e.users > 0
			list = append(list, about)
		}
	}
	slices.SortFunc(list, func(a, b Cache) int {
		if order := b.LastUsed.Compare(a.LastUsed); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

// PruneCaches removes the folders of cache mounts that drop wants to go and that no run uses, the longest unused first, and
// returns them with what they took. What was done before an error is in the answer.
func (w *Worker) PruneCaches(ctx context.Context, drop func(Cache) bool) (removed []Cache, err error) {
	for _, about := range slices.Backward(w.caches.listCaches()) {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		if about.InUse || !drop(about) {
			continue
		}
		if size, err := tree.Size(ctx, filepath.Join(w.caches.dir, about.ID, cacheFiles)); err == nil {
			about.Bytes = size
		}
		gone, err := w.caches.removeCache(about.ID)
		if err != nil {
			return removed, fmt.Errorf("remove cache %s: %w", about.Name, err)
		}
		if gone {
			removed = append(removed, about)
		}
	}
	return removed, nil
}

// removeCache takes a cache away unless somebody uses it. A run that comes meanwhile finds none, and makes a new one.
func (c *caches) removeCache(key string) (gone bool, err error) {
	old := filepath.Join(c.dir, cacheOld+id.New())
	c.mu.Lock()
	e := c.entries[key]
	if e == nil || e.users > 0 {
		c.mu.Unlock()
		return false, nil
	}
	e.users, e.alone = 1, true // nobody gets it until the folder has another name
	c.mu.Unlock()
	err = os.Rename(filepath.Join(c.dir, key), old)
	c.mu.Lock()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		delete(c.entries, key)
		delete(c.stale, key)
	} else {
		e.users, e.alone = 0, false
	}
	c.toldLocked()
	c.mu.Unlock()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, tree.RemovePath(old)
}

// measureLocked has somebody look at the sizes of caches that were used, and remove the longest unused ones if all of them
// are too large.
func (w *Worker) measureLocked() {
	c := w.caches
	if c.sizing || len(c.stale) == 0 || w.life.Err() != nil {
		return
	}
	c.sizing = true
	w.background.Go(func() {
		//nolint:errcheck // there is none: what fails is logged, or comes again
		thread.Heavy(func() error {
			for w.measureOne(w.life) {
			}
			return nil
		})
		if err := w.trimCaches(w.life); err != nil && w.life.Err() == nil {
			w.opt.Log.Error().Err(err).Msg("caches of builds not trimmed")
		}
	})
}

// measureOne looks at one cache and writes its record. It is the only writer of records of caches that were used, so none is
// overwritten by an older one. It reports false when no cache is left, and the next to be given back begins anew. After the
// end of ctx it looks no longer, and only writes.
func (w *Worker) measureOne(ctx context.Context) bool {
	c := w.caches
	c.mu.Lock()
	key := ""
	for key = range c.stale {
		break
	}
	delete(c.stale, key)
	if key == "" {
		c.sizing = false
		c.mu.Unlock()
		return false
	}
	c.mu.Unlock()
	size, err := tree.Size(ctx, filepath.Join(c.dir, key, cacheFiles))
	c.mu.Lock()
	e := c.entries[key]
	if e == nil || e.about.ID == "" { // removed meanwhile
		c.mu.Unlock()
		return true
	}
	if err == nil { // otherwise its next use looks again
		e.about.Bytes = size
	}
	about := e.about
	c.mu.Unlock()
	err = record.PutVolatile(filepath.Join(c.dir, key, cacheRecord), about)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		w.opt.Log.Warn().Err(err).Str("cache", about.Name).Msg("use of a cache not noted")
	}
	return true
}

// trimCaches removes the longest unused caches until the rest is within the bound.
func (w *Worker) trimCaches(ctx context.Context) error {
	if w.opt.CacheSize <= 0 {
		return nil
	}
	total := int64(0)
	for _, about := range w.caches.listCaches() {
		total += about.Bytes
	}
	_, err := w.PruneCaches(ctx, func(about Cache) bool {
		if total <= w.opt.CacheSize {
			return false
		}
		total -= about.Bytes
		return true
	})
	return err
}
