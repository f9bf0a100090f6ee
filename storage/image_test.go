package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestImages(t *testing.T) {
	s := openTemp(t, "")
	ctx := t.Context()
	first := put(t, s, map[string]string{"a": "1"}, "one", "one:x")
	if got, want := strings.Join(first.RepoTags, " "), "one:latest one:x"; got != want {
		t.Errorf("RepoTags = %s, want %s", got, want)
	}
	if first.Size <= 0 || len(first.Layers) != 1 || first.TopLayer == "" || first.Comment != "made by a test" {
		t.Errorf("PutImage = %+v", first)
	}
	second := put(t, s, map[string]string{"a": "2"}, "one")
	for what, want := range map[string]string{
		"one": second.ID, "one:x": first.ID, "docker.io/library/one": second.ID, first.ID: first.ID,
		strings.TrimPrefix(first.ID, "sha256:"): first.ID, first.ID[7:19]: first.ID, first.ID[:20]: first.ID,
	} {
		if got, err := s.Get(ctx, what); err != nil || got.ID != want {
			t.Errorf("Get(%s) = %v, %v, want %s", what, got, err, want)
		}
	}
	for what, text := range map[string]string{
		"none": "No such image: none:latest", "one:y": "No such image: one:y",
		newID(t): "No such image: sha256:", "h:1/x@" + first.ID: "No such image: h:1/x@sha256:",
	} {
		if _, err := s.Get(ctx, what); !fault.Is(err, fault.NotFound) || !strings.HasPrefix(err.Error(), text) {
			t.Errorf("Get(%s) = %v, want %q", what, err, text)
		}
	}
	if _, err := s.Get(ctx, "No Name"); !fault.Is(err, fault.Invalid) {
		t.Errorf("Get(No Name) = %v, want an invalid fault", err)
	}
	// A name that looks like the beginning of an id wins over it.
	short := first.ID[7:12]
	if err := s.Tag(ctx, second.ID, short); err != nil {
		t.Fatalf("Tag: %v", err)
	}
	if got, err := s.Get(ctx, short); err != nil || got.ID != second.ID {
		t.Errorf("Get(%s) = %v, %v, want the image of that name", short, got, err)
	}
	// Who has not seen the name decides on an image that is another by now.
	if err := s.Untag(ctx, second, second.RepoTags...); !errors.Is(err, ErrRenamed) {
		t.Errorf("Untag of an image that got a name = %v", err)
	}
	if gone, err := s.Delete(ctx, second); !errors.Is(err, ErrRenamed) || len(gone) > 0 {
		t.Errorf("Delete of an image that got a name = %v, %v", gone, err)
	}
	named := seen(t, s, second)
	if !slices.Contains(named.RepoTags, second.RepoTags[0]) {
		t.Errorf("the names are %v, want %v among them", named.RepoTags, second.RepoTags)
	}
	if err := s.Untag(ctx, named, short); err != nil {
		t.Fatalf("Untag: %v", err)
	}
	if got, err := s.Get(ctx, short); err != nil || got.ID != first.ID {
		t.Errorf("Get(%s) after Untag = %v, %v, want the image of that id", short, got, err)
	}
	list, err := s.List(ctx)
	if err != nil || len(list) != 2 || list[0].ID != second.ID {
		t.Errorf("List = %v, %v, want two, newest first", list, err)
	}
	gone, err := s.Delete(ctx, seen(t, s, first))
	if err != nil || len(gone) != 1 || gone[0] != first.Layers[0] {
		t.Errorf("Delete = %v, %v, want the layer %v", gone, err, first.Layers)
	}
	if _, err := s.Delete(ctx, first); !fault.Is(err, fault.NotFound) {
		t.Errorf("Delete again = %v, want not found", err)
	}
}

