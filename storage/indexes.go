package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cstorage "go.podman.io/storage"

	"moss/engine/damage"
)

// The library's indexes. Each has a copy beside it, from which it comes back should it be damaged.
const (
	layersIndex = "layers.json"
	layersCopy  = "layers.bak"
	imagesIndex = "images.json"
	imagesCopy  = "images.bak"
)

// maxIndex bounds an index, in bytes: there may be many layers, of a kilobyte each.
const maxIndex = 1 << 30

// index is one of the library's lists of records, which lie in one file and have a folder each.
type index struct {
	path, copy string
	home       string                      // of the folders
	check      func(json.RawMessage) error // of a record

	present, saved *listing // what the files hold; nil: nothing that is of use
	why            error    // present is nil
	changed        bool     // present is not what the file holds
}

// listing is the content of an index.
type listing struct {
	raw     []byte
	records []json.RawMessage
	ids     []string
	parents map[string]string // of layers, by id
}

var errEmptyIndex = errors.New("it lists nothing, and there are folders of what its copy lists")

func indexesOf(root, driver string) (layers, volatile, images *index) {
	dir := filepath.Join(root, driver+"-layers")
	home := filepath.Join(root, driver)
	if driver == driverVFS {
		home = filepath.Join(home, "dir")
	}
	layers = &index{path: filepath.Join(dir, layersIndex), copy: filepath.Join(dir, layersCopy), home: home, check: checkLayerRecord}
	volatile = &index{
		path: filepath.Join(dir, volatileFile), copy: filepath.Join(dir, backupFile), home: home,
		check: checkLayerRecord,
	}
	dir = filepath.Join(root, driver+"-images")
	images = &index{path: filepath.Join(dir, imagesIndex), copy: filepath.Join(dir, imagesCopy), home: dir, check: checkImageRecord}
	return layers, volatile, images
}

func checkLayerRecord(raw json.RawMessage) error { return json.Unmarshal(raw, &cstorage.Layer{}) }

// checkImageRecord refuses what the library would refuse, and all other records with it.
func checkImageRecord(raw json.RawMessage) error {
	var r cstorage.Image
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	for name, sum := range r.BigDataDigests {
		if strings.HasPrefix(name, cstorage.ImageDigestManifestBigDataNamePrefix) && sum.Validate() != nil {
			return fmt.Errorf("image %s: not a digest: %q", r.ID, sum)
		}
	}
	if r.Digest != "" && r.Digest.Validate() != nil {
		return fmt.Errorf("image %s: not a digest: %q", r.ID, r.Digest)
	}
	return nil
}

// mendIndexes puts copies in the place of indexes that are damaged or missing, before the library reads them: it takes an
// empty one for an order to remove all. lost means that something may be there which no index lists any more. parents has
// the layer below each layer.
func mendIndexes(
	root, driver string, containers *containerIndex, account *damage.Account,
) (parents map[string]string, lost bool, err error) {
	layers, volatile, images := indexesOf(root, driver)
	all := []*index{layers, volatile, images}
	used := false
	for _, x := range all {
		if err := x.readFiles(account); err != nil {
			return nil, false, err
		}
		used = used || x.present != nil && len(x.present.ids) > 0 || x.saved != nil && len(x.saved.ids) > 0
	}
	layers.detectSwap(volatile)
	volatile.detectSwap(layers)
	if parents, lost, err = restoreIndexes(layers, volatile, images, used, account); err != nil {
		return nil, false, err
	}
	if err := containers.takeFrom(layers, volatile); err != nil {
		return nil, false, err
	}
	maps.Copy(parents, containers.parents)
	if containers.isNew && used { // if the folder of names is lost, the layers of containers look like leftovers
		err = setUnknownAside(layers.home, parents, account)
	}
	if err = errors.Join(err, containers.makeFolder()); err != nil {
		return nil, false, err
	}
	if lost { // before an index is there: a crash in between must not have the next start delete it
		if err := setUnlistedAside(layers, images, parents, account); err != nil {
			return nil, false, err
		}
	}
	for _, x := range all {
		if err := errors.Join(x.writeFiles(), os.RemoveAll(x.path+newSuffix), os.RemoveAll(x.copy+newSuffix)); err != nil {
			return nil, false, err
		}
	}
	return parents, lost, nil
}

// restoreIndexes takes copies for the indexes that are damaged or missing. used says that the store has been in use.
func restoreIndexes(
	layers, volatile, images *index, used bool, account *damage.Account,
) (parents map[string]string, lost bool, err error) {
	parents = map[string]string{}
	for _, x := range []*index{layers, volatile, images} {
		// A store gets each of its indexes with the first record for it, and never one without the other two for long.
		missing := errors.Is(x.why, fs.ErrNotExist) && x.saved == nil
		if x.present == nil && (!missing || used && x != volatile) {
			lost = true
		}
		if err := x.restoreFromCopy(account); err != nil {
			return nil, false, err
		}
		if x.present != nil && x != images {
			maps.Copy(parents, x.present.parents)
		}
	}
	return parents, lost, nil
}

