package storage

import (
	"context"
	"fmt"
)

// Usage is what the layers of images take on the disk, in bytes.
type Usage struct {
	Total int64 // of all of them, each counted once
	Kept  int64 // of those of the images that stay, each counted once

	// By image id: what an image has in common with others, and what is its own. Together they are its size.
	Shared, Unique map[string]int64
}

// Usage counts the bytes of the layers of images. stays tells whether an image does, by its id.
func (s *Store) Usage(ctx context.Context, stays func(imageID string) bool) (Usage, error) {
	if err := ctx.Err(); err != nil {
		return Usage{}, fmt.Errorf("usage of images: %w", err)
	}
	// The images come first: layers that came since are in none of them, those that went are found missing.
	records, err := s.cs.Images()
	if err != nil {
		return Usage{}, wrap(err, "list images")
	}
	layers, err := s.cs.Layers()
	if err != nil {
		return Usage{}, wrap(err, "list layers")
	}
	type node struct {
		parent string
		size   int64
		images int
		kept   bool
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
	usage := Usage{Shared: make(map[string]int64, len(records)), Unique: make(map[string]int64, len(records))}
	for i := range records {
		id := "sha256:" + records[i].ID
		usage.Shared[id], usage.Unique[id] = 0, 0
		kept := stays(id)
		each(records[i].TopLayer, func(n *node) {
			n.kept = n.kept || kept
			if n.images > 1 {
				usage.Shared[id] += n.size
			} else {
				usage.Unique[id] += n.size
			}
		})
	}
	for _, n := range nodes {
		if n.images > 0 {
			usage.Total += n.size
		}
		if n.kept {
			usage.Kept += n.size
		}
	}
	return usage, nil
}
