package storage

import (
	"context"
	"fmt"
)

// Usage returns the bytes of all layers of images, each counted once, and for each image id those that it shares and those
// that are its own. What an image shares and what is its own are its size together.
func (s *Store) Usage(ctx context.Context) (total int64, shared, unique map[string]int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, nil, fmt.Errorf("usage of images: %w", err)
	}
	// The images come first: layers that came since are in none of them, those that went are found missing.
	records, err := s.cs.Images()
	if err != nil {
		return 0, nil, nil, wrap(err, "list images")
	}
	layers, err := s.cs.Layers()
	if err != nil {
		return 0, nil, nil, wrap(err, "list layers")
	}
	type node struct {
		parent string
		size   int64
		images int
	}
	nodes := make(map[string]*node, len(layers))
	for i := range layers {
		nodes[layers[i].ID] = &node{parent: layers[i].Parent, size: max(layers[i].UncompressedSize, 0)}
	}
	each := func(top string, visit func(*node)) {
		for n := nodes[top]; n != nil; n = nodes[n.parent] {
			visit(n)
		}
	}
	for i := range records {
		each(records[i].TopLayer, func(n *node) { n.images++ })
	}
	shared, unique = make(map[string]int64, len(records)), make(map[string]int64, len(records))
	for i := range records {
		id := "sha256:" + records[i].ID
		shared[id], unique[id] = 0, 0
		each(records[i].TopLayer, func(n *node) {
			if n.images > 1 {
				shared[id] += n.size
			} else {
				unique[id] += n.size
			}
		})
	}
	for _, n := range nodes {
		if n.images > 0 {
			total += n.size
		}
	}
	return total, shared, unique, nil
}
