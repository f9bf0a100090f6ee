package imagesvc

import (
	"context"
	"slices"
	"testing"

	"moss/engine/image"
	"moss/storage"
)

// busy is a store in which somebody else does something after each look at one image.
type busy struct {
	*storage.Store

	then func()
}

func (b *busy) Get(ctx context.Context, what string) (*image.Image, error) {
	img, err := b.Store.Get(ctx, what)
	b.then()
	return img, err
}

// TestRemoveWhileNamed: a pull names the image after the removal has decided what goes.
func TestRemoveWhileNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		names []string // before
		ref   string
		gone  []string
		left  []string
	}{
		"the last name":    {[]string{"a"}, "a", []string{"a:latest"}, []string{"new:latest"}},
		"a repository's":   {[]string{"a", "a@" + sum, "b"}, "a", []string{"a:latest", "a@" + sum}, []string{"b:latest", "new:latest"}},
		"the id's one":     {[]string{"a"}, "", nil, []string{"a:latest", "new:latest"}},
		"one of the names": {[]string{"a", "b"}, "b", []string{"b:latest"}, []string{"a:latest", "new:latest"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, st, _ := newService(t, Limits{})
			img := made(t, st, "", "x", storage.ImageSpec{}, tc.names...)
			once := false
			s.store = partsOf(&busy{Store: st, then: func() {
				if !once {
					once = true
					if err := st.Tag(t.Context(), img.ID, "new"); err != nil {
						t.Error(err)
					}
				}
			}})
			ref := tc.ref
			if ref == "" {
				ref = img.ID
			}
			removed, err := s.Remove(t.Context(), ref, image.RemoveOptions{})
			if refused := tc.gone == nil; (err != nil) != refused {
				t.Errorf("Remove = %v", err)
			}
			var gone []string
			for _, r := range removed {
				gone = append(gone, r.Untagged+r.Deleted)
			}
			if !slices.Equal(gone, tc.gone) {
				t.Errorf("%v are gone, want %v", gone, tc.gone)
			}
			now, err := st.Get(t.Context(), img.ID)
			if err != nil || !slices.Equal(now.RepoTags, tc.left) {
				t.Errorf("left is %+v, %v, want %v", now, err, tc.left)
			}
		})
	}
}

const sum = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
