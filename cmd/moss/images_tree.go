package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/show"
)

// branch is an image, or layers that images share and that are none themselves, with what is built on it.
type branch struct {
	layers   []string            // diff ids, the lowest first
	image    *types.ImageSummary // nil for shared layers
	children []*branch
}

// showTree shows images below those that they are built on.
func (a *app) showTree(ctx context.Context, engine *client.Client, list []types.ImageSummary, full bool) error {
	branches := make([]*branch, len(list))
	failures := make([]error, len(list))
	a.atOnce(len(list), func(i int) {
		branches[i] = &branch{image: &list[i]}
		branches[i].layers, failures[i] = layersOf(ctx, engine, list[i].ID)
	})
	if err := errors.Join(failures...); err != nil {
		return err
	}
	lines := [][]string{{"IMAGE", "IMAGE ID", "LAYERS", "SIZE", "ADDED"}}
	for _, root := range growTrees(branches) {
		lines = root.appendLines(lines, "", "", 0, full)
	}
	return a.tableView(full).Grid(a.stdout, lines)
}

func layersOf(ctx context.Context, engine *client.Client, id string) ([]string, error) {
	raw, err := engine.ImageInspect(ctx, id)
	if err != nil {
		return nil, err
	}
	var record struct{ RootFS struct{ Layers []string } }
	if err := json.Unmarshal(raw, &record); err != nil {
		return nil, fmt.Errorf("decode image %s: %w", id, err)
	}
	return record.RootFS.Layers, nil
}

// growTrees puts branches into trees: each below the one that has the most of its lowest layers. Layers that several begin
// with without being an image get a branch of their own.
func growTrees(branches []*branch) []*branch {
	branches = slices.Clone(branches)
	slices.SortStableFunc(branches, func(a, b *branch) int {
		return cmp.Or(slices.Compare(a.layers, b.layers), cmp.Compare(a.formatNames(false), b.formatNames(false)))
	})
	top := &branch{}
	for _, b := range branches {
		top.addBranch(b)
	}
	return top.children
}

// addBranch puts another branch below this one. Branches come in the order of their layers, so that only the last child can
// share some.
func (b *branch) addBranch(other *branch) {
	if len(b.children) == 0 {
		b.children = append(b.children, other)
		return
	}
	last := b.children[len(b.children)-1]
	common := 0
	for common < min(len(last.layers), len(other.layers)) && last.layers[common] == other.layers[common] {
		common++
	}
	switch {
	case common == len(last.layers) && common < len(other.layers) && common > len(b.layers):
		last.addBranch(other)
	case common > len(b.layers) && common < len(last.layers):
		b.children[len(b.children)-1] = &branch{layers: other.layers[:common], children: []*branch{last, other}}
	default: // nothing in common, or the very same layers
		b.children = append(b.children, other)
	}
}

func (b *branch) formatNames(full bool) string {
	if b.image == nil {
		return "(shared)"
	}
	names := make([]string, 0, len(b.image.RepoTags))
	for _, tag := range b.image.RepoTags {
		if tag != noTag {
			names = append(names, tag)
		}
	}
	switch {
	case len(names) == 0:
		return none
	case full || len(names) == 1:
		return strings.Join(names, ", ")
	default:
		return fmt.Sprintf("%s, %d more", names[0], len(names)-1)
	}
}

// appendLines appends the rows of a branch and of all that is below it. below is the size of the closest image that it is
// built on, in bytes.
func (b *branch) appendLines(lines [][]string, head, indent string, below int64, full bool) [][]string {
	cells := []string{head + b.formatNames(full), "", strconv.Itoa(len(b.layers)), "", ""}
	if b.image != nil {
		cells[1], cells[3], cells[4] = shortenID(b.image.ID, full), show.Size(b.image.Size), show.Size(b.image.Size-below)
		below = b.image.Size
	}
	lines = append(lines, cells)
	for i, child := range b.children {
		if i == len(b.children)-1 {
			lines = child.appendLines(lines, indent+"└─ ", indent+"   ", below, full)
		} else {
			lines = child.appendLines(lines, indent+"├─ ", indent+"│  ", below, full)
		}
	}
	return lines
}
