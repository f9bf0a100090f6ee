package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"moss/engine/tree"
)

// trashFolder is where the files of removed layers wait for their end.
const trashFolder = "moss-trash"

// Trash returns what deletes files of the engine's data folder soon, for others that have much to delete: who needs room
// (see Room) waits for it. It ends with the store.
func (d *disk) Trash() *tree.Trash { return d.trash }

// fewFiles is how many entries a removal deletes while its client waits: moving a folder costs as much.
const fewFiles = 64

var errMany = errors.New("more than a few files")

// emptyOwnLayer is emptyLayer for that of a container, which mostly has few files and small ones: they are deleted at once.
func (d *disk) emptyOwnLayer(layerID string) error {
	seen := 0
	few := tree.Remover{Turn: func() error {
		if seen++; seen > fewFiles {
			return errMany
		}
		return nil
	}}
	if few.RemoveIn(d.layerFolder(layerID)) == nil {
		return nil
	}
	return d.emptyLayer(layerID)
}

// emptyLayer takes all files from the folder of a layer that is not mounted, before the library removes the folder: it
// would take a descriptor for each level, and a lock on all layers. They are deleted later, unless there is hardly any room:
// then who removes something wants it at once.
func (d *disk) emptyLayer(layerID string) error {
	folder := d.layerFolder(layerID)
	if d.checkRoom(ballastSize, reserveFiles) == nil && d.discardFolder(folder) == nil {
		return nil
	}
	return wrapError(tree.RemoveIn(folder), "empty layer %s", layerID)
}

// discardFolder moves a folder into the trash and leaves an empty one in its place.
func (d *disk) discardFolder(folder string) error {
	info, err := os.Lstat(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("move to the trash: %w", err)
	}
	if err := d.trash.Take(folder); err != nil {
		return err
	}
	if err := os.Mkdir(folder, info.Mode().Perm()); err != nil {
		return fmt.Errorf("move to the trash: %w", err)
	}
	return nil
}

// setAside moves leftovers into the trash before it is open, so that no start waits for their end.
func setAside(root, path string) error {
	trash := filepath.Join(root, trashFolder)
	if err := os.MkdirAll(trash, 0o700); err != nil {
		return fmt.Errorf("make the trash: %w", err)
	}
	if tree.SetAside(trash, path) == nil {
		return nil
	}
	return tree.RemovePath(path)
}
