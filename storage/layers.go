package storage

import (
	"errors"
	"sync"

	cstorage "go.podman.io/storage"
)

// layerTree keeps the layers of images: which lie on which, who reads them, and when one may go.
type layerTree struct {
	*disk
	containers *containerIndex // their layers lie on those of images

	birth sync.RWMutex // held alone while a layer goes that no container may be made from meanwhile

	mu      sync.Mutex          // guards orphans and pins
	orphans map[string]struct{} // layers of removed images that containers still need
	pins    map[string]int      // layers that are read, with the number of readers
}

func newLayerTree(d *disk, containers *containerIndex) *layerTree {
	return &layerTree{disk: d, containers: containers, orphans: map[string]struct{}{}, pins: map[string]int{}}
}

// addOrphans notes layers that belong to no image and go with the last container or reader that needs them.
func (t *layerTree) addOrphans(layers ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, layerID := range layers {
		t.orphans[layerID] = struct{}{}
	}
}

// dropOrphans takes that back.
func (t *layerTree) dropOrphans(layers ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, layerID := range layers {
		delete(t.orphans, layerID)
	}
}

func (t *layerTree) isOrphan(layerID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.orphans[layerID]
	return ok
}

// addReader pins a layer until dropReader.
func (t *layerTree) addReader(layerID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pins[layerID]++
}

func (t *layerTree) dropReader(layerID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pins[layerID]--; t.pins[layerID] == 0 {
		delete(t.pins, layerID)
	}
}

func (t *layerTree) hasOrphans() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.orphans) > 0
}

func (t *layerTree) isPinned(layerID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pins[layerID] > 0
}

// layerChain returns a layer and all below it, with an error those above the one that is missing.
func (t *layerTree) layerChain(top string) ([]string, error) {
	var chain []string
	for layer, err := range t.layersFrom(top) {
		if err != nil {
			return chain, err
		}
		chain = append(chain, layer.ID)
	}
	return chain, nil
}

// standsOn reports whether a layer or one below it is bad, as far down as there are records.
func (t *layerTree) standsOn(layerID string, bad map[string]bool) bool {
	if bad[layerID] {
		return true
	}
	for layer, err := range t.layersFrom(layerID) {
		if err != nil {
			return false
		}
		if bad[layer.ID] || bad[layer.Parent] {
			return true
		}
	}
	return false
}

// isSound reports whether neither a layer nor any below it is damaged.
func (t *layerTree) isSound(layerID string) bool {
	for layer, err := range t.layersFrom(layerID) {
		if err != nil || isDamaged(layer) {
			return false
		}
	}
	return true
}

// deleteLayer removes the layer of an image that is gone from the records. Its files are deleted later, unless there is
// hardly any room: then who removes something wants it at once.
func (t *layerTree) deleteLayer(layerID string) error {
	layer, err := t.cs.Layer(layerID)
	if err != nil {
		return err
	}
	t.birth.Lock()
	defer t.birth.Unlock()
	switch {
	case t.hasChildren(layer.ID):
		return cstorage.ErrLayerHasChildren
	case t.lost:
		err = t.setLayerAside(layer.ID, errors.New("a layer that no image has any more"))
	default:
		err = t.emptyLayer(layer.ID)
	}
	if err != nil {
		return err
	}
	t.flusher.markRecords()
	return t.cs.DeleteLayer(layer.ID)
}

// hasChildren reports whether layers lie on a layer; it stays then, whoever asks for its end.
func (t *layerTree) hasChildren(layerID string) bool {
	layers, err := t.cs.Layers()
	if err != nil || t.containers.hasChildren(layerID) {
		return true
	}
	for i := range layers {
		if layers[i].Parent == layerID {
			return true
		}
	}
	return false
}

// dropLayer removes a layer that became part of nothing.
func (t *layerTree) dropLayer(layerID string) error {
	err := t.cs.DeleteLayer(layerID)
	if err == nil || errors.Is(err, cstorage.ErrNotALayer) || errors.Is(err, cstorage.ErrLayerUnknown) ||
		errors.Is(err, cstorage.ErrLayerHasChildren) || errors.Is(err, cstorage.ErrLayerUsedByImage) {
		return nil
	}
	return wrapError(err, "remove layer %s", layerID)
}
