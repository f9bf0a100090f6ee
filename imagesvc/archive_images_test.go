package imagesvc

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

func TestLoadLinks(t *testing.T) {
	one, two := rootfs(t, "one"), rootfs(t, "two")
	config := configOf(t, "x", one, two, one)
	configName := digest.FromBytes(config).Encoded() + ".json"
	s, _, _ := newService(t, Limits{})
	raw := pack(t,
		archived{name: "c/layer.tar", link: "../hard/layer.tar"}, // before what it leads to
		archived{name: "a/layer.tar", raw: one}, archived{name: "b/layer.tar", raw: two},
		archived{name: "hard/layer.tar", link: "a/layer.tar", hard: true},
		archived{name: configName, raw: config},
		archived{name: nameManifest, raw: toJSON(t, []archiveEntry{{configName, []string{"l"}, []string{"a/layer.tar", "b/layer.tar", "c/layer.tar"}}})})
	if says, err := load(t, s, raw); err != nil || says != "Loaded image: l:latest\n" {
		t.Errorf("Load = %v, says %q", err, says)
	}
}

// Archives of the time before 2016 may have layers of no bytes at all, for steps that changed nothing.
func TestLoadEmptyLayers(t *testing.T) {
	one := rootfs(t, "one")
	record := func(name, parent string) archived {
		return archived{name: name + "/json", raw: toJSON(t, map[string]any{"id": name, "parent": parent, "os": "linux", "architecture": runtime.GOARCH})}
	}
	raw := pack(t,
		record("a", ""),
		archived{name: "a/layer.tar", raw: []byte{}},
		record("b", "a"),
		archived{name: "b/layer.tar", raw: one},
		record("c", "b"),
		archived{name: "c/layer.tar", raw: []byte{}},
		archived{name: nameRepositories, raw: []byte(`{"empty":{"1":"c"}}`)})
	s, _, _ := newService(t, Limits{})
	if says, err := load(t, s, raw); err != nil || says != "Loaded image: empty:1\n" {
		t.Fatalf("Load = %v, says %q", err, says)
	}
	if img, err := s.Get(t.Context(), "empty:1"); err != nil || len(img.Layers) != 3 {
		t.Errorf("the image has the layers %v, %v, want 3", img.Layers, err)
	}
}

func TestLoadSeveral(t *testing.T) {
	one, two, three := rootfs(t, "one"), rootfs(t, "two"), rootfs(t, "three")
	a, b, c := configOf(t, "a", one, two), configOf(t, "b", one, three), configOf(t, "c", two)
	images := []struct {
		config []byte
		tags   []string
		layers []string
	}{{a, []string{"s/a"}, []string{"1.tar", "2.tar"}}, {b, []string{"s/b:1", "s/b:2"}, []string{"1.tar", "3.tar"}}, {c, nil, []string{"2.tar"}}}
	entries := make([]archived, 0, 3+len(images))
	entries = append(entries, archived{name: "1.tar", raw: one}, archived{name: "2.tar", raw: two}, archived{name: "3.tar", raw: three})
	index := make([]archiveEntry, 0, len(images))
	for _, img := range images {
		name := digest.FromBytes(img.config).Encoded() + ".json"
		entries = append(entries, archived{name: name, raw: img.config})
		index = append(index, archiveEntry{name, img.tags, img.layers})
	}
	raw := pack(t, append(entries, archived{name: nameManifest, raw: toJSON(t, index)})...)
	s, st, events := newService(t, Limits{})
	if _, err := load(t, s, pack(t, dockerArchive(t, []string{"s/a", "s/b:2"}, configOf(t, "old", three), three)...)); err != nil {
		t.Fatal(err)
	}
	old := digest.FromBytes(configOf(t, "old", three)).String()
	events.take()
	says, err := load(t, s, raw)
	want := "The image s/a:latest already exists, renaming the old one with ID " + old + " to empty string\nLoaded image: s/a:latest\n" +
		"Loaded image: s/b:1\nThe image s/b:2 already exists, renaming the old one with ID " + old + " to empty string\nLoaded image: s/b:2\n" +
		"Loaded image ID: " + digest.FromBytes(c).String() + "\n"
	if err != nil || says != want {
		t.Errorf("Load = %v, says\n%swant\n%s", err, says, want)
	}
	if got := events.take(); got != "load,load,load" {
		t.Errorf("events = %q", got)
	}
	if img, err := s.Get(t.Context(), old); err != nil || len(img.RepoTags) != 0 {
		t.Errorf("the image that had the names: %+v, %v", img, err)
	}
	nothingStaged(t, st)
	if got := layerCount(t, st); got != 5 { // three; one, two and three over one; two alone
		t.Errorf("the store has %d layers, want 5", got)
	}
}

