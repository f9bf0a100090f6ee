package imagesvc

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// made puts an image of one layer into a store, on top of another one if base is set.
func made(t *testing.T, st *storage.Store, base, content string, spec storage.ImageSpec, names ...string) *image.Image {
	t.Helper()
	spec.Base = base
	img, err := st.PutImage(t.Context(), bytes.NewReader(rootfs(t, content)), spec, names)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestTag(t *testing.T) {
	s, st, events := newService(t, Limits{})
	one, two := made(t, st, "", "1", storage.ImageSpec{}, "one"), made(t, st, "", "2", storage.ImageSpec{}, "two")
	sum := digest.FromString("x").String()
	for _, tc := range []struct {
		name, ref, repo, tag string
		want                 string // the familiar name that the image has then
		fail                 string
		kind                 fault.Constructor
	}{
		{name: "tag", ref: "one", repo: "a", tag: "v1", want: "a:v1"},
		{name: "latest", ref: "one", repo: "a", want: "a:latest"},
		{name: "tag in the name", ref: "one", repo: "h:5000/a/b:x", want: "h:5000/a/b:x"},
		{name: "canonical", ref: "one:latest", repo: "docker.io/library/b", tag: "y", want: "b:y"},
		{name: "by id", ref: one.ID, repo: "c", want: "c:latest"},
		{name: "by a prefix", ref: one.ID[7:20], repo: "d", want: "d:latest"},
		{name: "the same again", ref: "one", repo: "a", tag: "v1", want: "a:v1"},
		{name: "taken from another", ref: "one", repo: "two", want: "two:latest"},
		{name: "no image", ref: "none", repo: "a", fail: "No such image: none:latest", kind: fault.NotFound},
		{name: "no name", ref: "one", fail: "invalid reference format", kind: fault.Invalid},
		{name: "bad name", ref: "one", repo: "A", fail: "invalid reference format", kind: fault.Invalid},
		{name: "bad tag", ref: "one", repo: "a", tag: "-x", fail: "invalid tag format", kind: fault.Invalid},
		{name: "an id", ref: "one", repo: one.ID[7:], fail: "invalid reference format", kind: fault.Invalid},
		{name: "digest", ref: "one", repo: "a@" + sum, fail: "refusing to create a tag with a digest", kind: fault.Invalid},
		{name: "digest and tag", ref: "one", repo: "a@" + sum, tag: "x", fail: "refusing to create a tag with a digest", kind: fault.Invalid},
		{name: "like an id", ref: "one", repo: "sha256", tag: "abc", fail: "refusing to create an ambiguous tag", kind: fault.Invalid},
		{name: "digest as tag", ref: "one", repo: "a", tag: sum, fail: "refusing to create a tag with a digest", kind: fault.Invalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := s.Tag(t.Context(), tc.ref, tc.repo, tc.tag)
			if tc.fail != "" {
				if !fault.Is(err, tc.kind) || !strings.HasPrefix(err.Error(), tc.fail) || events.take() != "" {
					t.Errorf("Tag(%q, %q, %q) = %v, want %q", tc.ref, tc.repo, tc.tag, err, tc.fail)
				}
				return
			}
			if err != nil || len(events.events) != 1 || events.events[0].Action != "tag" || events.events[0].Attributes["name"] != tc.want {
				t.Errorf("Tag(%q, %q, %q) = %v with %+v, want the name %s", tc.ref, tc.repo, tc.tag, err, events.events, tc.want)
			}
			events.take()
			if img, err := s.Get(t.Context(), tc.want); err != nil || img.ID != one.ID {
				t.Errorf("Get(%s) = %v, %v, want the first image", tc.want, img, err)
			}
		})
	}
	if img, err := s.Get(t.Context(), two.ID); err != nil || len(img.RepoTags) != 0 {
		t.Errorf("the image that had a name = %+v, %v, want none left", img, err)
	}
}

