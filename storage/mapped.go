package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	cstorage "go.podman.io/storage"
	"go.podman.io/storage/pkg/idtools"

	"moss/engine/container"
	"moss/engine/fault"
)

// mappedFlag marks a copy of an image's top layer in which all files have the owners that a map of ids gives them; its
// value is the id of that top layer.
const mappedFlag = "moss-mapped"

// CreateMapped is Create for a container with a user namespace of its own: the image's files belong inside to whom the
// image says. The first container of an image and a map pays for a copy of the image's files, which lives as long as the
// image and its containers.
//
// fault.Unsupported where the file system gives files to no other user.
func (s *Store) CreateMapped(ctx context.Context, containerID, imageID string, ids container.IDMap) error {
	if err := validID(containerID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("create layer of %s: %w", containerID, err)
	}
	if s.place.owners != nil {
		return fault.Unsupported("a container with ids of its own needs files of other users, and the file system of the data folder has none: %v", s.place.owners)
	}
	cfg, err := s.soundConfig(bareID(imageID))
	if err != nil {
		return err
	}
	maps := cstorage.LayerIDMappingOptions{UIDMap: toIDMaps(ids.UIDs), GIDMap: toIDMaps(ids.GIDs)}
	parent, err := s.ensureMappedLayer(cfg.topLayer, maps)
	if err != nil {
		return wrapError(err, "copy image %s for other ids", imageID)
	}
	return s.createLayer(containerID, imageID, parent)
}

// ensureMappedLayer returns the id of the copy of a layer for other ids, which is made the first time.
func (s *Store) ensureMappedLayer(top string, maps cstorage.LayerIDMappingOptions) (string, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v %v", top, maps.UIDMap, maps.GIDMap))
	id := hex.EncodeToString(sum[:])
	unlock := s.locks.lock(id)
	defer unlock()
	if _, err := s.cs.Layer(id); err == nil || !errors.Is(err, cstorage.ErrLayerUnknown) {
		return id, err
	}
	_, err := s.cs.CreateLayer(id, top, nil, "", false, &cstorage.LayerOptions{
		IDMappingOptions: maps, Flags: map[string]any{mappedFlag: top},
	})
	s.copies.requestCopy()
	return id, err
}

func toIDMaps(list []container.IDRange) []idtools.IDMap {
	maps := make([]idtools.IDMap, 0, len(list))
	for _, r := range list {
		maps = append(maps, idtools.IDMap{ContainerID: int(r.Inside), HostID: int(r.Outside), Size: int(r.Count)})
	}
	return maps
}

// dropMapped deletes the copies of an image's top layer, unless another image has the same. Those that containers use
// become orphans, which go with the last of them. It is called with s.images held.
func (s *Store) dropMapped(bare, top string) error {
	records, err := s.imageRecords()
	if err != nil {
		return err
	}
	for i := range records {
		if records[i].TopLayer == top && records[i].ID != bare {
			return nil
		}
	}
	layers, err := s.cs.Layers()
	if err != nil {
		return wrapError(err, "list layers")
	}
	for i := range layers {
		if layers[i].Flags[mappedFlag] != any(top) {
			continue
		}
		err := s.deleteLayer(layers[i].ID)
		if errors.Is(err, cstorage.ErrLayerHasChildren) {
			s.addOrphans(layers[i].ID)
			continue
		}
		if err != nil && !errors.Is(err, cstorage.ErrLayerUnknown) {
			return wrapError(err, "remove layer %s", layers[i].ID)
		}
	}
	return nil
}

// keepMapped adds the copies of layers that images need to what is needed.
func keepMapped(layers []cstorage.Layer, tops, needed map[string]bool) {
	for i := range layers {
		if top, ok := layers[i].Flags[mappedFlag].(string); ok && tops[top] {
			needed[layers[i].ID] = true
		}
	}
}
