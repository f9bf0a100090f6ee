package storage

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"moss/engine/damage"
)

// places puts the overlay driver's small files in order: each layer has a file "link" with a short name, in the folder "l" a
// link of that name leads to the layer, and the files "lower" and "lower-layers" list the layers below it, by short names and
// by ids. All of it follows from the index. The driver (1.64) believes these files: a damaged list mounts other layers, and
// a damaged short name has it remove another path together with the layer.
type places struct {
	home    string
	parents map[string]string // the layer below each layer, by id
	damage  *damage.Account

	names  map[string]string // short names by layer
	owners map[string]string // the reverse
	lowers map[string]lists  // by layer
}

// lists are the contents of lower and lower-layers; empty for a layer without others below it.
type lists struct{ short, ids string }

// maxBelow bounds how many layers may lie below one: a ring in a damaged index has no end.
const maxBelow = 500

// maxPlace bounds one of the small files, in bytes.
const maxPlace = 1 << 20

// mendPlaces is called before the library opens the store.
func mendPlaces(home string, parents map[string]string, account *damage.Account) error {
	p := &places{
		home: home, parents: parents, damage: account,
		names: map[string]string{}, owners: map[string]string{}, lowers: map[string]lists{},
	}
	entries, err := readDir(home)
	if err != nil {
		return err
	}
	var layers []string
	for _, entry := range entries {
		if validID(entry.Name()) == nil && entry.IsDir() {
			layers = append(layers, entry.Name())
		}
	}
	for _, layerID := range layers {
		if err := p.readName(layerID); err != nil {
			return err
		}
	}
	if err := p.readLinks(); err != nil {
		return err
	}
	for _, layerID := range layers {
		if err := p.mendName(layerID); err != nil {
			return err
		}
	}
	for _, layerID := range layers {
		if err := p.mendLists(layerID); err != nil {
			return err
		}
	}
	return nil
}

func (p *places) hasLayer(layerID string) bool {
	_, ok := p.parents[layerID]
	return ok
}

// isShort reports whether the driver may have made a short name.
func isShort(name string) bool {
	return len(name) == 26 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// readName reads the file with a layer's short name. One that is damaged goes, since the driver follows it anywhere.
func (p *places) readName(layerID string) error {
	path := filepath.Join(p.home, layerID, "link")
	raw, err := damage.Read(path, maxPlace)
	name := string(raw)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !isShort(name):
		err = fmt.Errorf("not a short name: %.40q", name)
	case err == nil && p.owners[name] != "":
		err = fmt.Errorf("it is the short name of %s", p.owners[name])
	case err == nil:
		p.names[layerID], p.owners[name] = name, layerID
		return nil
	}
	return p.damage.SetAside(path, err)
}

// readLinks removes links that lead to no layer of that name. A layer without a name takes that of a link to it.
func (p *places) readLinks() error {
	dir := filepath.Join(p.home, "l")
	entries, err := readDir(dir)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		target, lerr := os.Readlink(path)
		if lerr != nil {
			err = errors.Join(err, p.damage.SetAside(path, lerr))
			continue
		}
		layerID, inside := strings.CutPrefix(target, "../")
		layerID, ok := strings.CutSuffix(layerID, "/diff")
		if inside && ok && p.hasLayer(layerID) && p.names[layerID] == "" && p.owners[entry.Name()] == "" && isShort(entry.Name()) {
			p.names[layerID], p.owners[entry.Name()] = entry.Name(), layerID
		}
		if !inside || !ok || p.names[layerID] != entry.Name() {
			err = errors.Join(err, os.Remove(path)) // of a layer that is gone
		}
	}
	return err
}

// mendName makes the link and the file of a layer's short name if they are missing.
func (p *places) mendName(layerID string) error {
	name := p.names[layerID]
	if name == "" {
		if !p.hasLayer(layerID) {
			return nil // the library removes it
		}
		for name == "" || p.owners[name] != "" {
			name = rand.Text()
		}
		p.names[layerID], p.owners[name] = name, layerID
	}
	if err := p.mendFile(layerID, "link", name); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(p.home, "l"), 0o700); err != nil {
		return err
	}
	err := os.Symlink(filepath.Join("..", layerID, "diff"), filepath.Join(p.home, "l", name))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// mendLists writes the lists of the layers below a layer where they are not what they should be, and makes the folders that
// the driver mounts with.
func (p *places) mendLists(layerID string) error {
	if !p.hasLayer(layerID) {
		return nil
	}
	for _, name := range []string{"work", "merged"} { // nothing is in them
		if err := os.Mkdir(filepath.Join(p.home, layerID, name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	want := p.lowerLists(layerID, maxBelow)
	return errors.Join(p.mendFile(layerID, "lower", want.short), p.mendFile(layerID, "lower-layers", want.ids))
}

// lowerLists returns the lists of the layers below a layer.
func (p *places) lowerLists(layerID string, depth int) lists {
	if known, ok := p.lowers[layerID]; ok {
		return known
	}
	parent := p.parents[layerID]
	if parent == "" || depth == 0 {
		return lists{}
	}
	l := lists{short: "l/" + p.names[parent], ids: parent}
	if under := p.lowerLists(parent, depth-1); under.ids != "" {
		l.short, l.ids = l.short+":"+under.short, l.ids+":"+under.ids
	}
	p.lowers[layerID] = l
	return l
}

// mendFile brings a small file to its content; without any it is not to be there. A power cut leaves empty ones.
func (p *places) mendFile(layerID, name, want string) error {
	path := filepath.Join(p.home, layerID, name)
	raw, err := damage.Read(path, maxPlace)
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil && string(raw) == want && want != "" || missing && want == "" {
		return nil
	}
	if !missing {
		if err == nil {
			err = fmt.Errorf("not what the index says: %.200q", raw)
		}
		if err := p.damage.SetAside(path, err); err != nil {
			return err
		}
	}
	if want == "" {
		return nil
	}
	return os.WriteFile(path, []byte(want), 0o644) //nolint:gosec // as the driver does
}
