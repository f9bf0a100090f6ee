package imagesvc

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestLoadForms(t *testing.T) {
	one, two := rootfs(t, "one"), rootfs(t, "two")
	config := configOf(t, "x", one, two)
	docker := dockerArchive(t, []string{"a:1", "localhost/b:2", "docker.io/library/c:3"}, config, one, two)
	gz := slices.Clone(docker)
	for i := range gz {
		if strings.HasSuffix(gz[i].name, nameLayer) {
			gz[i].raw = compressed(t, gz[i].raw, toGzip)
		}
	}
	sloppy := slices.Concat([]archived{{name: "./"}}, docker)
	for i := range sloppy {
		sloppy[i].name = "./" + strings.TrimPrefix(sloppy[i].name, "./")
	}
	first := slices.Clone(docker)
	slices.Reverse(first)
	named := "Loaded image: a:1\nLoaded image: localhost/b:2\nLoaded image: c:3\n"
	id := digest.FromBytes(config).String()
	for _, tc := range []struct {
		name string
		raw  []byte
		says string
	}{
		{"docker", pack(t, docker...), named},
		{"docker, gzip outside", compressed(t, pack(t, docker...), toGzip), named},
		{"docker, xz outside", compressed(t, pack(t, docker...), toXZ), named},
		{"docker, zstd outside", compressed(t, pack(t, docker...), toZstd), named},
		{"docker, gzip inside", pack(t, gz...), named},
		{"docker, names with ./", pack(t, sloppy...), named},
		{"docker, documents first", pack(t, first...), named},
		{"docker, no names", pack(t, dockerArchive(t, nil, config, one, two)...), "Loaded image ID: " + id + "\n"},
		{"oci", pack(t, ociArchive(t, "a:1", config, nil, typeOCILayer, one, two)...), "Loaded image: a:1\n"},
		{"oci, gzip", pack(t, ociArchive(t, "a:1", config, toGzip, typeOCILayer+"+gzip", one, two)...), "Loaded image: a:1\n"},
		{"oci, zstd", pack(t, ociArchive(t, "a:1", config, toZstd, typeOCILayer+"+zstd", one, two)...), "Loaded image: a:1\n"},
		{"docker since 25, with an OCI layout beside", pack(t, docker25(t, "a:1", config, one, two)...), "Loaded image: a:1\n"},
		{"oci, with blobs that are no layers", pack(t, append([]archived{
			{name: "blobs/sha256/" + digest.FromString("text").Encoded(), raw: []byte("text")},
			{name: "blobs/sha256/" + digest.FromString("gzip").Encoded(), raw: compressed(t, []byte("text"), toGzip)},
			{name: "blobs/sha256/short", raw: []byte("text")},
			{name: "README", raw: []byte("text")},
		}, ociArchive(t, "a:1", config, nil, typeOCILayer, one, two)...)...), "Loaded image: a:1\n"},
		{"oci, no name", pack(t, ociArchive(t, "", config, toGzip, typeOCILayer+"+gzip", one, two)...), "Loaded image ID: " + id + "\n"},
		{"oci, a tag only", pack(t, ociArchive(t, "latest", config, toGzip, typeOCILayer+"+gzip", one, two)...), "Loaded image ID: " + id + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, st, events := newService(t, Limits{})
			for _, round := range []string{"first", "second"} {
				says, err := load(t, s, tc.raw)
				if err != nil || says != tc.says {
					t.Fatalf("%s Load = %v, says %q, want %q", round, err, says, tc.says)
				}
				if got := events.take(); got != "load" {
					t.Errorf("events = %q, want load", got)
				}
				nothingStaged(t, st)
			}
			img, err := s.Get(t.Context(), id)
			if err != nil || img.Config.Cmd[0] != "x" || len(img.Layers) != 2 {
				t.Errorf("Get = %+v, %v", img, err)
			}
			if got := layerCount(t, st); got != 2 {
				t.Errorf("the store has %d layers, want 2", got)
			}
		})
	}
}

// docker25 makes the archive of an image as docker has written it since version 25.
func docker25(t *testing.T, tag string, config []byte, layers ...[]byte) []archived {
	entry := archiveEntry{Config: blobName(descriptor{Digest: digest.FromBytes(config)}), RepoTags: []string{tag}}
	for _, layer := range layers {
		entry.Layers = append(entry.Layers, blobName(descriptor{Digest: digest.FromBytes(layer)}))
	}
	return append(ociArchive(t, "other:name", config, nil, typeOCILayer, layers...),
		archived{name: nameManifest, raw: toJSON(t, []archiveEntry{entry})})
}

