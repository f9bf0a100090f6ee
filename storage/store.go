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
// A container has a layer of its own, which the library's driver makes and the library knows nothing of: the layer's id is the
// container's, the layer below is the top layer of its image, and both are the name of a file (containers.go). So no record
// is written anew for each container, and an image may go while a stopped container still uses its layers, as clients expect
// of a forced removal.
//
// The parts of a store, each with its own state and lock: disk (the folders, the library, the room), layerTree (layers of
// images), staging (layers that belong to no image yet), catalog and stepFiles (images), Writable (layers of containers). What
// needs several of them is done by the Store; recovery puts it in order when it is opened.
package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	*disk
	*layerTree
	*staging
	*catalog
	*Writable

	notes  []string // of the opening
	copies *copier  // of the indexes

	containers *containerIndex // layerTree and Writable have it too

	images imagesLock // held while an image's records, names or layers change together
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
	d := &disk{
		cs: cs.Store, root: root, choice: picked, place: opts.place,
		singleID: opts.SingleID, owners: owners{opts.UIDs, opts.GIDs},
		damage: opts.Damage, lost: cs.lost, ballast: room,
	}
	s := &Store{
		disk: d, layerTree: newLayerTree(d, cs.containers), staging: &staging{disk: d}, catalog: newCatalog(d),
		Writable: newWritable(d, cs.containers), containers: cs.containers,
	}
	unsynced := suspects.Layers
	if mount != "" && suspects.Mount == mount {
		suspects.Layers = nil // the kernel still has what was written
	}
	recovery := &recovery{Store: s, notes: notes}
	if err := recovery.startCleanup(ctx, opts, suspects); err != nil {
		cs.Free()
		return nil, err
	}
	s.notes, s.lost = recovery.notes, false
	room.restore()
	if s.choice.driver != driverVFS {
		spreadStaging(root)
	}
	s.unsynced = newJournal(root, mount, unsynced, opts.syncReporter("layers"))
	s.copies = newCopier(root, cs.GraphDriverName(), &s.images.Mutex)
	s.images.changed = s.copies.requestCopy
	dirs := flushed{layers: filepath.Dir(s.headersFile("")), images: s.imagesFolder(), containers: s.containers.dir}
	s.flusher = newFlusher(dirs, s.unsynced.persistList, opts.syncReporter("records"))
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
func (o *recovery) startCleanup(ctx context.Context, opts Options, suspects unsyncedList) (err error) {
	if o.trash, err = tree.NewTrash(filepath.Join(o.root, trashFolder), opts.reportError); err != nil {
		return err
	}
	if err = errors.Join(o.dropViews(), o.recoverFromCrash(ctx, suspects)); err != nil {
		err = fmt.Errorf("recover storage in %s: %w", o.root, err)
	} else if suspects.all {
		err = o.damage.SetAside(filepath.Join(o.root, unsyncedFile),
			errors.New("the list of layers that may not be on the disk cannot be read"))
	}
	if err != nil {
		o.trash.Close()
	}
	return err
}

// Close leaves everything on the disk. Mounted layers stay mounted, detached ones stay with their containers:
// containers outlive the engine. The store is of no use afterwards.
func (s *Store) Close() error {
	s.trash.Close()
	s.copies.close()
	err := errors.Join(s.unsynced.close(), s.flusher.close())
	s.closeDetached()
	s.cs.Free()
	return err
}

// wrapError gives an error of the library the kind and the wording that callers expect.
func wrapError(err error, format string, args ...any) error {
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
//
// It also keeps the library from trying mounts with other ids, which moss has no use for: the trial makes a copy of this process
// that holds its locks, and stays for ever if this process is killed just then.
func isolateLibrary() error {
	for name, value := range map[string]string{"CONTAINERS_STORAGE_CONF": os.DevNull, "_CONTAINERS_OVERLAY_DISABLE_IDMAP": "yes"} {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("isolate storage: %w", err)
		}
	}
	for _, name := range []string{"CONTAINERS_STORAGE_CONF_OVERRIDE", "STORAGE_DRIVER", "STORAGE_OPTS", "_CONTAINERS_ROOTLESS_UID"} {
		if err := os.Unsetenv(name); err != nil {
			return fmt.Errorf("isolate storage: %w", err)
		}
	}
	return nil
}
