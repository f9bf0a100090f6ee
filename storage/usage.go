package storage

import (
	"context"
	"slices"

	"moss/engine/image"
)

// Usage is what the layers of images take on the disk, in bytes.
type Usage struct {
	Total int64 // of all of them, each counted once
	Kept  int64 // of those of the images that stay, each counted once

	// By image id: what an image has in common with others, and what is its own. Together they are its size.
	Shared, Unique map[string]int64
}

// Usage counts the bytes of the layers of images. look tells whether an image counts at all, and whether it stays.
func (c *catalog) Usage(ctx context.Context, look func(*image.Image) (counts, stays bool)) (Usage, error) {
	// The images come first: layers that came since are in none of them, those that went are found missing.
	images, err := c.List(ctx)
	if err != nil {
		return Usage{}, err
	}
	layers, err := c.cs.Layers()
	if err != nil {
		return Usage{}, wrapError(err, "list layers")
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
	stay := make(map[string]bool, len(images))
	images = slices.DeleteFunc(images, func(img *image.Image) bool {
		counts, stays := look(img)
		stay[img.ID] = stays
		return !counts
	})
	for _, img := range images {
		each(img.TopLayer, func(n *node) { n.images++ })
	}
	usage := Usage{Shared: make(map[string]int64, len(images)), Unique: make(map[string]int64, len(images))}
	for _, img := range images {
		usage.Shared[img.ID], usage.Unique[img.ID] = 0, 0
		each(img.TopLayer, func(n *node) {
			n.kept = n.kept || stay[img.ID]
			if n.images > 1 {
				usage.Shared[img.ID] += n.size
			} else {
				usage.Unique[img.ID] += n.size
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