func TestLoadIndex(t *testing.T) {
	one := rootfs(t, "one")
	mine, foreign := configOf(t, "mine", one), configOf(t, "foreign", one)
	var entries []archived
	blob := func(mediaType string, raw []byte) descriptor {
		d := descriptor{MediaType: mediaType, Size: int64(len(raw)), Digest: digest.FromBytes(raw)}
		if !slices.ContainsFunc(entries, func(e archived) bool { return e.name == blobName(d) }) {
			entries = append(entries, archived{name: blobName(d), raw: raw})
		}
		return d
	}
	imageOf := func(config []byte, arch string) descriptor {
		d := blob(typeOCIManifest, toJSON(t, map[string]any{
			"schemaVersion": 2, "mediaType": typeOCIManifest, "config": blob(typeOCIConfig, config),
			"layers": []descriptor{blob(typeOCILayer, one)},
		}))
		d.Platform = &image.DistributedPlatform{Platform: image.Platform{OS: "linux", Architecture: arch}}
		return d
	}
	index := func(of ...descriptor) []byte {
		return toJSON(t, map[string]any{"schemaVersion": 2, "mediaType": typeOCIIndex, "manifests": of})
	}
	here, there := imageOf(mine, runtime.GOARCH), imageOf(foreign, "s390x")
	attestation := descriptor{
		MediaType: typeOCIManifest, Digest: digest.FromString("attestation"), Size: 5,
		Annotations: map[string]string{"vnd.docker.reference.type": "attestation-manifest"}, Platform: &image.DistributedPlatform{Platform: image.Platform{OS: "unknown", Architecture: "unknown"}},
	}
	absent := there
	absent.Digest = digest.FromString("absent")
	named := func(d descriptor, name string) descriptor {
		d.Annotations = map[string]string{annotationName: name}
		return d
	}
	for _, tc := range []struct {
		name string
		top  []descriptor
		want string // what is said; empty: refused
	}{
		{"an index", []descriptor{named(blob(typeOCIIndex, index(attestation, there, here)), "i:1")}, "Loaded image: i:1\n"},
		{"an index in an index", []descriptor{named(blob(typeOCIIndex, index(blob(typeOCIIndex, index(there, here)))), "i:1")}, "Loaded image: i:1\n"},
		{"of several platforms, without names", []descriptor{there, here}, "Loaded image ID: " + digest.FromBytes(mine).String() + "\n"},
		{"of several platforms, with one name", []descriptor{named(there, "i:1"), named(here, "i:1")}, "Loaded image: i:1\n"},
		{"several names", []descriptor{named(here, "i:1"), named(here, "i:2")}, "Loaded image: i:1\nLoaded image: i:2\n"},
		{"two images", []descriptor{named(here, "i:1"), named(there, "i:2")}, "Loaded image: i:1\nLoaded image: i:2\n"},
		{"the one that is there", []descriptor{named(blob(typeOCIIndex, index(absent, here)), "i:1")}, "Loaded image: i:1\n"},
		{"another platform alone", []descriptor{named(there, "i:1")}, "Loaded image: i:1\n"},
		{"none that is there", []descriptor{named(blob(typeOCIIndex, index(absent, absent)), "i:1")}, ""},
		{"nested too deep", []descriptor{deep(blob, index, here)}, ""},
		{"attestations only", []descriptor{attestation}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, st, _ := newService(t, Limits{})
			says, err := load(t, s, pack(t, append(slices.Clone(entries), archived{name: nameLayout, raw: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
				archived{name: nameIndex, raw: index(tc.top...)})...))
			if says != tc.want || (err != nil) != (tc.want == "") {
				t.Errorf("Load = %v, says %q, want %q", err, says, tc.want)
			}
			nothingStaged(t, st)
			if tc.want != "" && !strings.Contains(tc.name, "another") {
				all, err := s.List(t.Context(), image.ListOptions{All: true})
				if err != nil || !slices.ContainsFunc(all, func(img *image.Image) bool { return img.ID == digest.FromBytes(mine).String() }) {
					t.Errorf("the image of this machine is not there: %v", err)
				}
			}
		})
	}
	s390x := bytes.Replace(foreign, []byte(`"amd64"`), []byte(`"s390x"`), 1)
	top := index(here, imageOf(s390x, "s390x"))
	s, _, _ := newService(t, Limits{})
	raw := pack(t, append(entries, archived{name: nameLayout, raw: []byte(`{"imageLayoutVersion":"1.0.0"}`)}, archived{name: nameIndex, raw: top})...)
	var told shown
	err := s.Load(t.Context(), bytes.NewReader(raw), image.LoadOptions{Platform: "linux/s390x"}, told.progress)
	if want := "Loaded image ID: " + digest.FromBytes(s390x).String() + "\n"; err != nil || told.streams() != want {
		t.Errorf("the image for another platform that is asked for: %v, says %q, want %q", err, told.streams(), want)
	}
}

