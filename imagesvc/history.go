package imagesvc

import (
	"context"
	"slices"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// missing stands for the id of an image that is not here.
const missing = "<missing>"

// History returns the steps of an image's making, newest first (API document 1, 2.6). The newest carries the image's own id;
// those below carry the ids of its parents as far as these are here. Layers of which the config tells nothing come as
// steps without words.
//
// Errors are fault.NotFound, fault.Invalid (neither a name nor an id) or internal.
func (s *Service) History(ctx context.Context, ref string) ([]image.HistoryEntry, error) {
	img, err := s.store.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	steps, sizes, err := s.store.History(ctx, img.ID)
	if err != nil {
		return nil, err
	}
	entries := historyEntries(img, steps, sizes)
	for i := range entries {
		entries[i].ID, entries[i].Tags = img.ID, img.RepoTags
		if img.Parent == "" {
			break
		}
		if img, err = s.store.Get(ctx, img.Parent); fault.Is(err, fault.NotFound) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// historyEntries joins the steps, oldest first, with the sizes of the layers, and turns them round.
func historyEntries(img *image.Image, steps []storage.History, sizes []int64) []image.HistoryEntry {
	told := 0
	for _, step := range steps {
		if !step.EmptyLayer {
			told++
		}
	}
	for range len(sizes) - told {
		steps = append(slices.Clip(steps), storage.History{Created: img.Created})
	}
	entries := make([]image.HistoryEntry, len(steps))
	layer := 0
	for i, step := range steps {
		entry := image.HistoryEntry{ID: missing, CreatedBy: step.CreatedBy, Comment: step.Comment}
		if !step.Created.IsZero() {
			entry.Created = step.Created.Unix()
		}
		if !step.EmptyLayer && layer < len(sizes) {
			entry.Size = max(sizes[layer], 0)
			layer++
		}
		entries[len(steps)-1-i] = entry
	}
	return entries
}