// TestLoadOddLayers loads layers that do not show by their first bytes what they are.
func TestLoadOddLayers(t *testing.T) {
	old := archive(t, file("a", 700))
	clear(old[257:265]) // no magic: as before ustar
	var sum int64
	for i, b := range old[:blockSize] {
		if i >= 148 && i < 156 {
			b = ' '
		}
		sum += int64(b)
	}
	copy(old[148:156], fmt.Sprintf("%06o\x00 ", sum))
	empty := make([]byte, 1024)
	big := rootfs(t, strings.Repeat("big", 1<<20))
	layers := [][]byte{old, empty, big, empty, big, old, big} // several places each, each once in the archive
	config := configOf(t, "x", layers...)
	entry := archiveEntry{Config: "c.json"}
	for _, layer := range layers {
		entry.Layers = append(entry.Layers, digest.FromBytes(layer).Encoded()+".tar")
	}
	s, st, _ := newService(t, Limits{})
	if _, err := load(t, s, pack(t, archived{name: entry.Layers[0], raw: old}, archived{name: entry.Layers[1], raw: empty}, archived{name: entry.Layers[2], raw: big},
		archived{name: "c.json", raw: config}, archived{name: nameManifest, raw: toJSON(t, []archiveEntry{entry})})); err != nil {
		t.Fatal(err)
	}
	nothingStaged(t, st)
	if got := layerCount(t, st); got != len(layers) {
		t.Errorf("the store has %d layers, want %d", got, len(layers))
	}
	files := unpacked(t, save(t, s, digest.FromBytes(config).String()))
	var entries []archiveEntry
	if err := json.Unmarshal([]byte(files[nameManifest]), &entries); err != nil {
		t.Fatal(err)
	}
	for i, layer := range layers {
		if files[entries[0].Layers[i]] != string(layer) {
			t.Errorf("layer %d is not what it was", i)
		}
	}
}

func TestSave(t *testing.T) {
	s, _, events := newService(t, Limits{})
	one, two, three := rootfs(t, "one"), rootfs(t, "two"), rootfs(t, "three")
	a, b := configOf(t, "a", one, two), configOf(t, "b", one, three)
	for _, raw := range [][]byte{
		pack(t, dockerArchive(t, []string{"a:1", "a:2", "localhost/me/a:3"}, a, one, two)...),
		pack(t, dockerArchive(t, []string{"b:1"}, b, one, three)...),
	} {
		if _, err := load(t, s, raw); err != nil {
			t.Fatal(err)
		}
	}
	events.take()
	raw := save(t, s, "a", "b:1", "localhost/me/a:3")
	if got := events.take(); got != "save,save" {
		t.Errorf("events = %q, want one for each image", got)
	}
	if again := save(t, s, "a", "b:1", "localhost/me/a:3"); !bytes.Equal(raw, again) {
		t.Error("the same images saved twice are not the same bytes")
	}
	files := unpacked(t, raw)
	var entries []archiveEntry
	if err := json.Unmarshal([]byte(files[nameManifest]), &entries); err != nil || len(entries) != 2 {
		t.Fatalf("%s = %s, %v", nameManifest, files[nameManifest], err)
	}
	if want := []string{"a:1", "a:2", "localhost/me/a:3"}; !slices.Equal(entries[0].RepoTags, want) {
		t.Errorf("RepoTags = %v, want %v", entries[0].RepoTags, want)
	}
	for i, want := range [][]byte{a, b} {
		if got := files[entries[i].Config]; got != string(want) || entries[i].Config != digest.FromBytes(want).Encoded()+".json" {
			t.Errorf("config %s = %s, want %s", entries[i].Config, got, want)
		}
	}
	if entries[0].Layers[0] != entries[1].Layers[0] || files[entries[0].Layers[0]] != string(one) || files[entries[1].Layers[1]] != string(three) {
		t.Errorf("layers = %v and %v", entries[0].Layers, entries[1].Layers)
	}
	var repositories map[string]map[string]string
	if err := json.Unmarshal([]byte(files[nameRepositories]), &repositories); err != nil {
		t.Fatal(err)
	}
	top := repositories["a"]["1"]
	if repositories["localhost/me/a"]["3"] != top || repositories["a"]["2"] != top || files[top+"/VERSION"] != "1.0" || files[top+"/layer.tar"] != string(two) {
		t.Errorf("repositories = %v", repositories)
	}
	var record struct {
		ID, Parent string
		Created    time.Time
		OS         string
		Config     image.Config
	}
	if err := json.Unmarshal([]byte(files[top+"/json"]), &record); err != nil || record.ID != top || record.OS != "linux" || record.Config.Cmd[0] != "a" {
		t.Errorf("record of the top layer = %s, %v", files[top+"/json"], err)
	}
	if record.Parent == "" || files[record.Parent+"/layer.tar"] != string(one) || !strings.Contains(files[record.Parent+"/json"], `"Cmd":["step 0"]`) {
		t.Errorf("the parent of %s is %q: %s", top, record.Parent, files[record.Parent+"/json"])
	}
	bare := unpacked(t, save(t, s, digest.FromBytes(a).String()))
	if _, ok := bare[nameRepositories]; ok || !strings.Contains(bare[nameManifest], `"RepoTags":null`) {
		t.Errorf("an archive by id has names: %v", bare[nameManifest])
	}
}