// TestLoadPlatform: an image for another platform than the one that is asked for leaves nothing behind.
func TestLoadPlatform(t *testing.T) {
	one := rootfs(t, "one")
	foreign := bytes.Replace(configOf(t, "foreign", one), []byte(`"amd64"`), []byte(`"s390x"`), 1)
	raw := pack(t, dockerArchive(t, []string{"i:1"}, foreign, one)...)
	for want, ok := range map[string]bool{"linux/s390x": true, "linux/amd64": false, "": true} {
		s, st, _ := newService(t, Limits{})
		err := s.Load(t.Context(), bytes.NewReader(raw), image.LoadOptions{Platform: want}, nil)
		all, listErr := s.List(t.Context(), image.ListOptions{All: true})
		if (err == nil) != ok || !ok && !fault.Is(err, fault.NotFound) || listErr != nil || (len(all) > 0) != ok {
			t.Errorf("load for %q = %v with %d images, %v, want success %v", want, err, len(all), listErr, ok)
		}
		nothingStaged(t, st)
	}
	s, _, _ := newService(t, Limits{})
	if err := s.Load(t.Context(), bytes.NewReader(raw), image.LoadOptions{Platform: "a/b/c/d"}, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("load for what is no platform = %v", err)
	}
}

func deep(blob func(string, []byte) descriptor, index func(...descriptor) []byte, d descriptor) descriptor {
	for range maxNested + 1 {
		d = blob(typeOCIIndex, index(d))
	}
	return d
}

// TestNoLayers saves and loads an image that has only settings.
func TestNoLayers(t *testing.T) {
	s, st, _ := newService(t, Limits{})
	img, err := st.PutImage(t.Context(), nil, storage.ImageSpec{OS: "linux", Config: image.Config{Cmd: []string{"x"}}}, []string{"bare:1"})
	if err != nil {
		t.Fatal(err)
	}
	raw := save(t, s, "bare:1")
	other, _, _ := newService(t, Limits{})
	if says, err := load(t, other, raw); err != nil || says != "Loaded image: bare:1\n" {
		t.Errorf("Load = %v, says %q", err, says)
	}
	if got, err := other.Get(t.Context(), "bare:1"); err != nil || got.ID != img.ID {
		t.Errorf("Get = %+v, %v, want %s", got, err, img.ID)
	}
}
