package build

import (
	"archive/tar"
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"moss/engine/damage"
	"moss/engine/image"
)

// rig is a service with fakes.
type rig struct {
	t       *testing.T
	dir     string
	images  *fakeImages
	runner  *fakeRunner
	caches  *fakeCaches
	service *Service
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), images: newFakeImages(t), runner: &fakeRunner{}, caches: &fakeCaches{}}
	r.open()
	t.Cleanup(func() { r.service.Close() })
	return r
}

// open begins a service on what is there, as the next engine does.
func (r *rig) open() {
	r.t.Helper()
	if r.service != nil {
		r.service.Close()
	}
	var err error
	r.service, err = New(r.t.Context(), Options{
		Dir: r.dir, Images: r.images, Steps: r.images, Runner: r.runner, Caches: r.caches, Platform: image.Platform{OS: "linux", Architecture: "amd64"}, Damage: damage.New(r.dir, nil), Log: zerolog.New(zerolog.NewTestWriter(r.t)),
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// archiveOf packs files.
func archiveOf(files map[string]string) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg})
		_, _ = w.Write([]byte(files[name]))
	}
	_ = w.Close()
	return buf.Bytes()
}

// request is a build of a Dockerfile with files beside it.
func request(dockerfile string, files map[string]string) Request {
	all := maps.Clone(files)
	if all == nil {
		all = map[string]string{}
	}
	all["Dockerfile"] = dockerfile
	return Request{Context: bytes.NewReader(archiveOf(all)), Remove: true}
}

// told is what a build has told.
type told struct {
	id    string
	text  string // of all lines
	lines []image.Progress
	err   error
}

// build carries a request out.
func (r *rig) build(ctx context.Context, req Request) told {
	r.t.Helper()
	var got told
	var text strings.Builder
	got.id, got.err = r.service.Build(ctx, req, func(p image.Progress) {
		got.lines = append(got.lines, p)
		text.WriteString(p.Stream)
	})
	got.text = text.String()
	return got
}

// must carries a request out that works.
func (r *rig) must(req Request) told {
	r.t.Helper()
	got := r.build(r.t.Context(), req)
	if got.err != nil {
		r.t.Fatalf("build: %v\n%s", got.err, got.text)
	}
	r.service.flights.background.Wait()
	return got
}

// idle checks that a build has left nothing.
func (r *rig) idle() {
	r.t.Helper()
	r.service.flights.background.Wait()
	r.images.mu.Lock()
	defer r.images.mu.Unlock()
	if len(r.images.held) > 0 || r.images.views != 0 {
		r.t.Errorf("images held %v, views open %d; want none", r.images.held, r.images.views)
	}
	if list, err := os.ReadDir(r.service.opt.spoolDir()); err != nil || len(list) > 0 {
		r.t.Errorf("spool holds %v, %v; want nothing", list, err)
	}
	if len(r.service.flights.byKey) > 0 {
		r.t.Errorf("flights %v, want none", r.service.flights.byKey)
	}
}
