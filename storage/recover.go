package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cstorage "go.podman.io/storage"

	"moss/engine/damage"
	"moss/engine/fault"
	"moss/engine/record"
	"moss/engine/tree"
)

// Notes returns what the store did at its opening that its owner should know: images that a power cut damaged, for
// instance. Each is a sentence.
func (s *Store) Notes() []string { return slices.Clone(s.notes) }

// recovery puts a store in order that is being opened.
type recovery struct {
	*Store
	notes []string // what its owner should know
}

// sweepLeftovers removes what a crash left beside the records. It is called before the library opens the store: nothing is in
// use. What a container, an image or a client may have shaped goes into the trash, whatever it is: the library would remove
// some of it when it opens the store, with a descriptor for each level. What resists is noted, and stops nothing.
func sweepLeftovers(root string) (notes []string, err error) {
	for _, dir := range []string{
		"overlay/staging", stagedFolder, "overlay/tempdirs", "overlay-layers/tmp", "vfs/tempdirs", "vfs-layers/tmp",
	} {
		dir = filepath.Join(root, dir)
		entries, err := readDir(dir)
		for _, entry := range entries {
			err = errors.Join(err, setAside(root, filepath.Join(dir, entry.Name())))
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("leftovers in %s cannot be removed: %s", dir, fault.Text(err)))
		}
	}
	if err := sweepTrials(root); err != nil {
		notes = append(notes, "leftovers cannot be removed: "+fault.Text(err))
	}
	err = record.Sweep(root)
	for _, kind := range []string{"layers", "images", "containers"} {
		for _, driver := range []string{driverOverlay, driverVFS} {
			err = errors.Join(err, removeTemps(filepath.Join(root, driver+"-"+kind), 1))
		}
	}
	if err != nil {
		return notes, fmt.Errorf("remove leftovers: %w", err)
	}
	return notes, nil
}

