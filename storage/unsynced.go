package storage

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/record"
)

// unsyncedFile lists the layers whose files may not be on the disk yet.
const unsyncedFile = "unsynced.json"

// journal brings the files of new layers to the disk in the background. The library's records of them are on the disk at
// once; should the machine or the file system go down before the files are, the next start knows from the list which layers
// to look at.
type journal struct {
	root  string
	mount string        // of the file system, see mountID
	delay time.Duration // between a verb and the sync that it shares with others; tests set it before the first verb
	told  func(begun time.Time)

	writing sync.Mutex // held while the list is written, so that the newest one is the last

	mu     sync.Mutex // guards the fields below
	layers map[string]*making
	failed error // of the last sync
	soft   bool  // the list was written without waiting for the disk
	lazy   bool  // soft layers wait for their time

	wake chan struct{}
	quit chan struct{}
	done chan struct{}
	once sync.Once
}

// making is one making of a layer. A layer that was removed may be made anew under the same id.
type making struct {
	committed bool // part of an image, its files are all written
}

// unsyncedList is what the file holds.
type unsyncedList struct {
	Mount  string   `json:"mount"` // under which they were written; see mountID
	Layers []string `json:"layers"`

	all bool // the list is lost: any layer may be meant
}

// newJournal makes a journal that starts with some layers. told learns of each sync that has worked. close ends it.
func newJournal(root, mount string, layers []string, told func(begun time.Time)) *journal {
	j := &journal{
		root: root, mount: mount, delay: flushDelay, told: told, layers: map[string]*making{},
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	for _, layerID := range layers {
		j.layers[layerID] = &making{committed: true}
	}
	if len(layers) > 0 {
		j.wake <- struct{}{}
	}
	go j.run()
	return j
}

// addLayers lists layers before there is a record of them, and returns once the list is on the disk. For soft layers it only
// is written, ahead of records that do not wait for the disk either; persistList is called before these do. Should the machine
// go down in between, file systems have both or the list alone, and a list without content means any layer.
func (j *journal) addLayers(layers []string, soft bool) error {
	if len(layers) == 0 {
		return nil
	}
	j.mu.Lock()
	for _, layerID := range layers {
		j.layers[layerID] = &making{}
	}
	j.soft = j.soft || soft
	j.mu.Unlock()
	if err := j.writeList(!soft); err != nil {
		j.dropLayers(layers)
		return wrapError(err, "list new layers")
	}
	return nil
}

// persistList brings a list to the disk that was written without waiting for it.
func (j *journal) persistList() error {
	j.mu.Lock()
	soft := j.soft
	j.mu.Unlock()
	if !soft {
		return nil
	}
	return wrapError(j.writeList(true), "list new layers")
}

// lazyDelay is how long soft layers wait for the disk: a build makes one after the other, and bringing each to the disk takes
// from what the build itself does.
const lazyDelay = 10 * time.Second

// commitLayers says that the files of layers are all written: they are to be brought to the disk.
func (j *journal) commitLayers(layers []string, soft bool) {
	if len(layers) == 0 {
		return
	}
	j.mu.Lock()
	for _, layerID := range layers {
		if m := j.layers[layerID]; m != nil {
			m.committed = true
		}
	}
	later := soft && j.lazy
	j.lazy = j.lazy || soft
	j.mu.Unlock()
	switch {
	case !soft:
		j.requestSync()
	case !later:
		time.AfterFunc(lazyDelay, j.requestSync)
	}
}

// dropLayers takes layers off the list that came to nothing.
func (j *journal) dropLayers(layers []string) {
	j.mu.Lock()
	for _, layerID := range layers {
		delete(j.layers, layerID)
	}
	j.mu.Unlock()
	j.requestSync()
}

func (j *journal) requestSync() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// close brings to the disk what is listed and ends the journal. It may be called again.
func (j *journal) close() error {
	j.mu.Lock()
	waiting := j.lazy
	j.mu.Unlock()
	if waiting {
		j.requestSync()
	}
	j.once.Do(func() { close(j.quit) })
	<-j.done
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

func (j *journal) run() {
	defer close(j.done)
	for {
		select {
		case <-j.quit:
			select {
			case <-j.wake:
				j.syncLayers()
			default:
			}
			return
		case <-j.wake:
		}
		delay := time.NewTimer(j.delay)
		select {
		case <-j.quit:
			delay.Stop()
		case <-delay.C:
		}
		j.syncLayers()
	}
}

// syncLayers brings the whole file system to the disk, since a layer has too many files to sync each, and shortens the list.
func (j *journal) syncLayers() {
	begun := time.Now()
	through := j.committedLayers()
	var err error
	if len(through) > 0 {
		err = syncFS(j.root)
	}
	if err == nil {
		j.forgetSynced(through)
		err = j.writeList(true)
	}
	if err == nil {
		j.told(begun)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = err
}

// committedLayers returns the layers whose files are all written.
func (j *journal) committedLayers() map[string]*making {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lazy = false
	through := map[string]*making{}
	for layerID, m := range j.layers {
		if m.committed {
			through[layerID] = m
		}
	}
	return through
}

// forgetSynced takes layers off the list that have reached the disk. One that was made anew since stays.
func (j *journal) forgetSynced(through map[string]*making) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.layers, func(layerID string, m *making) bool { return through[layerID] == m })
}

// writeList replaces the list on the disk by the present one. durable waits for the disk.
func (j *journal) writeList(durable bool) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	list := unsyncedList{Mount: j.mount, Layers: slices.Sorted(maps.Keys(j.layers))}
	j.soft = !durable
	j.mu.Unlock()
	path := filepath.Join(j.root, unsyncedFile)
	switch {
	case len(list.Layers) == 0:
		return record.Remove(path)
	case !durable:
		return record.PutVolatile(path, list)
	}
	err := record.Put(path, list)
	if err != nil {
		j.mu.Lock()
		j.soft = true
		j.mu.Unlock()
	}
	return err
}

// readUnsynced returns the list that the last engine left.
func readUnsynced(root string) (list unsyncedList) {
	err := record.Get(filepath.Join(root, unsyncedFile), &list)
	if err != nil && !fault.Is(err, fault.NotFound) {
		list = unsyncedList{all: true}
	}
	return list
}

// mountID names the mount that a path lies on, in this boot, as no other is ever named: while it is the same, the kernel
// still has what was written. It is empty where the kernel does not tell (before 6.8): the numbers of mounts are given again.
func mountID(path string) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot's id: %w", err)
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID_UNIQUE, &st); err != nil {
		return "", fmt.Errorf("look at the mount of %s: %w", path, err)
	}
	if st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return "", nil
	}
	return strings.TrimSpace(string(boot)) + " " + strconv.FormatUint(st.Mnt_id, 10), nil
}

func syncFS(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync storage: %w", err)
	}
	defer dir.Close() //nolint:errcheck // opened for reading
	return wrapError(unix.Syncfs(int(dir.Fd())), "sync storage")
}
