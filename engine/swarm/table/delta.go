package table

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"reflect"

	"moss/engine/fault"
)

// Delta is what changes from one table to another.
type Delta struct {
	Version  uint64          `json:"version"`           // of the new table
	Settled  uint64          `json:"settled,omitempty"` // that all nodes at this manager have applied
	Nodes    Change[Node]    `json:"nodes,omitzero"`
	Networks Change[Network] `json:"networks,omitzero"`
	Services Change[Service] `json:"services,omitzero"`
	Tasks    Change[Task]    `json:"tasks,omitzero"`
}

// Change is what changes of one map.
type Change[V any] struct {
	Put  map[string]V `json:"put,omitempty"`
	Gone []string     `json:"gone,omitempty"`
}

// IsZero says that nothing changes.
func (c Change[V]) IsZero() bool { return len(c.Put) == 0 && len(c.Gone) == 0 }

// IsZero says that no entry changes.
func (d *Delta) IsZero() bool {
	return d.Nodes.IsZero() && d.Networks.IsZero() && d.Services.IsZero() && d.Tasks.IsZero()
}

// Diff returns what makes next of old.
func Diff(old, next *Table) *Delta {
	return &Delta{
		Version:  next.Version,
		Nodes:    diffMap(old.Nodes, next.Nodes, sameEntry[Node]),
		Networks: diffMap(old.Networks, next.Networks, sameEntry[Network]),
		Services: diffMap(old.Services, next.Services, sameEntry[Service]),
		Tasks:    diffMap(old.Tasks, next.Tasks, sameEntry[Task]),
	}
}

// Sums stands for a table: a sum of each of its entries. It is not a secret and proves nothing.
type Sums struct {
	Nodes    map[string]uint64 `json:"nodes,omitempty"`
	Networks map[string]uint64 `json:"networks,omitempty"`
	Services map[string]uint64 `json:"services,omitempty"`
	Tasks    map[string]uint64 `json:"tasks,omitempty"`
}

// Sum returns the sums of a table.
func Sum(t *Table) Sums {
	return Sums{Nodes: sumMap(t.Nodes), Networks: sumMap(t.Networks), Services: sumMap(t.Services), Tasks: sumMap(t.Tasks)}
}

// DiffSums returns what makes next of the table that the sums stand for.
func DiffSums(old Sums, next *Table) *Delta {
	return &Delta{
		Version:  next.Version,
		Nodes:    diffMap(old.Nodes, next.Nodes, sameSum[Node]),
		Networks: diffMap(old.Networks, next.Networks, sameSum[Network]),
		Services: diffMap(old.Services, next.Services, sameSum[Service]),
		Tasks:    diffMap(old.Tasks, next.Tasks, sameSum[Task]),
	}
}

// Apply returns the table that d makes of t, which stays as it is. A table that would have more entries than a swarm can
// have is fault.Invalid.
func Apply(t *Table, d *Delta) (*Table, error) {
	next := &Table{
		Version: d.Version, Nodes: applyChange(t.Nodes, d.Nodes), Networks: applyChange(t.Networks, d.Networks),
		Services: applyChange(t.Services, d.Services), Tasks: applyChange(t.Tasks, d.Tasks),
	}
	if n := len(next.Nodes) + len(next.Networks) + len(next.Services) + len(next.Tasks); n > MaxEntries {
		return nil, fault.Invalid("the table would have %d entries, more than %d", n, MaxEntries)
	}
	return next, nil
}

func diffMap[O, V any](old map[string]O, next map[string]V, same func(O, V) bool) (c Change[V]) {
	for id, v := range next {
		if o, ok := old[id]; ok && same(o, v) {
			continue
		}
		if c.Put == nil {
			c.Put = map[string]V{}
		}
		c.Put[id] = v
	}
	for id := range old {
		if _, ok := next[id]; !ok {
			c.Gone = append(c.Gone, id)
		}
	}
	return c
}

func applyChange[V any](old map[string]V, c Change[V]) map[string]V {
	if c.IsZero() && old != nil {
		return old
	}
	next := make(map[string]V, len(old)+len(c.Put))
	maps.Copy(next, old)
	for _, id := range c.Gone {
		delete(next, id)
	}
	maps.Copy(next, c.Put)
	return next
}

func sameEntry[V any](a, b V) bool        { return reflect.DeepEqual(a, b) }
func sameSum[V any](sum uint64, v V) bool { return sum == sumEntry(v) }
func sumMap[V any](m map[string]V) (s map[string]uint64) {
	s = make(map[string]uint64, len(m))
	for id, v := range m {
		s[id] = sumEntry(v)
	}
	return s
}

// sumEntry goes by what is sent: an entry in which the other side does not know a field is sent again.
func sumEntry[V any](v V) uint64 {
	data, err := json.Marshal(v)
	if err != nil {
		return 0 // no entry is like it: it is sent
	}
	h := fnv.New64a()
	_, _ = h.Write(data)
	return h.Sum64()
}
