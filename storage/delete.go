package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	cstorage "go.podman.io/storage"

	"moss/engine/fault"
	"moss/engine/image"
)

// ErrRenamed says that an image has other names than those that the caller knows of: look again.
var ErrRenamed = fault.Conflict("the image got or lost a name meanwhile")

// Delete removes an image with all its names, and the layers that nothing else needs. Whether it may go is the caller's
// question, who has seen the image with these names: containers made from it keep their layers and go on working. It returns
// the chain ids of the layers that went, topmost first.
//
// Errors are fault.NotFound, ErrRenamed or internal.
func (s *Store) Delete(ctx context.Context, seen *image.Image) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("delete image %s: %w", seen.ID, err)
	}
	bare := bareID(seen.ID)
	s.images.Lock()
	defer s.images.Unlock()
	cfg, err := s.asSeen(seen)
	if err != nil {
		return nil, err
	}
	chain, err := s.layerChain(cfg.topLayer)
	if err != nil && cfg.damaged == nil {
		return nil, fmt.Errorf("delete image %s: %w", seen.ID, err)
	}
	defer s.ballast.restore()
	s.ballast.releaseIfScarce()
	if err := s.dropMapped(bare, cfg.topLayer); err != nil {
		return nil, err
	}
	gone, err := s.deleteImage(bare)
	if errors.Is(err, cstorage.ErrNotAnImage) || errors.Is(err, cstorage.ErrImageUnknown) {
		s.forgetConfig(bare)
		return nil, image.NoSuch(seen.ID)
	}
	if err != nil {
		return nil, wrapError(err, "delete image %s", seen.ID)
	}
	s.forgetConfig(bare)
	s.damage.Settle(s.imageFolder(bare))
	removed := make(map[string]bool, len(gone))
	for _, layerID := range gone {
		removed[layerID] = true
	}
	ids := chainIDs(cfg.diffIDs)
	var answer, kept []string
	for i, layerID := range chain {
		if !removed[layerID] {
			kept = append(kept, layerID)
			continue
		}
		if at := len(ids) - 1 - i; at >= 0 {
			answer = append(answer, ids[at].String())
		}
	}
	return answer, s.noteOrphans(kept)
}

// asSeen returns what never changes of an image whose names are still those that were seen. It is called with s.images held.
func (c *catalog) asSeen(seen *image.Image) (*configCache, error) {
	record, err := c.knownRecord(bareID(seen.ID))
	if err != nil {
		return nil, err
	}
	tags, digests := familiarNames(record.Names)
	if !slices.Equal(tags, seen.RepoTags) || !slices.Equal(digests, seen.RepoDigests) {
		return nil, ErrRenamed
	}
	return c.configOf(record)
}

// deleteImage removes an image and those of its layers that nothing else needs and nobody reads, topmost first.
func (s *Store) deleteImage(bare string) (gone []string, err error) {
	layers, err := s.freedLayers(bare)
	if err != nil {
		return nil, err
	}
	if err := s.dropRecord(bare); err != nil {
		return nil, err
	}
	for _, layerID := range layers {
		if s.isPinned(layerID) {
			break
		}
		s.ballast.releaseIfScarce()
		err := s.deleteLayer(layerID)
		if errors.Is(err, cstorage.ErrLayerHasChildren) {
			break // a container came meanwhile
		}
		if err != nil && !errors.Is(err, cstorage.ErrLayerUnknown) {
			return gone, errors.Join(err, s.noteOrphans(layers[len(gone):])) // for the next start
		}
		gone = append(gone, layerID)
	}
	return gone, nil
}

// freedLayers returns the layers that nothing needs but one image, topmost first: no other image ends with them, and no layer
// lies on them that stays.
func (s *Store) freedLayers(bare string) ([]string, error) {
	records, err := s.imageRecords()
	if err != nil {
		return nil, err
	}
	var own *cstorage.Image
	tops := make(map[string]bool, len(records))
	for i := range records {
		if records[i].ID == bare {
			own = &records[i]
			continue
		}
		tops[records[i].TopLayer] = true
		for _, mapped := range records[i].MappedTopLayers {
			tops[mapped] = true
		}
	}
	if own == nil {
		return nil, cstorage.ErrImageUnknown
	}
	all, err := s.cs.Layers()
	if err != nil {
		return nil, err
	}
	parents := make(map[string]string, len(all))
	children := make(map[string]int, len(all))
	for i := range all {
		parents[all[i].ID] = all[i].Parent
		children[all[i].Parent]++
	}
	for _, parent := range s.containers.allParents() {
		children[parent]++
	}
	freed := slices.Clone(own.MappedTopLayers)
	for _, mapped := range freed {
		children[parents[mapped]]--
	}
	for layerID := own.TopLayer; layerID != "" && !tops[layerID] && children[layerID] == 0; layerID = parents[layerID] {
		freed = append(freed, layerID)
		children[parents[layerID]]--
	}
	return freed, nil
}

// noteOrphans notes which of the layers that a removed image left belong to no other image.
func (s *Store) noteOrphans(layers []string) error {
	if len(layers) == 0 {
		return nil
	}
	needed, err := s.imageLayers()
	if err != nil {
		return err
	}
	for _, layerID := range layers {
		if !needed[layerID] {
			s.addOrphans(layerID)
		}
	}
	return nil
}

// imageLayers returns the layers of all images.
func (c *catalog) imageLayers() (map[string]bool, error) {
	layers, err := c.cs.Layers()
	if err != nil {
		return nil, wrapError(err, "list layers")
	}
	parents := make(map[string]string, len(layers))
	for i := range layers {
		parents[layers[i].ID] = layers[i].Parent
	}
	records, err := c.imageRecords()
	if err != nil {
		return nil, err
	}
	needed, imageTops := map[string]bool{}, map[string]bool{}
	for i := range records {
		imageTops[records[i].TopLayer] = true
		tops := append([]string{records[i].TopLayer}, records[i].MappedTopLayers...)
		for _, layerID := range tops {
			for ; layerID != "" && !needed[layerID]; layerID = parents[layerID] {
				needed[layerID] = true
			}
		}
	}
	keepMapped(layers, imageTops, needed)
	return needed, nil
}

// adoptLayers takes the layers of a new image out of the orphans. It is called with s.images held.
func (t *layerTree) adoptLayers(top string) {
	if !t.hasOrphans() {
		return
	}
	chain, err := t.layerChain(top)
	if err != nil {
		return // an orphan that is in use is never deleted: the library refuses
	}
	t.dropOrphans(chain...)
}

// pruneOrphans deletes a layer and those below it as far as they are orphans that nothing needs any more.
func (s *Store) pruneOrphans(layerID string) error {
	if layerID == "" {
		return nil
	}
	s.images.Lock()
	defer s.images.Unlock()
	defer s.ballast.restore()
	s.ballast.releaseIfScarce()
	for layerID != "" {
		if !s.isOrphan(layerID) || s.isPinned(layerID) {
			return nil
		}
		layer, err := s.cs.Layer(layerID)
		if err == nil {
			err = s.deleteLayer(layerID)
		}
		switch {
		case err == nil:
		case errors.Is(err, cstorage.ErrLayerUnknown), errors.Is(err, cstorage.ErrNotALayer):
		case errors.Is(err, cstorage.ErrLayerHasChildren), errors.Is(err, cstorage.ErrLayerUsedByImage):
			return nil
		default:
			return wrapError(err, "remove layer %s", layerID)
		}
		s.dropOrphans(layerID)
		if layer == nil {
			return nil
		}
		layerID = layer.Parent
	}
	return nil
}
