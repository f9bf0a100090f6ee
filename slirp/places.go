package slirp

import (
	"maps"
	"slices"
	"sync"
)

// placeTable holds the places of containers in their networks.
type placeTable struct {
	mu          sync.Mutex // guards byContainer
	byContainer map[string]*place
}

// reservePlace reserves the container's place, unless it has one.
func (t *placeTable) reservePlace(containerID string, p *place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := t.byContainer[containerID]; there {
		return false
	}
	t.byContainer[containerID] = p
	return true
}

func (t *placeTable) storePlace(containerID string, p *place) {
	p = p.copy() // the caller goes on with its own
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byContainer[containerID] = p
}

// findPlace returns the container's place, or nil.
func (t *placeTable) findPlace(containerID string) *place {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byContainer[containerID]
}

func (t *placeTable) removePlace(containerID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byContainer, containerID)
}

func (t *placeTable) listContainers() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.byContainer))
}