// pick returns those entries of an archive that keep wants.
func pick(t testing.TB, raw []byte, keep func(name string) bool) []byte {
	t.Helper()
	var buf bytes.Buffer
	in, out := tar.NewReader(bytes.NewReader(raw)), tar.NewWriter(&buf)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !keep(h.Name) {
			continue
		}
		if err := out.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(out, in); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestRoundTrip(t *testing.T) {
	s, _, _ := newService(t, Limits{})
	one, two, three := rootfs(t, "one"), rootfs(t, "two"), rootfs(t, "three")
	a, b, c := configOf(t, "a", one, two), configOf(t, "b", one, two, three), configOf(t, "c", two, one, two)
	for name, layers := range map[string][][]byte{"a": {a, one, two}, "b": {b, one, two, three}, "c": {c, two, one, two}} {
		if _, err := load(t, s, pack(t, dockerArchive(t, []string{name + ":x"}, layers[0], layers[1:]...)...)); err != nil {
			t.Fatal(err)
		}
	}
	raw := save(t, s, "a", "b", "c")
	files := unpacked(t, raw)
	contents := map[string]int{}
	for name, content := range files {
		if strings.HasSuffix(name, "/layer.tar") && !strings.HasPrefix(content, "-> ") {
			contents[content]++
		}
	}
	if contents[string(one)] != 1 || contents[string(two)] != 1 || contents[string(three)] != 1 {
		t.Errorf("a layer that several images have is not written once: %d, %d, %d times",
			contents[string(one)], contents[string(two)], contents[string(three)])
	}
	says := "Loaded image: a:x\nLoaded image: b:x\nLoaded image: c:x\n"
	t.Run("manifest.json", func(t *testing.T) {
		other, _, _ := newService(t, Limits{})
		if got, err := load(t, other, raw); err != nil || got != says {
			t.Fatalf("Load = %v, says %q, want %q", err, got, says)
		}
		for name, config := range map[string][]byte{"a:x": a, "b:x": b, "c:x": c} {
			if img, err := other.Get(t.Context(), name); err != nil || img.ID != digest.FromBytes(config).String() {
				t.Errorf("Get(%s) = %+v, %v, want the id %s", name, img, err, digest.FromBytes(config))
			}
		}
		if again := save(t, other, "a", "b", "c"); !bytes.Equal(again, raw) {
			t.Error("what was loaded and saved again is not the same archive")
		}
		var told shown
		if err := other.Load(t.Context(), bytes.NewReader(raw), image.LoadOptions{}, told.progress); err != nil || told.said[0].Stream == "" {
			t.Errorf("layers that are there were read again: %+v, %v", told.said, err)
		}
	})
	t.Run("folders only", func(t *testing.T) {
		other, _, _ := newService(t, Limits{})
		old := pick(t, raw, func(name string) bool { return !strings.HasSuffix(name, ".json") })
		got, err := load(t, other, old)
		for want := range strings.SplitSeq(strings.TrimSpace(says), "\n") { // their order is that of the layers' ids
			if !strings.Contains(got, want) || err != nil {
				t.Fatalf("Load = %v, says %q, which lacks %q", err, got, want)
			}
		}
		for name, want := range map[string]string{"a:x": "a 2 step 1", "b:x": "b 3 step 2", "c:x": "c 3 step 2"} {
			img, err := other.Get(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			steps, _, err := other.store.History(t.Context(), img.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(img.Config.Cmd[0], " ", len(img.Layers), " ", steps[len(steps)-1].CreatedBy); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
			if got := img.Created.UTC().Format(time.RFC3339); got != "2023-11-14T22:13:20Z" {
				t.Errorf("%s was created at %s", name, got)
			}
		}
	})
	t.Run("folders without names", func(t *testing.T) {
		other, _, _ := newService(t, Limits{})
		bare := pick(t, raw, func(name string) bool { return !strings.HasSuffix(name, ".json") && name != nameRepositories })
		if got, err := load(t, other, bare); err != nil || strings.Count(got, "Loaded image ID: sha256:") != 3 {
			t.Errorf("Load = %v, says %q, want three ids", err, got)
		}
	})
}

// TestSaveForAPlatform: each image that the names lead to is held against it, those of a repository without the tag latest, too.
func TestSaveForAPlatform(t *testing.T) {
	s, _, _ := newService(t, Limits{})
	one := rootfs(t, "one")
	if _, err := load(t, s, pack(t, dockerArchive(t, []string{"a:1", "a:2"}, configOf(t, "x", one), one)...)); err != nil {
		t.Fatal(err)
	}
	img, err := s.Get(t.Context(), "a:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		platforms []string
		like      fault.Constructor // of the error; nil for none
	}{
		{[]string{img.Platform().String()}, nil},
		{[]string{img.Platform().String(), "linux/mips64"}, fault.NotFound},
		{[]string{"a/b/c/d"}, fault.Invalid},
	} {
		opened := false
		open := func() (io.Writer, error) { opened = true; return io.Discard, nil }
		err := s.Save(t.Context(), []string{"a"}, image.SaveOptions{Platforms: tc.platforms}, open)
		if (err == nil) != (tc.like == nil) || err != nil && !fault.Is(err, tc.like) || opened != (err == nil) {
			t.Errorf("Save for %q = %v, opened: %v", tc.platforms, err, opened)
		}
	}
}

func TestSaveChoosesNames(t *testing.T) {
	s, _, _ := newService(t, Limits{})
	one := rootfs(t, "one")
	config := configOf(t, "x", one)
	id := digest.FromBytes(config).String()
	if _, err := load(t, s, pack(t, dockerArchive(t, []string{"a:latest", "a:1", "h:5000/a:2"}, config, one)...)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ refs, tags string }{
		{"a:latest", "a:latest"},
		{"a", "a:1 a:latest"},
		{"docker.io/library/a", "a:1 a:latest"},
		{"a:1 " + id, "a:1"},
		{id, ""},
		{id[7:19], ""},
		{"h:5000/a:2 a:1", "h:5000/a:2 a:1"},
		{"h:5000/a", "h:5000/a:2"},
		{"a:1 a a:1", "a:1 a:latest"},
	} {
		files := unpacked(t, save(t, s, strings.Fields(tc.refs)...))
		var entries []archiveEntry
		if err := json.Unmarshal([]byte(files[nameManifest]), &entries); err != nil || len(entries) != 1 {
			t.Fatalf("%s: %s = %s, %v", tc.refs, nameManifest, files[nameManifest], err)
		}
		if got := strings.Join(entries[0].RepoTags, " "); got != tc.tags {
			t.Errorf("Save(%s) gives the names %q, want %q", tc.refs, got, tc.tags)
		}
		if _, there := files[nameRepositories]; there != (tc.tags != "") {
			t.Errorf("Save(%s): %s there: %v", tc.refs, nameRepositories, there)
		}
	}
	for _, refs := range [][]string{{"a:3"}, {"a", "none"}, {"none"}, {"A B"}, {}} {
		opened := false
		err := s.Save(t.Context(), refs, image.SaveOptions{}, func() (io.Writer, error) { opened = true; return io.Discard, nil })
		if fault.KindOf(err) != fault.KindNotFound && fault.KindOf(err) != fault.KindInvalid || opened {
			t.Errorf("Save(%v) = %v, opened: %v", refs, err, opened)
		}
	}
	boom := errors.New("boom")
	if err := s.Save(t.Context(), []string{"a"}, image.SaveOptions{}, func() (io.Writer, error) { return nil, boom }); !errors.Is(err, boom) {
		t.Errorf("Save with a broken open = %v", err)
	}
	if err := s.Save(t.Context(), []string{"a"}, image.SaveOptions{}, func() (io.Writer, error) { return brokenWriter{boom}, nil }); !errors.Is(err, boom) {
		t.Errorf("Save to a broken writer = %v", err)
	}
	if _, err := s.Remove(t.Context(), id, image.RemoveOptions{Force: true}); err != nil {
		t.Errorf("an image that was saved is still held: %v", err)
	}
}

// brokenWriter takes nothing.
type brokenWriter struct{ err error }

func (f brokenWriter) Write([]byte) (int, error) { return 0, f.err }

// TestSaveHolds checks that an image stays until it is saved.
func TestSaveHolds(t *testing.T) {
	s, _, _ := newService(t, Limits{})
	one := rootfs(t, "one")
	if _, err := load(t, s, pack(t, dockerArchive(t, []string{"a"}, configOf(t, "x", one), one)...)); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	err := s.Save(t.Context(), []string{"a"}, image.SaveOptions{}, func() (io.Writer, error) {
		if _, err := s.Remove(t.Context(), "a", image.RemoveOptions{Force: true}); !fault.Is(err, fault.Conflict) {
			t.Errorf("Remove while saving = %v, want a conflict", err)
		}
		return &buf, nil
	})
	if err != nil || len(unpacked(t, buf.Bytes())) == 0 {
		t.Errorf("Save = %v", err)
	}
	if _, err := s.Remove(t.Context(), "a", image.RemoveOptions{}); err != nil {
		t.Errorf("Remove = %v", err)
	}
}
