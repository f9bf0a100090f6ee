package storage

import (
	"fmt"
	"iter"
	"path/filepath"
	"sync"

	cstorage "go.podman.io/storage"
	graphdriver "go.podman.io/storage/drivers"
	"golang.org/x/sys/unix"

	"moss/engine/damage"
	"moss/engine/tree"
)

// disk is where a store lies: its folders, the library that keeps them, what their file system allows, and what brings files to
// the disk and off it. All parts of a store have it.
type disk struct {
	cs     cstorage.Store
	root   string
	choice choice
	place  place

	singleID bool
	owners   owners

	damage *damage.Account
	lost   bool // while the store is opened: an index was damaged, and what none lists is set aside instead of removed

	flusher  *flusher
	unsynced *journal
	ballast  *ballast
	trash    *tree.Trash // files of removed layers

	locks keyed      // one per layer: mount, unmount, remove and diff take turns
	naive sync.Mutex // held while a driver may mount an image's layer to compare trees
}

// Driver returns the driver in use: overlay, fuse-overlayfs or vfs.
func (d *disk) Driver() string { return d.choice.driver }

// DriverReason says in one line why that driver is in use.
func (d *disk) DriverReason() string { return d.choice.reason }

// Warnings says what the file system of the data folder does not let images have, a sentence each.
func (d *disk) Warnings() []string { return d.place.listWarnings() }

// Status returns what the driver tells of itself as pairs of name and value, for info.
func (d *disk) Status() ([][2]string, error) {
	status, err := d.cs.Status()
	if err != nil {
		return nil, fmt.Errorf("storage status: %w", err)
	}
	return status, nil
}

// Root returns the folder of the store.
func (d *disk) Root() string { return d.root }

// Library returns the containers/storage store itself, for the library that pulls and pushes. Images put or changed
// through it are seen by s at once.
func (d *disk) Library() cstorage.Store { return d.cs }

// layerFolder returns where the files of a layer lie.
func (d *disk) layerFolder(layerID string) string {
	if d.choice.driver == driverVFS {
		return filepath.Join(d.root, driverVFS, "dir", layerID)
	}
	return filepath.Join(d.root, driverOverlay, layerID, "diff")
}

// headersFile returns where the headers of a layer's archive lie.
func (d *disk) headersFile(layerID string) string {
	return filepath.Join(d.root, d.cs.GraphDriverName()+"-layers", layerID+tarSplitSuffix)
}

// imagesFolder holds the library's records of images, and a folder of documents for each.
func (d *disk) imagesFolder() string {
	return filepath.Join(d.root, d.cs.GraphDriverName()+"-images")
}

func (d *disk) imageFolder(bare string) string { return filepath.Join(d.imagesFolder(), bare) }

// mountedAt returns where a layer is mounted, by this engine or by the one before it; nothing if it is not. The driver
// vfs has nothing to mount.
func (d *disk) mountedAt(containerID string) string {
	if d.choice.driver == driverVFS {
		return ""
	}
	dir := filepath.Join(d.root, driverOverlay, containerID, "merged")
	var inside, outside unix.Stat_t
	if unix.Lstat(dir, &inside) != nil || unix.Lstat(filepath.Dir(dir), &outside) != nil || inside.Dev == outside.Dev {
		return ""
	}
	return dir
}

// comparesTrees reports whether the driver finds differences by comparing mounted trees.
func (d *disk) comparesTrees(driver graphdriver.Driver) bool {
	if d.choice.driver == driverVFS {
		return false // it compares, but has nothing to mount
	}
	for _, pair := range driver.Status() {
		if pair[0] == "Native Overlay Diff" {
			return pair[1] != "true"
		}
	}
	return true
}

// layersFrom yields a layer of an image and those below it, topmost first. It ends with an error at one that has no record.
func (d *disk) layersFrom(top string) iter.Seq2[*cstorage.Layer, error] {
	return func(yield func(*cstorage.Layer, error) bool) {
		for layerID := top; layerID != ""; {
			layer, err := d.cs.Layer(layerID)
			if err != nil {
				yield(nil, fmt.Errorf("layer %s: %w", layerID, err))
				return
			}
			if !yield(layer, nil) {
				return
			}
			layerID = layer.Parent
		}
	}
}