// removeTemps removes the files that the library was about to put in place of others, in a folder and so many levels below.
func removeTemps(dir string, depth int) error {
	entries, err := readDir(dir)
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		switch {
		case entry.IsDir() && depth > 0:
			err = errors.Join(err, removeTemps(name, depth-1))
		case strings.HasPrefix(entry.Name(), ".tmp-"):
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}

func readDir(dir string) ([]os.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// recoverFromCrash clears what a crash left: the library drops layers that were half made or half removed when it loads its
// records; folders without a record or a name, images that were half made and layers that became part of no image are dropped
// here.
func (o *recovery) recoverFromCrash(ctx context.Context, suspects unsyncedList) error {
	if err := o.dropUnknown(); err != nil {
		return err
	}
	if err := o.dropFolderless(); err != nil {
		return err
	}
	if err := o.dropHalfImages(); err != nil {
		return err
	}
	if err := o.loadSteps(); err != nil {
		return err
	}
	if err := o.dropDamaged(ctx, suspects); err != nil {
		return err
	}
	needed, err := o.imageLayers()
	if err != nil {
		return err
	}
	layers, err := o.cs.Layers()
	if err != nil {
		return wrapError(err, "list layers")
	}
	children := map[string]int{}
	for i := range layers {
		children[layers[i].Parent]++
	}
	for _, parent := range o.containers.allParents() {
		children[parent]++
	}
	var leaves []string
	for i := range layers {
		if l := &layers[i]; !needed[l.ID] {
			o.addOrphans(l.ID)
			if children[l.ID] == 0 {
				leaves = append(leaves, l.ID)
			}
		}
	}
	for _, layerID := range leaves {
		if err := o.pruneOrphans(layerID); err != nil {
			return err
		}
	}
	return nil
}

// dropFolderless removes the names of containers' layers whose folders are not there: they did not reach the disk before a
// power cut, or were set aside. Whose containers are there still makes them anew. Such layers of images are damaged.
func (o *recovery) dropFolderless() error {
	layers, err := o.cs.Layers()
	if err != nil {
		return wrapError(err, "list layers")
	}
	for i := range layers {
		layerID := layers[i].ID
		if _, err := os.Lstat(o.layerFolder(layerID)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := o.cs.SetMetadata(layerID, damagedMark); err != nil {
			return wrapError(err, "note that layer %s is damaged", layerID)
		}
	}
	driver, err := o.cs.GraphDriver()
	if err != nil {
		return wrapError(err, "look at layers of containers")
	}
	for containerID := range o.containers.allParents() {
		if _, err := os.Lstat(o.layerFolder(containerID)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := o.containers.removeLayer(driver, containerID); err != nil {
			return wrapError(err, "remove layer %s", containerID)
		}
		o.notes = append(o.notes, fmt.Sprintf("the files of container %s are lost", containerID))
	}
	return nil
}

// dropUnknown removes folders of layers that have neither a record nor a name, and what is kept of layers without a record. The
// library would do so as well, and take those of containers along. What resists is noted.
func (o *recovery) dropUnknown() error {
	layers, err := o.cs.Layers()
	if err != nil {
		return wrapError(err, "list layers")
	}
	driver, err := o.cs.GraphDriver()
	if err != nil {
		return wrapError(err, "list layers")
	}
	known := o.containers.allParents()
	for i := range layers {
		known[layers[i].ID] = layers[i].Parent
	}
	home := filepath.Join(o.root, driverOverlay)
	if o.choice.driver == driverVFS {
		home = filepath.Join(o.root, driverVFS, "dir")
	}
	entries, err := readDir(home)
	if err != nil {
		return wrapError(err, "list folders of layers")
	}
	for _, entry := range entries {
		layerID := entry.Name()
		if _, ok := known[layerID]; ok || !entry.IsDir() || validID(layerID) != nil {
			continue
		}
		err := o.emptyLayer(layerID)
		if err == nil {
			err = driver.Remove(layerID)
		}
		if err != nil {
			o.notes = append(o.notes, "leftovers cannot be removed: "+fault.Text(err))
		}
	}
	return dropUnknownDetails(filepath.Dir(o.headersFile("")), known)
}

// dropUnknownDetails removes the headers and documents of layers that are not known from the library's folder of layers.
func dropUnknownDetails(dir string, known map[string]string) error {
	entries, err := readDir(dir)
	for _, entry := range entries {
		layerID := strings.TrimSuffix(entry.Name(), tarSplitSuffix)
		if _, ok := known[layerID]; !ok && validID(layerID) == nil {
			err = errors.Join(err, tree.RemovePath(filepath.Join(dir, entry.Name())))
		}
	}
	return wrapError(err, "remove leftovers")
}

// dropHalfImages removes the records of images that were half made, and folders of documents that have no record. It sets
// aside documents that are damaged.
func (o *recovery) dropHalfImages() error {
	records, err := o.cs.Images()
	if err != nil {
		return wrapError(err, "list images")
	}
	known := map[string]bool{}
	for i := range records {
		r := &records[i]
		lost, err := o.hasLostConfig(r)
		if err != nil {
			return err
		}
		if o.isComplete(r) && !lost {
			known[r.ID] = true
			if err := o.checkDocuments(r); err != nil {
				return err
			}
			if _, err := o.configOf(r); err != nil { // says so if the image is damaged
				return err
			}
			continue
		}
		if err := o.dropRecord(r.ID); err != nil {
			return err
		}
		o.notes = append(o.notes, fmt.Sprintf("image sha256:%s was half made and is removed", r.ID))
	}
	dir := o.imagesFolder()
	entries, err := readDir(dir)
	for _, entry := range entries {
		if entry.IsDir() && !known[entry.Name()] {
			err = errors.Join(err, tree.RemovePath(filepath.Join(dir, entry.Name())))
		}
	}
	return wrapError(err, "remove leftovers")
}

// isComplete reports whether the making of an image came to its end: it has had its documents, and the name that it was made
// with.
func (c *catalog) isComplete(r *cstorage.Image) bool {
	return (r.Flags[namedFlag] != true || len(r.NamesHistory) > 0) && slices.Contains(r.BigDataNames, cstorage.ImageDigestBigDataKey)
}

// hasLostConfig reports whether the config of an image is missing, and not because it was set aside. The library syncs each
// document, and not that it has its name: after a power cut the record may be on the disk without them.
func (c *catalog) hasLostConfig(r *cstorage.Image) (bool, error) {
	key := "sha256:" + r.ID
	_, err := os.Lstat(c.documentFile(r.ID, key))
	if !slices.Contains(r.BigDataNames, key) || !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	found, err := c.damage.All()
	return !slices.ContainsFunc(found, func(f damage.Found) bool { return strings.Contains(f.Path, r.ID) }), err
}

// dropRecord removes the record of an image and leaves its layers.
func (c *catalog) dropRecord(bare string) error {
	if c.lightStep(bare) != nil {
		c.forgetConfig(bare)
		return c.dropStep(bare)
	}
	return c.dropFromLibrary(bare)
}

// dropFromLibrary is dropRecord for an image that has a place in the library, also beside its file of a step. Its layers may go
// next, and some file systems bring that to the disk earlier: a power cut would leave the image without them.
func (c *catalog) dropFromLibrary(bare string) error {
	c.ballast.releaseIfScarce()
	err := c.changeRecords(func() error { return c.cs.Delete(bare) })
	unknown := errors.Is(err, cstorage.ErrLayerUnknown) || errors.Is(err, cstorage.ErrImageUnknown)
	if err != nil && !unknown {
		return wrapError(err, "remove image %s", bare)
	}
	c.forgetConfig(bare)
	if unknown {
		return nil
	}
	err = syncDir(c.imagesFolder())
	if err != nil {
		c.flusher.markImage(bare)
	}
	return wrapError(err, "remove image %s", bare)
}
