package imagesvc

import (
	"context"
	"sync"

	"moss/engine/image"
)

// holds are images that must not go while they are read layer by layer. The zero value is ready.
type holds struct {
	mu sync.Mutex // guards of
	of map[string][]string
}

// holdImage returns an image that stays until release is called: its removal is a conflict meanwhile, which says what is done
// with it ("pushed", "saved"). release may be called again without effect. Errors are those of Get.
func (s *collection) holdImage(ctx context.Context, ref, what string) (img *image.Image, release func(), err error) {
	s.changing.Lock() // no removal is between its question and its deed
	defer s.changing.Unlock()
	if img, err = s.store.Get(ctx, ref); err != nil {
		return nil, nil, err
	}
	s.held.add(img.ID, what)
	return img, sync.OnceFunc(func() { s.held.drop(img.ID, what) }), nil
}

// heldFor returns what is done with an image that is held, empty if it is not.
func (s *collection) heldFor(imageID string) string {
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	if whys := s.held.of[imageID]; len(whys) > 0 {
		return whys[0]
	}
	return ""
}

func (h *holds) add(imageID, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[string][]string{}
	}
	h.of[imageID] = append(h.of[imageID], what)
}

func (h *holds) drop(imageID, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	whys := h.of[imageID]
	for i, other := range whys {
		if other == what {
			whys = append(whys[:i:i], whys[i+1:]...)
			break
		}
	}
	if len(whys) == 0 {
		delete(h.of, imageID)
		return
	}
	h.of[imageID] = whys
}
