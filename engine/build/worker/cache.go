package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/record"
	"moss/engine/tree"
)

// Cache is the folder of a cache mount, which stays between builds.
type Cache struct {
	ID       string // of the folder, 64 hexadecimal digits
	Name     string // the id that the instruction gives it
	Bytes    int64  // of its files, when it was last looked at
	Created  time.Time
	LastUsed time.Time
	Uses     int
	InUse    bool `json:"-"`
}

// What lies in the folder of a cache.
const (
	cacheRecord = "record.json"
	cacheFiles  = "files"
)

// Names of folders that are being made and removed begin so; openCaches removes them.
const (
	cacheNew = ".new-"
	cacheOld = ".old-"
)

// caches are the folders of all cache mounts and who uses them.
type caches struct {
	dir string

	mu      sync.Mutex // guards the fields below
	entries map[string]*cache
	changed chan struct{}   // closed when somebody gives a cache back
	stale   map[string]bool // used since their record was written
	sizing  bool            // a goroutine looks at the sizes of those that are stale, and writes their records
}

// cache is one of them. about is its record; zero before it is made.
type cache struct {
	about Cache
	users int
	alone bool // its one user wants no other
}

// openCaches reads the records. A folder without one is what a crash left; one whose record is damaged is set aside.
func openCaches(dir string, trash *tree.Trash, account damaged) (*caches, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	c := &caches{dir: dir, entries: map[string]*cache{}, changed: make(chan struct{}), stale: map[string]bool{}}
	for _, entry := range found {
		var about Cache
		err := record.Get(filepath.Join(dir, entry.Name(), cacheRecord), &about)
		if err == nil {
			err = record.Sweep(filepath.Join(dir, entry.Name()))
		}
		if !id.Is(entry.Name()) || err != nil || about.ID != entry.Name() {
			if err := dropCache(filepath.Join(dir, entry.Name()), err, trash, account); err != nil {
				return nil, err
			}
			continue
		}
		c.entries[about.ID] = &cache{about: about}
	}
	return c, nil
}

// dropCache removes the folder of a cache that was being made or removed. why says what is wrong with its record; nil: it
// is another one's.
func dropCache(dir string, why error, trash *tree.Trash, account damaged) error {
	if fault.Is(why, fault.NotFound) || !id.Is(filepath.Base(dir)) {
		return trash.Take(dir)
	}
	if why == nil {
		why = errors.New("its record is that of another cache")
	}
	return account.SetAside(dir, why)
}

// cacheMount is a cache that a run wants, and the folder that it got.
type cacheMount struct {
	*Mount
	target string
	id     string
}

// cacheName returns the id that the instruction gives a cache: its target if it gives none.
func (c *cacheMount) cacheName() string {
	if c.ID != "" {
		return c.ID
	}
	return c.target
}

// modeOrDefault returns the permissions that the instruction gives a cache: 0755 if it gives none.
func (c *cacheMount) modeOrDefault() uint32 {
	if c.Mode != nil {
		return *c.Mode
	}
	return 0o755
}

