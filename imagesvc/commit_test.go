package imagesvc

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// layerOf is the archive of one file.
func layerOf(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// layer is an archive that notes that it was closed.
type layer struct {
	io.Reader
	closed int
	fail   error // of Close
}

func (l *layer) Close() error { l.closed++; return l.fail }

func TestCommit(t *testing.T) {
	s, st, events := newService(t, Limits{})
	base, err := st.PutImage(t.Context(), bytes.NewReader(layerOf(t, "base", "1")), storage.ImageSpec{Architecture: "amd64", OS: "linux"}, []string{"base"})
	if err != nil {
		t.Fatal(err)
	}
	l := &layer{Reader: bytes.NewReader(layerOf(t, "added", "2"))}
	containerID := strings.Repeat("ab", 32)
	id, name, err := s.Commit(t.Context(), image.Commit{
		Repo: "made", Author: "me", Comment: "why", Parent: base.ID, ContainerID: containerID, CreatedBy: "sh -c x",
		Config: image.Config{Env: []string{"A=1"}}, Changes: []string{"ENV B=$A\nUSER 7"},
	}, func(context.Context) (io.ReadCloser, error) { return l, nil })
	if err != nil || name != "made:latest" || l.closed == 0 {
		t.Fatalf("Commit = %s, %s, %v; closed %d times", id, name, err, l.closed)
	}
	img, err := s.Get(t.Context(), "made")
	if err != nil {
		t.Fatal(err)
	}
	if img.ID != id || img.Parent != base.ID || img.Author != "me" || img.Comment != "why" || img.Container != containerID ||
		img.Architecture != "amd64" || img.OS != "linux" || len(img.Layers) != 2 || img.Config.User != "7" ||
		!slices.Equal(img.Config.Env, []string{"B=1", "A=1"}) {
		t.Errorf("the image is %+v", img)
	}
	if e := events.events; len(e) != 1 || e[0].Action != "tag" || e[0].ID != id || e[0].Attributes["name"] != "made:latest" {
		t.Errorf("events %+v, want the tag", e)
	}
}

func TestCommitLeavesNothing(t *testing.T) {
	s, st, _ := newService(t, Limits{})
	base, err := st.PutImage(t.Context(), nil, storage.ImageSpec{}, []string{"base"})
	if err != nil {
		t.Fatal(err)
	}
	ok := image.Commit{Parent: base.ID}
	with := func(change func(*image.Commit)) image.Commit { c := ok; change(&c); return c }
	broken := errors.New("the disk is full")
	good := func() *layer { return &layer{Reader: bytes.NewReader(layerOf(t, "x", "1"))} }
	for _, tc := range []struct {
		name   string
		commit image.Commit
		layer  *layer
		opened bool
		kind   fault.Constructor
	}{
		{"bad repo", with(func(c *image.Commit) { c.Repo = "UPPER" }), good(), false, fault.Invalid},
		{"bad tag", with(func(c *image.Commit) { c.Repo, c.Tag = "x", "-" }), good(), false, fault.Invalid},
		{"digest", with(func(c *image.Commit) { c.Repo = "x@sha256:" + strings.Repeat("0", 64) }), good(), false, fault.Invalid},
		{"tag without a repo", with(func(c *image.Commit) { c.Tag = "v1" }), good(), false, fault.Invalid},
		{"bad change", with(func(c *image.Commit) { c.Changes = []string{"FROM x"} }), good(), false, fault.Invalid},
		{"long comment", with(func(c *image.Commit) { c.Comment = strings.Repeat("x", maxComment+1) }), good(), false, fault.Invalid},
		{"no parent", with(func(c *image.Commit) { c.Parent = "sha256:" + strings.Repeat("1", 64) }), good(), false, fault.NotFound},
		{"broken layer", ok, &layer{Reader: io.MultiReader(bytes.NewReader(layerOf(t, "x", "1")[:600]), failing{broken})}, true, fault.Internal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opened := false
			id, _, err := s.Commit(t.Context(), tc.commit, func(context.Context) (io.ReadCloser, error) { opened = true; return tc.layer, nil })
			if err == nil || fault.KindOf(err) != fault.KindOf(tc.kind("")) || opened != tc.opened || opened != (tc.layer.closed > 0) {
				t.Errorf("Commit = %q, %v; opened %t, closed %d times", id, err, opened, tc.layer.closed)
			}
			list, err := s.List(t.Context(), image.ListOptions{All: true})
			if err != nil || len(list) != 1 {
				t.Errorf("%d images, %v, want the base alone", len(list), err)
			}
		})
	}
	if _, _, err := s.Commit(t.Context(), ok, func(context.Context) (io.ReadCloser, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("a layer that cannot be opened: %v", err)
	}
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
