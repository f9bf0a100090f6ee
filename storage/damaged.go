package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	cstorage "go.podman.io/storage"
)

// dropDamaged looks at layers that may not have reached the disk before the machine or the file system went down, and removes
// the images that have one that did not, or one that is not there at all. Layers that containers need stay.
func (s *Store) dropDamaged(ctx context.Context, suspects unsyncedList) error {
	if suspects.all {
		s.notes = append(s.notes, "the list of layers that may not be on the disk cannot be read: all are looked at")
		all, err := s.allLayers()
		if err != nil {
			return err
		}
		suspects.Layers = append(suspects.Layers, all...)
	}
	bad := map[string]bool{}
	for _, layerID := range suspects.Layers {
		layer, err := s.cs.Layer(layerID)
		if errors.Is(err, cstorage.ErrLayerUnknown) {
			bad[layerID] = true // it came to nothing, and so did an image that was made of it
			continue
		}
		if err != nil {
			return wrap(err, "look at layer %s", layerID)
		}
		if layer.ID != layerID || isContainer(layer) {
			continue
		}
		if err := s.verifyLayer(ctx, layer); err != nil {
			if ctx.Err() != nil {
				return err
			}
			bad[layerID] = true
			s.notes = append(s.notes, fmt.Sprintf("layer %s did not reach the disk before the machine went down: %v", layerID, err))
			if err := s.cs.SetMetadata(layerID, damagedMark); err != nil {
				return wrap(err, "note that layer %s is damaged", layerID)
			}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	if err := s.tellContainers(bad); err != nil {
		return err
	}
	records, err := s.imageRecords()
	if err != nil {
		return err
	}
	for i := range records {
		if !s.standsOn(records[i].TopLayer, bad) {
			continue
		}
		if err := s.dropRecord(records[i].ID); err != nil {
			return err
		}
		s.notes = append(s.notes, fmt.Sprintf("image sha256:%s (%s) is removed: it has a damaged layer", records[i].ID, strings.Join(records[i].Names, ", ")))
	}
	return nil
}

// allLayers returns the layers that have a digest, and those that an image stands on and that are not there.
func (s *Store) allLayers() ([]string, error) {
	layers, err := s.cs.Layers()
	if err != nil {
		return nil, wrap(err, "list layers")
	}
	var all []string
	parents := make(map[string]string, len(layers))
	for i := range layers {
		parents[layers[i].ID] = layers[i].Parent
		if layers[i].UncompressedDigest != "" {
			all = append(all, layers[i].ID)
		}
	}
	records, err := s.imageRecords()
	if err != nil {
		return nil, err
	}
	for i := range records {
		missing := records[i].TopLayer
		for below, there := parents[missing]; there; below, there = parents[missing] {
			missing = below
		}
		if missing != "" {
			all = append(all, missing)
		}
	}
	return all, nil
}

// standsOn reports whether a layer or one below it is bad, as far down as there are records.
func (s *Store) standsOn(layerID string, bad map[string]bool) bool {
	for layerID != "" && !bad[layerID] {
		layer, err := s.cs.Layer(layerID)
		if err != nil {
			return false
		}
		layerID = layer.Parent
	}
	return layerID != ""
}

// tellContainers notes which containers stand on damaged layers: they are kept, for what was written in them.
func (s *Store) tellContainers(bad map[string]bool) error {
	layers, err := s.cs.Layers()
	if err != nil {
		return wrap(err, "list layers")
	}
	for i := range layers {
		if !isContainer(&layers[i]) {
			continue
		}
		if s.standsOn(layers[i].ID, bad) {
			s.notes = append(s.notes, fmt.Sprintf("container %s lacks files of its image: it stands on a damaged layer", layers[i].ID))
		}
	}
	return nil
}

// verifyLayer compares a layer with its digest.
func (s *Store) verifyLayer(ctx context.Context, layer *cstorage.Layer) error {
	plain, err := s.openLayer(ctx, layer.ID)
	if err != nil {
		return err
	}
	hash := digest.SHA256.Digester()
	_, err = io.Copy(hash.Hash(), plain)
	if err = errors.Join(err, plain.Close()); err != nil {
		return err
	}
	if got := hash.Digest(); got != layer.UncompressedDigest {
		return fmt.Errorf("%w: its digest is %s, not %s", errDamaged, got, layer.UncompressedDigest)
	}
	return nil
}