// folderKey returns the name of a cache's folder. The cache's first content is part of it; the number tells private ones apart.
func (c *cacheMount) folderKey(number int) string {
	parts := []string{
		c.cacheName(), c.Image, c.Path, strconv.FormatUint(uint64(c.modeOrDefault()), 8),
		strconv.FormatUint(uint64(c.UID), 10), strconv.FormatUint(uint64(c.GID), 10), strconv.Itoa(number),
	}
	if c.Image == "" {
		parts[2] = "" // there is nothing that it is a path in
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// takeCaches gives a run the caches that it wants, all at once, so that no two runs wait for each other.
func (w *Worker) takeCaches(ctx context.Context, m *mounts, wanted []*cacheMount) error {
	if len(wanted) == 0 {
		return nil
	}
	for _, c := range wanted {
		if !slices.Contains([]Sharing{Shared, Private, Locked}, c.Sharing) {
			return fault.Invalid("unsupported sharing value %q", c.Sharing)
		}
	}
	taken, err := w.caches.takeAll(ctx, wanted)
	if err != nil {
		return err
	}
	m.back = append(m.back, func() error { w.giveBack(taken); return nil })
	for _, c := range wanted {
		if err := w.makeCache(ctx, c); err != nil {
			return fmt.Errorf("cache %s: %w", c.cacheName(), err)
		}
		m.addBind(filepath.Join(w.caches.dir, c.id, cacheFiles), c.target, c.ReadOnly)
	}
	w.caches.unlockShared(wanted)
	return nil
}

// takeAll waits until a run can have all its caches, takes them and returns the ids of their folders.
func (c *caches) takeAll(ctx context.Context, wanted []*cacheMount) (taken []string, err error) {
	for {
		c.mu.Lock()
		taken = c.takeLocked(wanted)
		changed := c.changed
		c.mu.Unlock()
		if taken != nil {
			return taken, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// takeLocked takes all caches, or none: nil. One that is still to be made is its maker's alone.
func (c *caches) takeLocked(wanted []*cacheMount) []string {
	mine := map[string]bool{}
	alone := map[string]bool{}
	for _, want := range wanted {
		for number := 0; ; number++ {
			key := want.folderKey(number)
			e := c.entries[key]
			free := e == nil || e.users == 0
			if want.Sharing == Private && !free && !mine[key] {
				continue
			}
			if !free && !mine[key] && (e.alone || want.Sharing == Locked) {
				return nil
			}
			want.id, mine[key] = key, true
			alone[key] = alone[key] || want.Sharing != Shared || e == nil || e.about.ID == ""
			break
		}
	}
	taken := make([]string, 0, len(mine))
	for key := range mine {
		e := c.entries[key]
		if e == nil {
			e = &cache{}
			c.entries[key] = e
		}
		e.users++
		e.alone = alone[key]
		taken = append(taken, key)
	}
	return taken
}

// unlockShared lets others use shared caches that one run had alone only to make them.
func (c *caches) unlockShared(wanted []*cacheMount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	alone := map[string]bool{}
	for _, want := range wanted {
		alone[want.id] = alone[want.id] || want.Sharing != Shared
	}
	for key, alone := range alone {
		c.entries[key].alone = alone
	}
	c.toldLocked()
}

func (c *caches) toldLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// giveBack ends the use of caches. Those that could not be made are forgotten. The records are written behind it.
func (w *Worker) giveBack(taken []string) {
	c := w.caches
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range taken {
		e := c.entries[key]
		if e.about.ID != "" {
			e.about.LastUsed = time.Now().UTC()
			e.about.Uses++
			c.stale[key] = true
		}
		if e.users--; e.users == 0 {
			e.alone = false
			if e.about.ID == "" {
				delete(c.entries, key)
			}
		}
	}
	c.toldLocked()
	w.measureLocked()
}

// makeCache makes the folder of a cache that is this run's alone, unless it is there.
func (w *Worker) makeCache(ctx context.Context, want *cacheMount) error {
	c := w.caches
	c.mu.Lock()
	made := c.entries[want.id].about.ID != ""
	c.mu.Unlock()
	if made {
		return nil
	}
	fresh := filepath.Join(c.dir, cacheNew+id.New())
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	now := time.Now().UTC()
	about := Cache{ID: want.id, Name: want.cacheName(), Created: now, LastUsed: now}
	err := w.fillCache(ctx, want, filepath.Join(fresh, cacheFiles))
	if err == nil {
		err = record.PutVolatile(filepath.Join(fresh, cacheRecord), about)
	}
	if err == nil {
		err = os.Rename(fresh, filepath.Join(c.dir, want.id))
	}
	if err != nil {
		return errors.Join(err, tree.RemovePath(fresh))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[want.id].about = about
	return nil
}

// fillCache makes what a cache begins with.
func (w *Worker) fillCache(ctx context.Context, want *cacheMount, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if want.Image != "" {
		if err := w.seedCache(ctx, want, dir); err != nil {
			return err
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(setOwnerAndMode(f, want.modeOrDefault(), want.UID, want.GID), f.Close())
}
