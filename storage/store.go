// Package storage keeps images and the writable layers of containers in containers/storage. It knows nothing of
// registries, of archives' compression or of what a container is doing.
//
// It runs inside the user namespace, as its uid 0. The program that uses it calls reexec.Init of
// go.podman.io/storage/pkg/reexec first thing in main and returns when that says true: the driver vfs has archives unpacked
// by the same program, chrooted into the layer.
//
// With the other drivers a layer is staged first: unpacked, whatever is to be below it, by a chrooted thread of this process.
// Its record is made when the image is, by a rename.
//
// Images that only the build cache knows have a file each instead of a record in the library (step.go).
//
// A container has a layer of its own and no record in containers/storage: the layer's id is the container's, and the
// layer's parent is the top layer of its image. That saves a locked and synced file per verb, and it lets an image go
// while a stopped container still uses its layers, as clients expect of a forced removal.
package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	cstorage "go.podman.io/storage"
	"golang.org/x/sys/unix"

	"moss/engine/damage"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/tree"
)

// Options says where a store lies and how it is to be opened.
type Options struct {
	// Root is the folder of the engine's data; the store takes its subfolder "storage".
	Root string
	// RunRoot is the folder of this boot; the store takes its subfolder "storage". A tmpfs is best.
	RunRoot string
	// Driver is overlay, fuse-overlayfs or vfs; empty takes the first of these that works here. What an existing store
	// was made with always decides: asking for another one is a conflict.
	Driver string
	// Damage takes what is found damaged; nil for an account of Root of its own.
	Damage *damage.Account
	// SingleID says that the user namespace has one id only: every file then belongs to uid 0.
	SingleID bool
	// UIDs and GIDs are how many users and groups the user namespace has, from 0 on, where images may know others: files of
	// those become root's. 0: their layers are refused.
	UIDs, GIDs int
	// Report is told of what a person should know and nobody waits for: files that cannot be deleted. May be nil.
	Report func(error)
	// Synced is told when files of new layers ("layers"), or records of images and layers ("records"), have reached the disk:
	// all that was there when that began. May be nil.
	Synced func(what string, begun time.Time)

	place place // found out by Open
}

// syncReporter returns what tells Synced of a kind.
func (o Options) syncReporter(what string) func(begun time.Time) {
	return func(begun time.Time) {
		if o.Synced != nil {
			o.Synced(what, begun)
		}
	}
}

func (o Options) reportError(err error) {
	if o.Report != nil {
		o.Report(err)
	}
}

// Store is an open store. Its methods may be called by any number of goroutines.
type Store struct {
	cs      cstorage.Store
	root    string
	choice  choice
	flusher *flusher

	singleID bool
	place    place
	owners   owners
	unsynced *journal
	ballast  *ballast
	notes    []string // of the opening

	damage *damage.Account
	lost   bool    // while the store is opened: an index was damaged, and what none lists is set aside instead of removed
	copies *copier // of the indexes

	images imagesLock // held while an image's records, names or layers change together

	naive sync.Mutex // held while a driver may mount an image's layer to compare trees

	probing sync.Mutex // held while the first volatile layer is mounted; guards probed
	probed  bool

	trash *tree.Trash // files of removed layers

	mu       sync.Mutex              // guards configs, steps, orphans, borrows, volatile, pins and detached
	configs  map[string]*configCache // by image id without sha256:
	steps    map[string]*stepRecord  // images that only builds know, by id without sha256:
	orphans  map[string]struct{}     // layers of removed images that containers still need
	borrows  map[string]int          // container layers mounted for diffs only, with the number of these
	volatile map[string]struct{}     // containers whose layers nobody wants after a crash of the machine
	pins     map[string]int          // image layers that are read, with the number of readers

	detached map[string]*os.File // mounts of container layers that are in no namespace of the engine's; nil: out of reach

	birth sync.RWMutex // held alone while a layer goes that no container may be made from meanwhile

	locks keyed // one per container layer: mount, unmount, remove and diff take turns
}

// Open opens the store of a root and makes it if there is none. It waits for no other process: the caller makes sure
// that one engine at a time uses a root. What a crash left half done is removed. Close ends the store.
//
// Errors are fault.Invalid (unknown driver), fault.Conflict (the store was made with another driver), fault.Unsupported (a
// file system that cannot hold images) or internal.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if opts.Root == "" || opts.RunRoot == "" {
		return nil, fault.Invalid("storage needs a root and a run root")
	}
	if opts.Damage == nil {
		opts.Damage = damage.New(opts.Root, nil)
	}
	root, run := filepath.Join(opts.Root, "storage"), filepath.Join(opts.RunRoot, "storage")
	notes, err := prepareFolders(root, run, &opts)
	if err != nil {
		return nil, err
	}
	suspects := readUnsynced(root)
	mount, err := mountID(root)
	if err != nil {
		return nil, err
	}
	room := newBallast(root)
	room.releaseIfScarce() // the opening takes a little, even on a full disk
	cs, picked, err := openDriver(ctx, root, run, opts)
	if err != nil {
		return nil, fmt.Errorf("open storage in %s: %w", root, err)
	}
	s := &Store{
		cs:       cs.Store,
		root:     root,
		choice:   picked,
		configs:  map[string]*configCache{},
		steps:    map[string]*stepRecord{},
		orphans:  map[string]struct{}{},
		borrows:  map[string]int{},
		pins:     map[string]int{},
		volatile: map[string]struct{}{},

		singleID: opts.SingleID, owners: owners{opts.UIDs, opts.GIDs}, place: opts.place,
		ballast: room,
		damage:  opts.Damage,
		lost:    cs.lost,
		notes:   notes,

		detached: map[string]*os.File{},
	}
	unsynced := suspects.Layers
	if mount != "" && suspects.Mount == mount {
		suspects.Layers = nil // the kernel still has what was written
	}
	if err := s.startCleanup(ctx, opts, suspects); err != nil {
		cs.Free()
		return nil, err
	}
	s.lost = false
	room.restore()
	if s.choice.driver != driverVFS {
		spreadStaging(root)
	}
	s.unsynced = newJournal(root, mount, unsynced, opts.syncReporter("layers"))
	s.copies = newCopier(root, cs.GraphDriverName(), &s.images.Mutex)
	s.images.changed = s.copies.requestCopy
	named := filepath.Join(root, cs.GraphDriverName())
	s.flusher = newFlusher(named+"-layers", named+"-images", s.unsynced.persistList, opts.syncReporter("records"))
	return s, nil
}

