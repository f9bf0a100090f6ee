package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"moss/engine/damage"
)

// tarSplitSuffix ends the names of the files that the library keeps the headers of a layer in.
const tarSplitSuffix = ".tar-split.gz"

// mendFiles sets aside what is in the place of files that the store or the library opens, or of folders that it works in,
// and is none. Both make them anew.
func mendFiles(root string, account *damage.Account) error {
	files := slices.Concat(ballastNames(), []string{
		"storage.lock", "userns.lock", ballastFile, "overlay/" + mountProgramFile,
		"overlay-layers/layers.lock", "overlay-images/images.lock", "overlay-containers/containers.lock",
		"vfs-layers/layers.lock", "vfs-images/images.lock", "vfs-containers/containers.lock",
	})
	for _, name := range []string{
		driverOverlay, "overlay-layers", "overlay-images", "overlay-containers", "overlay-layers/tmp", "overlay/l", "overlay/staging",
		"overlay/tempdirs", driverVFS, "vfs-layers", "vfs-images", "vfs-containers", "vfs-layers/tmp", "vfs/dir",
		stepsFolder, containersFolder, trashFolder, stagedFolder,
	} {
		path := filepath.Join(root, name)
		info, err := os.Lstat(path)
		if err == nil && !info.IsDir() {
			err = account.SetAside(path, errors.New("not a folder"))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, name := range files {
		if _, err := account.Plain(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// setFoldersAside sets aside what is in the place of folders of layers and images, and cannot be listed. The overlay driver's
// small files are made anew in an empty folder of a layer, so that no other layer's list leads elsewhere.
func setFoldersAside(root string, account *damage.Account) error {
	overlay := filepath.Join(root, driverOverlay)
	for _, dir := range []string{
		overlay, filepath.Join(root, driverVFS, "dir"), filepath.Join(root, "overlay-images"),
		filepath.Join(root, "vfs-images"),
	} {
		entries, err := readDir(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			if validID(entry.Name()) != nil {
				continue
			}
			why := damage.CheckFolder(path)
			if why == nil {
				continue
			}
			err := account.SetAside(path, why)
			if err == nil && dir == overlay {
				err = os.Mkdir(path, 0o700)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// setUnlistedAside moves what no index lists out of the library's sight, which would delete it.
func setUnlistedAside(layers, images *index, parents map[string]string, account *damage.Account) error {
	listed := map[string]string{}
	if images.present != nil {
		listed = images.present.parents
	}
	return errors.Join(
		setUnknownAside(layers.home, parents, account),
		setUnknownAside(filepath.Dir(layers.path), parents, account),
		setUnknownAside(images.home, listed, account),
	)
}

// setUnknownAside sets aside what belongs to ids that are not known.
func setUnknownAside(dir string, known map[string]string, account *damage.Account) error {
	entries, err := readDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		id := strings.TrimSuffix(entry.Name(), tarSplitSuffix)
		if _, ok := known[id]; ok || validID(id) != nil {
			continue
		}
		if err := account.SetAside(filepath.Join(dir, entry.Name()), errors.New("no index lists it any more")); err != nil {
			return err
		}
	}
	return nil
}

// setLayerAside keeps the files of a layer whose record is about to go.
func (d *disk) setLayerAside(layerID string, why error) error {
	folder := d.layerFolder(layerID)
	info, err := os.Lstat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return wrapError(err, "set layer aside")
	}
	if err := d.damage.SetAside(folder, why); err != nil {
		return err
	}
	return wrapError(os.Mkdir(folder, info.Mode().Perm()), "set layer aside")
}