func TestHistory(t *testing.T) {
	s, st, _ := newService(t, Limits{})
	at := time.Unix(1_500_000_000, 0)
	base := made(t, st, "", "1", storage.ImageSpec{Created: at, Comment: "base"}, "base", "base:2", "r/x@"+digest.FromString("x").String())
	middle, err := st.PutImage(t.Context(), nil, storage.ImageSpec{Base: base.ID, CreatedBy: "ENV a=b", Created: at.Add(time.Second)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	top := made(t, st, middle.ID, "22", storage.ImageSpec{CreatedBy: "RUN x", Created: at.Add(2 * time.Second)}, "top")
	sizes := []int64{base.Size, 0, top.Size - base.Size}
	want := []image.HistoryEntry{
		{ID: top.ID, Created: at.Unix() + 2, CreatedBy: "RUN x", Tags: []string{"top:latest"}, Size: sizes[2]},
		{ID: middle.ID, Created: at.Unix() + 1, CreatedBy: "ENV a=b"},
		{ID: base.ID, Created: at.Unix(), Tags: []string{"base:2", "base:latest"}, Size: sizes[0], Comment: "base"},
	}
	same := func(a, b image.HistoryEntry) bool {
		tags := slices.Equal(a.Tags, b.Tags)
		a.Tags, b.Tags = nil, nil
		return tags && a.ID == b.ID && a.Created == b.Created && a.CreatedBy == b.CreatedBy && a.Size == b.Size && a.Comment == b.Comment
	}
	check := func() {
		t.Helper()
		if got, err := s.History(t.Context(), "top"); err != nil || !slices.EqualFunc(got, want, same) {
			t.Errorf("History = %+v, %v, want %+v", got, err, want)
		}
	}
	check()
	// What is not here any more has no id.
	if _, err := st.Delete(t.Context(), middle); err != nil {
		t.Fatal(err)
	}
	want[1].ID, want[2].ID, want[2].Tags = missing, missing, nil
	check()
	if _, err := s.History(t.Context(), "none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("History of no image = %v", err)
	}
}

func TestHistoryEntries(t *testing.T) {
	at := time.Unix(7, 0)
	for _, tc := range []struct {
		name  string
		steps []storage.History
		sizes []int64
		want  string // sizes, newest first
	}{
		{"nothing", nil, nil, ""},
		{"no words", nil, []int64{1, 2}, "2 1"},
		{"words for one", []storage.History{{CreatedBy: "x"}}, []int64{1, 2}, "2 1x"},
		{"empty between", []storage.History{{}, {EmptyLayer: true, CreatedBy: "e"}, {}}, []int64{1, 2}, "2 0e 1"},
		{"more words than layers", []storage.History{{}, {CreatedBy: "y"}}, []int64{1}, "0y 1"},
		{"unknown size", []storage.History{{}}, []int64{-1}, "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, e := range historyEntries(&image.Image{Created: at}, tc.steps, tc.sizes) {
				got = append(got, string(rune('0'+e.Size))+e.CreatedBy)
				if e.ID != missing {
					t.Errorf("id %s", e.ID)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("historyEntries = %v, want %s", got, tc.want)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	s, st, _ := newService(t, Limits{})
	base := made(t, st, "", "1", storage.ImageSpec{}, "base")
	a := made(t, st, base.ID, "22", storage.ImageSpec{}, "a")
	b := made(t, st, base.ID, "333", storage.ImageSpec{}, "b")
	alone := made(t, st, "", strings.Repeat("x", 5000), storage.ImageSpec{})
	s.SetUsers(keepers{a.ID: {{ContainerID: "1"}, {ContainerID: "2"}}})
	usage, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := a.Size + b.Size - base.Size + alone.Size; usage.LayersSize != want {
		t.Errorf("LayersSize = %d, want %d", usage.LayersSize, want)
	}
	if usage.LayersUsed != a.Size {
		t.Errorf("LayersUsed = %d, want %d", usage.LayersUsed, a.Size)
	}
	want := map[string]image.ImageUsage{
		base.ID: {SharedSize: base.Size}, a.ID: {SharedSize: base.Size, UniqueSize: a.Size - base.Size, Containers: 2},
		b.ID: {SharedSize: base.Size, UniqueSize: b.Size - base.Size}, alone.ID: {UniqueSize: alone.Size},
	}
	for _, u := range usage.Images {
		w := want[u.Image.ID]
		if u.SharedSize != w.SharedSize || u.UniqueSize != w.UniqueSize || u.Containers != w.Containers {
			t.Errorf("usage of %v = %+v, want %+v", u.Image.RepoTags, u, w)
		}
	}
	if len(usage.Images) != len(want) {
		t.Errorf("%d images, want %d", len(usage.Images), len(want))
	}
}

func TestSearchFilters(t *testing.T) {
	for _, tc := range []struct {
		filters map[string][]string
		result  image.SearchResult
		want    bool
		bad     bool
	}{
		{nil, image.SearchResult{}, true, false},
		{map[string][]string{"stars": {"3"}}, image.SearchResult{Stars: 3}, true, false},
		{map[string][]string{"stars": {"3", "4"}}, image.SearchResult{Stars: 3}, false, false},
		{map[string][]string{"is-official": {"true"}}, image.SearchResult{Official: true}, true, false},
		{map[string][]string{"is-official": {"true"}}, image.SearchResult{}, false, false},
		{map[string][]string{"is-automated": {"0"}}, image.SearchResult{Automated: true}, false, false},
		{map[string][]string{"is-automated": {"false"}, "stars": {"1"}}, image.SearchResult{Stars: 1}, true, false},
		{map[string][]string{"stars": {"-1"}}, image.SearchResult{}, false, true},
		{map[string][]string{"stars": {"many"}}, image.SearchResult{}, false, true},
		{map[string][]string{"is-official": {"maybe"}}, image.SearchResult{}, false, true},
		{map[string][]string{"size": {"1"}}, image.SearchResult{}, false, true},
		{map[string][]string{"is-official": {"false"}}, image.SearchResult{}, true, false},
		{map[string][]string{"is-automated": {"1"}}, image.SearchResult{Automated: true}, true, false},
		{map[string][]string{"is-automated": {"true"}, "is-official": {"true"}}, image.SearchResult{Official: true}, false, false},
		{map[string][]string{"is-automated": {"true", "false"}}, image.SearchResult{}, false, true},
	} {
		keep, err := searchFilter(tc.filters)
		if tc.bad {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("searchFilter(%v) = %v, want an invalid fault", tc.filters, err)
			}
			continue
		}
		if err != nil || keep(tc.result) != tc.want {
			t.Errorf("searchFilter(%v) of %+v = %v, %v, want %v", tc.filters, tc.result, err == nil && keep(tc.result), err, tc.want)
		}
	}
	s := New(Store{}, Options{})
	for _, opts := range []image.SearchOptions{{}, {Term: " "}, {Term: "x", Limit: 101}, {Term: "x", Limit: -1}} {
		if _, err := s.Search(t.Context(), opts); !fault.Is(err, fault.Invalid) {
			t.Errorf("Search(%+v) = %v, want an invalid fault", opts, err)
		}
	}
}
