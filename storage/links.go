package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mendLinks puts the overlay driver's short names in order: each layer has a file "link" with a name, and in the folder "l" a
// link of that name leads to the layer. A crash leaves names of layers that are gone, and empty files. An empty file makes
// the driver (1.64) remove the whole folder "l" together with the layer. It is called before the library opens the store.
func mendLinks(home string) error {
	dir := filepath.Join(home, "l")
	entries, err := readDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		err = errors.Join(err, checkLink(home, entry.Name()))
	}
	layers, rerr := readDir(home)
	err = errors.Join(err, rerr)
	for _, entry := range layers {
		if len(entry.Name()) == 64 && entry.IsDir() {
			err = errors.Join(err, mendLink(home, entry.Name()))
		}
	}
	return err
}

// checkLink removes a link that does not lead to a layer of that name. A layer whose file is empty takes the name.
func checkLink(home, name string) error {
	link := filepath.Join(home, "l", name)
	target, err := os.Readlink(link)
	layerID, inside := strings.CutPrefix(target, "../")
	layerID, ok := strings.CutSuffix(layerID, "/diff")
	if err != nil || !inside || !ok || len(layerID) != 64 {
		return os.RemoveAll(link)
	}
	file := filepath.Join(home, layerID, "link")
	raw, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.Remove(link)
	case err != nil:
		return err
	case len(raw) == 0:
		return os.WriteFile(file, []byte(name), 0o644)
	case string(raw) != name:
		return os.Remove(link)
	default:
		return nil
	}
}

// mendLink makes the link that a layer's file names. A file without a name goes: the library removes the folder then.
func mendLink(home, layerID string) error {
	file := filepath.Join(home, layerID, "link")
	raw, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(raw) == 0:
		return os.Remove(file)
	case strings.ContainsRune(string(raw), '/'):
		return nil // not what the driver writes
	}
	err = os.Symlink(filepath.Join("..", layerID, "diff"), filepath.Join(home, "l", string(raw)))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
