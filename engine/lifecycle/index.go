package lifecycle

import (
	"context"
	"slices"
	"strings"
	"sync"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/id"
)

// index finds containers by id, name and unique prefix of the id.
type index struct {
	mu     sync.RWMutex // guards the fields below
	byID   map[string]*ctr
	byName map[string]string // name without slash -> id; also of a container that is just being made
}

func (x *index) init() {
	x.byID, x.byName = map[string]*ctr{}, map[string]string{}
}

// noSuch is what clients are told of a container that is not there.
func noSuch(ref string) error { return fault.NotFound("No such container: %s", ref) }

// find resolves what a client wrote: a whole id, a name with or without slash, or a unique prefix of an id.
func (x *index) find(ref string) (*ctr, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c := x.byID[ref]; c != nil {
		return c, nil
	}
	if holder, ok := x.byName[strings.TrimPrefix(ref, "/")]; ok {
		if c := x.byID[holder]; c != nil {
			return c, nil
		}
	}
	if parent, alias, ok := strings.Cut(strings.TrimPrefix(ref, "/"), "/"); ok {
		return x.linkedLocked(parent, alias)
	}
	if !id.IsPrefix(ref) {
		return nil, noSuch(ref)
	}
	var found *ctr
	for key, c := range x.byID {
		if strings.HasPrefix(key, ref) {
			if found != nil {
				return nil, fault.Invalid("Multiple IDs found with provided prefix: %s", ref)
			}
			found = c
		}
	}
	if found == nil {
		return nil, noSuch(ref)
	}
	return found, nil
}

// acquire finds a container and takes its operation token, which the caller gives back. The container may be gone by then.
func (x *index) acquire(ctx context.Context, ref string) (*ctr, error) {
	c, err := x.find(ref)
	if err != nil {
		return nil, err
	}
	return c, c.acquire(ctx)
}

// linkedLocked resolves the name that one container has for another: web/db.
func (x *index) linkedLocked(parent, alias string) (*ctr, error) {
	if c := x.byID[x.byName[parent]]; c != nil {
		for _, l := range c.record().Links {
			if other := x.byID[l.Container]; other != nil && l.Alias == alias {
				return other, nil
			}
		}
	}
	return nil, noSuch(parent + "/" + alias)
}

// withRecord returns the containers whose records pass, in no order.
func (x *index) withRecord(pass func(*container.Record) bool) []*ctr {
	return slices.DeleteFunc(x.listAll(), func(c *ctr) bool { return !pass(c.record()) })
}

func (x *index) listAll() []*ctr {
	x.mu.RLock()
	defer x.mu.RUnlock()
	list := make([]*ctr, 0, len(x.byID))
	for _, c := range x.byID {
		list = append(list, c)
	}
	return list
}

// reserve takes a name for a container that is being made or renamed.
func (x *index) reserve(name, containerID string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if holder, taken := x.byName[name]; taken && holder != containerID {
		return fault.Conflict("Conflict. The name %q is already in use by container %s."+
			" You have to remove (or rename) that container to be able to reuse that name.", "/"+name, holder)
	}
	x.byName[name] = containerID
	return nil
}

// free gives a name back if containerID holds it.
func (x *index) free(name, containerID string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byName[name] == containerID {
		delete(x.byName, name)
	}
}

func (x *index) add(c *ctr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byID[c.id] = c
	x.byName[c.record().Name] = c.id
}

// listLinking returns the containers that have links to others, and perhaps some that had, in no order. Each start looks at
// them: reading the records of a thousand others would take a millisecond.
func (x *index) listLinking() (list []*ctr) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, c := range x.byID {
		if c.linking.Load() {
			list = append(list, c)
		}
	}
	return list
}

func (x *index) drop(c *ctr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byID, c.id)
	if name := c.record().Name; x.byName[name] == c.id {
		delete(x.byName, name)
	}
}

// newestFirst returns every container, newest first.
func (x *index) newestFirst() []*ctr {
	list := x.listAll()
	slices.SortFunc(list, func(a, b *ctr) int { return newestFirst(a.record(), b.record()) })
	return list
}

func newestFirst(a, b *container.Record) int {
	if order := b.Created.Compare(a.Created); order != 0 {
		return order
	}
	return strings.Compare(a.ID, b.ID)
}
