package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	volatileFile = "volatile-layers.json" // the library's records of layers whose verbs do not sync
	backupFile   = "volatile-layers.bak"  // the last of them that is surely on the disk
	flushDelay   = 500 * time.Millisecond // between a verb and its sync: many verbs share one
)

// flushed are the folders that a flusher syncs: those of the library's records of layers and of images, and that of the names
// of containers' layers.
type flushed struct{ layers, images, containers string }

// flusher brings the names of container layers and the records of layers of steps to the disk soon after they changed, and
// keeps the last synced records: a power cut in between may leave an empty file on some file systems. It also makes durable
// that new records of images, which the library syncs, have taken the place of the last ones.
type flusher struct {
	flushed

	dirty chan struct{} // one waiting mark is enough
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once
	err   error // of the last sync; read after done is closed

	working sync.Mutex   // held while the records are synced
	before  func() error // brings to the disk what has to be there before them
	told    func(begun time.Time)

	mu      sync.Mutex // guards pending
	pending pending
}

// pending is what may not be on the disk.
type pending struct {
	changed    map[string]bool // images whose records or documents were replaced
	steps      bool            // there are layers of steps whose records may not be on the disk
	records    bool            // records of layers were replaced
	containers bool            // names of containers' layers came or went
}

func (p *pending) addAll(more pending) {
	if p.changed == nil {
		p.changed = map[string]bool{}
	}
	maps.Copy(p.changed, more.changed)
	p.steps, p.records, p.containers = p.steps || more.steps, p.records || more.records, p.containers || more.containers
}

// newFlusher starts a flusher. before is called ahead of every sync of layers' records, and told after each sync that has
// worked. close ends it.
func newFlusher(dirs flushed, before func() error, told func(begun time.Time)) *flusher {
	f := &flusher{
		flushed: dirs, before: before, told: told,
		dirty: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go f.run()
	return f
}

// requestSync asks for a sync. A store that is being opened has no flusher yet.
func (f *flusher) requestSync(of pending) {
	if f == nil {
		return
	}
	f.notePending(of)
	select {
	case f.dirty <- struct{}{}:
	default:
	}
}

func (f *flusher) notePending(more pending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending.addAll(more)
}

func (f *flusher) takePending() pending {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.pending
	f.pending = pending{}
	return taken
}

// markImage notes a change of an image and asks for a sync.
func (f *flusher) markImage(bare string) {
	f.requestSync(pending{changed: map[string]bool{bare: true}, records: true})
}

// markStep asks for a sync of the layer of a step. An image of the library may stand on it before that.
func (f *flusher) markStep() { f.requestSync(pending{steps: true, records: true}) }

// markRecords asks for a sync of the records of layers.
func (f *flusher) markRecords() { f.requestSync(pending{records: true}) }

// markContainers asks for a sync of the names of containers' layers.
func (f *flusher) markContainers() { f.requestSync(pending{containers: true}) }

// syncSteps brings the records of all layers of steps to the disk that are not there yet.
func (f *flusher) syncSteps() error {
	f.working.Lock()
	defer f.working.Unlock()
	f.mu.Lock()
	needed := f.pending.steps
	f.mu.Unlock()
	if !needed {
		return nil
	}
	return f.syncLocked()
}

// close syncs what is left and ends the flusher. It may be called again.
func (f *flusher) close() error {
	f.once.Do(func() { close(f.quit) })
	<-f.done
	return f.err
}

func (f *flusher) run() {
	defer close(f.done)
	for {
		select {
		case <-f.quit:
			select {
			case <-f.dirty:
				f.err = f.sync()
			default:
			}
			return
		case <-f.dirty:
		}
		delay := time.NewTimer(flushDelay)
		select {
		case <-f.quit:
			delay.Stop()
		case <-delay.C:
		}
		f.err = f.sync()
	}
}

// sync brings the present records to the disk and backs them up. The library replaces the file by a new one each time, so
// what is open does not change.
func (f *flusher) sync() error {
	f.working.Lock()
	defer f.working.Unlock()
	return f.syncLocked()
}

func (f *flusher) syncLocked() (err error) {
	begun := time.Now()
	now := f.takePending() // what comes while this is under way is noted again
	defer func() {
		if err != nil {
			f.notePending(now)
			return
		}
		f.told(begun)
	}()
	if now.containers {
		if err := syncDir(f.containers); err != nil {
			return err
		}
	}
	if err := f.syncImages(now.changed); err != nil || !now.records {
		return err
	}
	return f.syncRecords()
}

// replacedOften is how often the records may be replaced while they are brought to the disk before all of the file system is.
const replacedOften = 3

// syncRecords brings the records of layers to the disk, under their name, and backs them up. A file that was replaced while it
// was synced has its content on the disk, and its name may still mean an older one there.
func (f *flusher) syncRecords() error {
	for try := 1; ; try++ {
		file, err := os.Open(filepath.Join(f.layers, volatileFile))
		if errors.Is(err, fs.ErrNotExist) {
			return f.before()
		}
		if err != nil {
			return fmt.Errorf("sync layer records: %w", err)
		}
		named, err := f.syncFile(file)
		if err == nil && !named && try == replacedOften {
			named, err = true, syncFS(f.layers)
		}
		if err == nil && named {
			err = f.backUpRecords(file)
		}
		if err = errors.Join(err, file.Close()); err != nil || named {
			return err
		}
	}
}

// syncFile syncs the open records and reports whether they are those that have the name.
func (f *flusher) syncFile(file *os.File) (named bool, err error) {
	if err := f.before(); err != nil { // of what is open now, all is there to be listed
		return false, err
	}
	if err := file.Sync(); err != nil {
		return false, fmt.Errorf("sync layer records: %w", err)
	}
	synced, err := file.Stat()
	if err != nil {
		return false, fmt.Errorf("sync layer records: %w", err)
	}
	now, err := os.Stat(file.Name())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("sync layer records: %w", err)
	}
	return err == nil && os.SameFile(synced, now), nil
}

// syncImages brings to the disk which files the folders of changed images hold, and then which records of all images count.
func (f *flusher) syncImages(changed map[string]bool) error {
	if len(changed) == 0 {
		return nil
	}
	var err error
	for bare := range changed {
		if serr := syncDir(filepath.Join(f.images, bare)); serr != nil && !errors.Is(serr, fs.ErrNotExist) { // then it was removed
			err = errors.Join(err, serr)
		}
	}
	return errors.Join(err, syncDir(f.images))
}

// backUpRecords copies the records, so that the copy is whole on the disk before it takes the place of the last one.
func (f *flusher) backUpRecords(records io.Reader) error {
	return wrapError(replaceFile(filepath.Join(f.layers, backupFile), records), "back up layer records")
}

// newSuffix marks a file that is about to take another's place. A crash may leave it; the next start removes it.
const newSuffix = ".new"

// replaceFile puts a file of that content, whole and on the disk, in the place of another.
func replaceFile(path string, content io.Reader) error {
	next := path + newSuffix
	if err := os.RemoveAll(next); err != nil { // whatever damage put there
		return err
	}
	out, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, content); err == nil {
		err = out.Sync()
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	defer d.Close() //nolint:errcheck // opened for reading
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
