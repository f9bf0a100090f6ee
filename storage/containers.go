package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	cstorage "go.podman.io/storage"
	graphdriver "go.podman.io/storage/drivers"
	"go.podman.io/storage/pkg/idtools"

	"moss/engine/tree"
)

// containersFolder holds an empty file for the writable layer of each container. Its name is all that it says: the layer's id
// and that of the layer below, with a dot in between. The library writes its list of layers anew for each change of one, so
// that each container would make all others slower. A name costs the same beside any number of others, and one sync of the
// folder brings all new ones to the disk.
const containersFolder = "moss-containers"

// containerIndex knows the writable layers of containers, which the library does not. A layer gets its name last when it is
// made and loses it first when it is removed: the folder of a layer without a name is a leftover.
type containerIndex struct {
	dir   string
	isNew bool              // there was no folder when the store was opened
	taken map[string]string // parents of the layers that have no name yet

	mu      sync.Mutex        // guards parents
	parents map[string]string // the layer below each container's, by the container's id
}

// readContainers reads the names. Where there is no folder of them, makeFolder makes it.
func readContainers(root string) (*containerIndex, error) {
	c := &containerIndex{dir: filepath.Join(root, containersFolder), taken: map[string]string{}, parents: map[string]string{}}
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		c.isNew = true
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list container layers: %w", err)
	}
	for _, entry := range entries {
		containerID, parent, _ := strings.Cut(entry.Name(), ".")
		if validID(containerID) == nil && (parent == "" || validID(parent) == nil) {
			c.parents[containerID] = parent
		}
	}
	return c, nil
}

// makeFolder makes the folder and the names that are missing, and brings them to the disk.
func (c *containerIndex) makeFolder() error {
	if !c.isNew && len(c.taken) == 0 {
		return nil
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of container layers: %w", err)
	}
	for containerID, parent := range c.taken {
		if err := c.writeName(containerID, parent); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("name container layer: %w", err)
		}
	}
	return errors.Join(syncDir(c.dir), syncDir(filepath.Dir(c.dir)))
}

func (c *containerIndex) namePath(containerID, parent string) string {
	return filepath.Join(c.dir, containerID+"."+parent)
}

func (c *containerIndex) writeName(containerID, parent string) error {
	name, err := os.OpenFile(c.namePath(containerID, parent), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return name.Close()
}

// makeLayer makes the folder of a container's layer, and then its name.
func (c *containerIndex) makeLayer(driver graphdriver.Driver, w *containerLayer) error {
	opts := &graphdriver.CreateOpts{IDMappings: w.maps}
	if w.maps == nil {
		opts.IDMappings = &idtools.IDMappings{}
	}
	if err := driver.CreateReadWrite(w.id, w.parent, opts); err != nil {
		return err
	}
	if err := c.writeName(w.id, w.parent); err != nil {
		return errors.Join(err, driver.Remove(w.id))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parents[w.id] = w.parent
	return nil
}

// removeLayer takes the name of a layer away, and then its folder, in which there are few files or none. It may be called again
// after an error.
func (c *containerIndex) removeLayer(driver graphdriver.Driver, containerID string) error {
	parent, ok := c.findParent(containerID)
	if !ok {
		return nil
	}
	if err := tree.RemovePath(c.namePath(containerID, parent)); err != nil { // damage may have put anything there
		return err
	}
	if err := driver.Remove(containerID); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.parents, containerID)
	return nil
}

// findParent returns the layer below a container's; ok is false if the container has no layer.
func (c *containerIndex) findParent(containerID string) (parent string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	parent, ok = c.parents[containerID]
	return parent, ok
}

// allParents returns the layer below each container's, by the container's id.
func (c *containerIndex) allParents() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.parents)
}

// hasChildren reports whether a container's layer lies on a layer.
func (c *containerIndex) hasChildren(layerID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, parent := range c.parents {
		if parent == layerID {
			return true
		}
	}
	return false
}

// containerFlag marked the layer of a container in the library's records.
const containerFlag = "moss-container"

// takeFrom takes the layers of containers out of indexes of the library, where earlier versions kept them. Layers that are half
// made or half removed stay for the library, which removes them. It is called before the store is in use.
func (c *containerIndex) takeFrom(indexes ...*index) error {
	for _, x := range indexes {
		if x.present == nil {
			continue
		}
		if err := x.giveContainers(c.taken); err != nil {
			return err
		}
	}
	maps.Copy(c.parents, c.taken)
	return nil
}

// giveContainers moves the layers of containers from the index to parents.
func (x *index) giveContainers(parents map[string]string) error {
	kept := &listing{records: []json.RawMessage{}, parents: map[string]string{}}
	for i, id := range x.present.ids {
		var r cstorage.Layer
		if err := json.Unmarshal(x.present.records[i], &r); err != nil {
			return fmt.Errorf("read %s: %w", x.path, err)
		}
		if _, ok := r.Flags[containerFlag]; ok && !isHalfMade(&r) {
			parents[id] = r.Parent
			continue
		}
		kept.records, kept.ids = append(kept.records, x.present.records[i]), append(kept.ids, id)
		kept.parents[id] = r.Parent
	}
	if len(kept.ids) == len(x.present.ids) {
		return nil
	}
	var err error
	if kept.raw, err = json.Marshal(kept.records); err != nil {
		return fmt.Errorf("change %s: %w", x.path, err)
	}
	x.present, x.changed = kept, true
	return nil
}