// readFiles reads an index and its copy. A copy that is damaged is set aside: another one is made.
func (x *index) readFiles(account *damage.Account) error {
	x.present, x.why = x.loadListing(x.path)
	var err error
	x.saved, err = x.loadListing(x.copy)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if err := account.SetAside(x.copy, err); err != nil {
			return err
		}
	}
	if x.present == nil {
		return nil
	}
	switch {
	case len(x.present.ids) == 0 && x.saved != nil && x.anyFolder(x.saved.ids):
		x.present, x.why = nil, errEmptyIndex
	case len(x.present.ids) > 0 && !x.anyFolder(x.present.ids):
		x.present, x.why = nil, errors.New("nothing is there of what it lists")
	}
	return nil
}

func (x *index) loadListing(path string) (*listing, error) {
	raw, err := damage.Read(path, maxIndex)
	if err != nil {
		return nil, err
	}
	l := &listing{raw: raw, parents: map[string]string{}}
	if err := json.Unmarshal(raw, &l.records); err != nil {
		return nil, err
	}
	if l.records == nil {
		return nil, errors.New("not a list")
	}
	for _, one := range l.records {
		var r struct{ ID, Parent string }
		if err := errors.Join(json.Unmarshal(one, &r), x.check(one), validID(r.ID)); err != nil {
			return nil, err
		}
		if _, twice := l.parents[r.ID]; twice {
			return nil, fmt.Errorf("%s is listed twice", r.ID)
		}
		l.ids = append(l.ids, r.ID)
		l.parents[r.ID] = r.Parent
	}
	return l, nil
}

// detectSwap finds the content of the other index of layers in the place of x: no layer is in both.
func (x *index) detectSwap(other *index) {
	if x.present == nil || other.present == nil || other.saved == nil || x.saved != nil && bytes.Equal(x.saved.raw, x.present.raw) {
		return
	}
	for _, id := range x.present.ids {
		_, there := other.present.parents[id]
		_, before := other.saved.parents[id]
		if there && before {
			x.present, x.why = nil, fmt.Errorf("it lists %s, which %s has", id, filepath.Base(other.path))
			return
		}
	}
}

func (x *index) anyFolder(ids []string) bool { return slices.ContainsFunc(ids, x.hasFolder) }

func (x *index) hasFolder(id string) bool {
	info, err := os.Lstat(filepath.Join(x.home, id))
	return err == nil && info.IsDir()
}

// restoreFromCopy takes the copy for the index if that is damaged, as far as the copy is still true, and sets the damaged one
// aside.
func (x *index) restoreFromCopy(account *damage.Account) error {
	missing := errors.Is(x.why, fs.ErrNotExist)
	switch {
	case x.present != nil || missing && x.saved == nil:
		return nil
	case x.saved == nil:
		return account.SetAside(x.path, x.why)
	case missing:
		account.Note(x.path, errors.New("missing, replaced by its copy"))
	default:
		if err := account.SetAside(x.path, fmt.Errorf("%w: replaced by its copy", x.why)); err != nil {
			return err
		}
	}
	kept := &listing{records: []json.RawMessage{}, parents: map[string]string{}}
	for i, id := range x.saved.ids {
		if !x.hasFolder(id) {
			continue // it was removed after the copy was made
		}
		kept.records, kept.ids = append(kept.records, x.saved.records[i]), append(kept.ids, id)
		kept.parents[id] = x.saved.parents[id]
	}
	var err error
	if kept.raw, err = json.Marshal(kept.records); err != nil {
		return fmt.Errorf("restore %s: %w", x.path, err)
	}
	x.present = kept
	return nil
}

// writeFiles brings the index and its copy to what was found to be true.
func (x *index) writeFiles() error {
	switch {
	case x.present == nil:
		return nil
	case x.changed: // the copy first: it stands in for an index that lists less
		err := replaceFile(x.copy, bytes.NewReader(x.present.raw))
		if err == nil {
			err = replaceFile(x.path, bytes.NewReader(x.present.raw))
		}
		return wrapError(err, "change %s", x.path)
	case x.why != nil:
		return wrapError(replaceFile(x.path, bytes.NewReader(x.present.raw)), "restore %s", x.path)
	case x.saved == nil || !bytes.Equal(x.saved.raw, x.present.raw):
		_ = replaceFile(x.copy, bytes.NewReader(x.present.raw)) // on a full disk the old one stays; the copier tries again
	}
	return nil
}