func TestTwinLayers(t *testing.T) {
	s := openTemp(t, "")
	a := put(t, s, map[string]string{"a": "1"}, "a")
	b := put(t, s, map[string]string{"a": "1"}, "b")
	if a.ID == b.ID || a.TopLayer != b.TopLayer {
		t.Errorf("two images of one archive: ids %s %s, layers %s %s; want two ids and one layer", a.ID, b.ID, a.TopLayer, b.TopLayer)
	}
	if gone, err := s.Delete(t.Context(), a); err != nil || len(gone) != 0 {
		t.Errorf("Delete of one = %v, %v, want no layer gone", gone, err)
	}
	if err := s.Create(t.Context(), newID(t), b.ID); err != nil {
		t.Errorf("Create from the other: %v", err)
	}
}

func TestBase(t *testing.T) {
	s := openTemp(t, "")
	ctx := t.Context()
	base := put(t, s, map[string]string{"a": "1"}, "base")
	img, err := s.PutImage(ctx, bytes.NewReader(tarball(t, map[string]string{"b": "2"})), ImageSpec{Base: base.ID, OS: "linux"}, nil)
	if err != nil {
		t.Fatalf("PutImage: %v", err)
	}
	if img.Parent != base.ID || len(img.Layers) != 2 || img.Layers[0] != base.Layers[0] || img.Size <= base.Size {
		t.Errorf("PutImage on a base = %+v", img)
	}
	bare, err := s.PutImage(ctx, nil, ImageSpec{Base: img.ID, Comment: "settings only"}, nil)
	if err != nil || bare.TopLayer != img.TopLayer {
		t.Errorf("PutImage without a layer = %+v, %v", bare, err)
	}
	id := newID(t)
	if err := s.Create(ctx, id, bare.ID); err != nil {
		t.Fatal(err)
	}
	dir, err := s.Mount(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if err := s.Remove(ctx, id); err != nil {
		t.Error(err)
	}
	if _, err := s.PutImage(ctx, nil, ImageSpec{Base: newID(t)}, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("PutImage on an absent base = %v, want not found", err)
	}
}

type broken struct {
	data []byte
	err  error
}

func (b *broken) Read(p []byte) (int, error) {
	if len(b.data) == 0 {
		return 0, b.err
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

func (f readerFunc) Read(p []byte) (int, error) {
	n, err := f(p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func TestPutImageAllOrNothing(t *testing.T) {
	s := openTemp(t, "")
	whole := tarball(t, map[string]string{"a": strings.Repeat("a", 100_000), "b": strings.Repeat("b", 100_000)})
	boom := errors.New("boom")
	ctx, cancel := context.WithCancel(t.Context())
	for name, try := range map[string]func() error{
		"reader fails": func() error {
			_, err := s.PutImage(t.Context(), &broken{data: whole[:150_000], err: boom}, ImageSpec{}, []string{"x"})
			if !errors.Is(err, boom) {
				t.Errorf("PutImage = %v, want boom in it", err)
			}
			return err
		},
		"fails at the end": func() error {
			_, err := s.PutImage(t.Context(), &broken{data: slices.Clone(whole), err: boom}, ImageSpec{}, []string{"x"})
			if !errors.Is(err, boom) {
				t.Errorf("PutImage = %v, want boom in it", err)
			}
			return err
		},
		"cancelled": func() error {
			src := io.MultiReader(bytes.NewReader(whole[:5000]), readerFunc(func([]byte) (int, error) {
				cancel()
				return 0, nil
			}), bytes.NewReader(whole[5000:]))
			_, err := s.PutImage(ctx, src, ImageSpec{}, []string{"x"})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("PutImage = %v, want cancelled", err)
			}
			return err
		},
		"bad name": func() error {
			_, err := s.PutImage(t.Context(), bytes.NewReader(whole), ImageSpec{}, []string{"Bad Name"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if try() == nil {
				t.Error("PutImage succeeded")
			}
			if records, folders := layers(t, s); records != 0 || folders != 0 {
				t.Errorf("%d layers, %d folders left", records, folders)
			}
			if list, err := s.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("images left: %v, %v", list, err)
			}
		})
	}
}

type readerFunc func([]byte) (int, error)
