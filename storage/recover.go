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
// records; folders without a record, images that were half made and layers that became part of no image are dropped here.
func (s *Store) recoverFromCrash(ctx context.Context, suspects unsyncedList) error {
	if err := s.emptyUnknown(); err != nil {
		return err
	}
	if err := s.cs.GarbageCollect(); err != nil {
		s.notes = append(s.notes, "leftovers cannot be removed: "+fault.Text(err))
	}
	if err := s.dropFolderless(); err != nil {
		return err
	}
	if err := s.dropHalfImages(); err != nil {
		return err
	}
	if err := s.loadSteps(); err != nil {
		return err
	}
	if err := s.dropDamaged(ctx, suspects); err != nil {
		return err
	}
	needed, err := s.imageLayers()
	if err != nil {
		return err
	}
	layers, err := s.cs.Layers()
	if err != nil {
		return wrap(err, "list layers")
	}
	children := map[string]int{}
	for i := range layers {
		children[layers[i].Parent]++
	}
	var leaves []string
	for i := range layers {
		if l := &layers[i]; !needed[l.ID] && !isContainer(l) {
			s.orphans[l.ID] = struct{}{}
			if children[l.ID] == 0 {
				leaves = append(leaves, l.ID)
			}
		}
	}
	for _, layerID := range leaves {
		if err := s.pruneOrphans(layerID); err != nil {
			return err
		}
	}
	return nil
}

// dropFolderless removes the records of containers' layers whose folders are not there: they did not reach the disk before a
// power cut, or were set aside. Whose containers are there still makes them anew. Such layers of images are damaged.
func (s *Store) dropFolderless() error {
	layers, err := s.cs.Layers()
	if err != nil {
		return wrap(err, "list layers")
	}
	for i := range layers {
		layerID := layers[i].ID
		if _, err := os.Lstat(s.layerFolder(layerID)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if !isContainer(&layers[i]) {
			if err := s.cs.SetMetadata(layerID, damagedMark); err != nil {
				return wrap(err, "note that layer %s is damaged", layerID)
			}
			continue
		}
		if err := s.cs.DeleteLayer(layerID); err != nil {
			return wrap(err, "remove layer %s", layerID)
		}
		s.notes = append(s.notes, fmt.Sprintf("the files of container %s are lost", layerID))
	}
	return nil
}

// emptyUnknown takes the files from folders of layers that have no record, which the library is about to remove.
func (s *Store) emptyUnknown() error {
	layers, err := s.cs.Layers()
	if err != nil {
		return wrap(err, "list layers")
	}
	known := make(map[string]bool, len(layers))
	for i := range layers {
		known[layers[i].ID] = true
	}
	home := filepath.Join(s.root, driverOverlay)
	if s.choice.driver == driverVFS {
		home = filepath.Join(s.root, driverVFS, "dir")
	}
	entries, err := readDir(home)
	if err != nil {
		return wrap(err, "list folders of layers")
	}
	for _, entry := range entries {
		if entry.IsDir() && !known[entry.Name()] && validID(entry.Name()) == nil {
			if err := s.emptyLayer(entry.Name()); err != nil {
				s.notes = append(s.notes, fault.Text(err))
			}
		}
	}
	return nil
}

// dropHalfImages removes the records of images that were half made, and folders of documents that have no record. It sets
// aside documents that are damaged.
func (s *Store) dropHalfImages() error {
	records, err := s.cs.Images()
	if err != nil {
		return wrap(err, "list images")
	}
	known := map[string]bool{}
	for i := range records {
		r := &records[i]
		lost, err := s.hasLostConfig(r)
		if err != nil {
			return err
		}
		if s.isComplete(r) && !lost {
			known[r.ID] = true
			if err := s.checkDocuments(r); err != nil {
				return err
			}
			if _, err := s.configOf(r); err != nil { // says so if the image is damaged
				return err
			}
			continue
		}
		if err := s.dropRecord(r.ID); err != nil {
			return err
		}
		s.notes = append(s.notes, fmt.Sprintf("image sha256:%s was half made and is removed", r.ID))
	}
	dir := s.imagesFolder()
	entries, err := readDir(dir)
	for _, entry := range entries {
		if entry.IsDir() && !known[entry.Name()] {
			err = errors.Join(err, tree.RemovePath(filepath.Join(dir, entry.Name())))
		}
	}
	return wrap(err, "remove leftovers")
}

// isComplete reports whether the making of an image came to its end: it has had its documents, and the name that it was made
// with.
func (s *Store) isComplete(r *cstorage.Image) bool {
	return (r.Flags[namedFlag] != true || len(r.NamesHistory) > 0) && slices.Contains(r.BigDataNames, cstorage.ImageDigestBigDataKey)
}

// hasLostConfig reports whether the config of an image is missing, and not because it was set aside. The library syncs each
// document, and not that it has its name: after a power cut the record may be on the disk without them.
func (s *Store) hasLostConfig(r *cstorage.Image) (bool, error) {
	key := "sha256:" + r.ID
	_, err := os.Lstat(s.documentFile(r.ID, key))
	if !slices.Contains(r.BigDataNames, key) || !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	found, err := s.damage.All()
	return !slices.ContainsFunc(found, func(f damage.Found) bool { return strings.Contains(f.Path, r.ID) }), err
}

// dropRecord removes the record of an image and leaves its layers.
func (s *Store) dropRecord(bare string) error {
	if s.lightStep(bare) != nil {
		s.forgetConfig(bare)
		return s.dropStep(bare)
	}
	return s.dropFromLibrary(bare)
}

// dropFromLibrary is dropRecord for an image that has a place in the library, also beside its file of a step. Its layers may go
// next, and some file systems bring that to the disk earlier: a power cut would leave the image without them.
func (s *Store) dropFromLibrary(bare string) error {
	s.ballast.releaseIfScarce()
	err := s.changeImage(bare, func() error { return s.cs.Delete(bare) })
	unknown := errors.Is(err, cstorage.ErrLayerUnknown) || errors.Is(err, cstorage.ErrImageUnknown)
	if err != nil && !unknown {
		return wrap(err, "remove image %s", bare)
	}
	s.forgetConfig(bare)
	if unknown {
		return nil
	}
	return wrap(syncDir(s.imagesFolder()), "remove image %s", bare)
}