// prepareFolders makes the folders and clears what a crash or damage left in them, before the library sees them, and puts into
// opts what their file system refuses. notes name what resists.
func prepareFolders(root, run string, opts *Options) (notes []string, err error) {
	if err := isolateLibrary(); err != nil {
		return nil, err
	}
	for _, dir := range []string{root, run} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the storage folder: %w", err)
		}
	}
	if err := errors.Join(mendFiles(root, opts.Damage), setFoldersAside(root, opts.Damage)); err != nil {
		return nil, err
	}
	if opts.place, err = tryPlace(root, opts.SingleID); err != nil {
		return nil, err
	}
	opts.SingleID = opts.SingleID || opts.place.owners != nil // all files belong to root then, as with one id
	return sweepLeftovers(root)
}

// startCleanup starts what deletes and has it delete what a crash left.
func (s *Store) startCleanup(ctx context.Context, opts Options, suspects unsyncedList) (err error) {
	if s.trash, err = tree.NewTrash(filepath.Join(s.root, trashFolder), opts.reportError); err != nil {
		return err
	}
	if err = errors.Join(s.dropViews(), s.recoverFromCrash(ctx, suspects)); err != nil {
		err = fmt.Errorf("recover storage in %s: %w", s.root, err)
	} else if suspects.all {
		err = s.damage.SetAside(filepath.Join(s.root, unsyncedFile), errors.New("the list of layers that may not be on the disk cannot be read"))
	}
	if err != nil {
		s.trash.Close()
	}
	return err
}

// Close leaves everything on the disk. Mounted layers stay mounted, detached ones stay with their containers:
// containers outlive the engine. The store is of no use afterwards.
func (s *Store) Close() error {
	s.trash.Close()
	s.copies.close()
	err := errors.Join(s.unsynced.close(), s.flusher.close())
	s.mu.Lock()
	for _, tree := range s.detached {
		if tree != nil {
			tree.Close() //nolint:errcheck // only a handle
		}
	}
	clear(s.detached)
	s.mu.Unlock()
	s.cs.Free()
	return err
}

// Driver returns the driver in use: overlay, fuse-overlayfs or vfs.
func (s *Store) Driver() string { return s.choice.driver }

// DriverReason says in one line why that driver is in use.
func (s *Store) DriverReason() string { return s.choice.reason }

// Warnings says what the file system of the data folder does not let images have, a sentence each.
func (s *Store) Warnings() []string { return s.place.warnings() }

// Status returns what the driver tells of itself as pairs of name and value, for info.
func (s *Store) Status() ([][2]string, error) {
	status, err := s.cs.Status()
	if err != nil {
		return nil, fmt.Errorf("storage status: %w", err)
	}
	return status, nil
}

// Root returns the folder of the store.
func (s *Store) Root() string { return s.root }

// Library returns the containers/storage store itself, for the library that pulls and pushes. Images put or changed
// through it are seen by s at once.
func (s *Store) Library() cstorage.Store { return s.cs }

// wrap gives an error of the library the kind and the wording that callers expect.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	what := fmt.Sprintf(format, args...)
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fault.Internal("%s: no space left on device", what)
	case errors.Is(err, unix.EDQUOT):
		return fault.Internal("%s: disk quota exceeded", what)
	case errors.Is(err, cstorage.ErrImageUnknown), errors.Is(err, cstorage.ErrNotAnImage):
		return image.NoSuch(what)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// isolateLibrary keeps the library from the configuration files and variables that other engines use. The library reads them
// whenever a store is opened, even when everything is set by code; naming an empty file is the only way it offers.
func isolateLibrary() error {
	if err := os.Setenv("CONTAINERS_STORAGE_CONF", os.DevNull); err != nil {
		return fmt.Errorf("isolate storage: %w", err)
	}
	for _, name := range []string{"CONTAINERS_STORAGE_CONF_OVERRIDE", "STORAGE_DRIVER", "STORAGE_OPTS", "_CONTAINERS_ROOTLESS_UID"} {
		if err := os.Unsetenv(name); err != nil {
			return fmt.Errorf("isolate storage: %w", err)
		}
	}
	return nil
}
