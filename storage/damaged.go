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
func (o *recovery) dropDamaged(ctx context.Context, suspects unsyncedList) error {
	if suspects.all {
		o.notes = append(o.notes, "the list of layers that may not be on the disk cannot be read: all are looked at")
		all, err := o.allLayers()
		if err != nil {
			return err
		}
		suspects.Layers = append(suspects.Layers, all...)
	}
	bad := map[string]bool{}
	for _, layerID := range suspects.Layers {
		layer, err := o.cs.Layer(layerID)
		if errors.Is(err, cstorage.ErrLayerUnknown) {
			bad[layerID] = true // it came to nothing, and so did an image that was made of it
			continue
		}
		if err != nil {
			return wrapError(err, "look at layer %s", layerID)
		}
		if layer.ID != layerID {
			continue
		}
		if err := o.verifyLayer(ctx, layer); err != nil {
			if ctx.Err() != nil {
				return err
			}
			bad[layerID] = true
			o.notes = append(o.notes, fmt.Sprintf("layer %s did not reach the disk before the machine went down: %v", layerID, err))
			if err := o.cs.SetMetadata(layerID, damagedMark); err != nil {
				return wrapError(err, "note that layer %s is damaged", layerID)
			}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	o.tellContainers(bad)
	records, err := o.imageRecords()
	if err != nil {
		return err
	}
	for i := range records {
		if !o.standsOn(records[i].TopLayer, bad) {
			continue
		}
		if err := o.dropRecord(records[i].ID); err != nil {
			return err
		}
		names := strings.Join(records[i].Names, ", ")
		o.notes = append(o.notes, fmt.Sprintf("image sha256:%s (%s) is removed: it has a damaged layer", records[i].ID, names))
	}
	return nil
}

// allLayers returns the layers that have a digest, and those that an image stands on and that are not there.
func (o *recovery) allLayers() ([]string, error) {
	layers, err := o.cs.Layers()
	if err != nil {
		return nil, wrapError(err, "list layers")
	}
	var all []string
	for i := range layers {
		if layers[i].UncompressedDigest != "" {
			all = append(all, layers[i].ID)
		}
	}
	records, err := o.imageRecords()
	if err != nil {
		return nil, err
	}
	for i := range records {
		next := records[i].TopLayer
		for layer, err := range o.layersFrom(next) {
			if err != nil {
				all = append(all, next)
				break
			}
			next = layer.Parent
		}
	}
	return all, nil
}

// tellContainers notes which containers stand on damaged layers: they are kept, for what was written in them.
func (o *recovery) tellContainers(bad map[string]bool) {
	for containerID, parent := range o.containers.allParents() {
		if o.standsOn(parent, bad) {
			o.notes = append(o.notes, fmt.Sprintf("container %s lacks files of its image: it stands on a damaged layer", containerID))
		}
	}
}

// verifyLayer compares a layer with its digest.
func (t *layerTree) verifyLayer(ctx context.Context, layer *cstorage.Layer) error {
	plain, err := t.openLayer(ctx, layer.ID)
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
