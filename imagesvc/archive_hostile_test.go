package imagesvc

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
)

// with returns entries with one changed by its name; nil removes it.
func with(entries []archived, name string, raw []byte) []archived {
	entries = slices.Clone(entries)
	at := slices.IndexFunc(entries, func(e archived) bool { return e.name == name })
	if at < 0 {
		return append(entries, archived{name: name, raw: raw})
	}
	if raw == nil {
		return slices.Delete(entries, at, at+1)
	}
	entries[at].raw = raw
	return entries
}

func TestLoadRefuses(t *testing.T) {
	one, two := rootfs(t, "one"), rootfs(t, "two")
	config := configOf(t, "x", one, two)
	configName := digest.FromBytes(config).Encoded() + ".json"
	docker := dockerArchive(t, []string{"a:1"}, config, one, two)
	oci := ociArchive(t, "a:1", config, toGzip, typeOCILayer+"+gzip", one, two)
	first := fmt.Sprintf("%064d", 0)
	manifest := func(e ...archiveEntry) []byte { return toJSON(t, e) }
	names := []string{first + "/layer.tar", fmt.Sprintf("%064d/layer.tar", 1)}
	add := func(e ...archived) []byte { return pack(t, append(slices.Clone(docker), e...)...) }
	escaping := archive(t, file("../../etc/passwd", 3))
	bombLayer := compressed(t, archive(t, file("zeros", 64<<20)), toZstd)
	blobAt := func(kind string) int {
		return slices.IndexFunc(oci, func(e archived) bool {
			return strings.HasPrefix(e.name, "blobs/") && strings.Contains(string(e.raw), kind)
		})
	}
	wrongBlob := slices.Clone(oci)
	for i := range wrongBlob {
		if bytes.HasPrefix(wrongBlob[i].raw, []byte{0x1f, 0x8b}) {
			wrongBlob[i].raw = compressed(t, rootfs(t, "evil"), toGzip)
			break
		}
	}
	for _, tc := range []struct {
		name string
		raw  []byte
		says string
	}{
		{"nothing", nil, "empty"},
		{"no archive", bytes.Repeat([]byte("no archive"), 1000), "not a tar archive"},
		{"an empty archive", pack(t), "empty"},
		{"a root file system", one, "holds no images"},
		{"an unknown form", pack(t, archived{name: "hello", raw: []byte("x")}), "holds no images"},
		{"a broken manifest", pack(t, with(docker, nameManifest, []byte("{"))...), nameManifest},
		{"no images", pack(t, with(docker, nameManifest, []byte("[]"))...), "0 images"},
		{"no config", pack(t, with(docker, configName, nil)...), "no config"},
		{"another config", pack(t, with(docker, configName, configOf(t, "y", one, two))...), "digest of its name"},
		{"config of another system", pack(t, dockerArchive(t, nil, bytes.Replace(config, []byte(`"linux"`), []byte(`"windows"`), 1), one, two)...), "windows"},
		{"config without layers", pack(t, dockerArchive(t, nil, []byte(`{"os":"linux"}`), one)...), "rootfs"},
		{"fewer layers", pack(t, with(docker, nameManifest, manifest(archiveEntry{configName, nil, names[:1]}))...), "layers"},
		{"a missing layer", pack(t, with(docker, names[1], nil)...), "no layer"},
		{"another layer", pack(t, with(docker, names[0], rootfs(t, "evil"))...), "digest"},
		{"layers the wrong way round", pack(t, with(docker, nameManifest, manifest(archiveEntry{configName, nil, []string{names[1], names[0]}}))...), "digest"},
		{"a layer that leads out", pack(t, dockerArchive(t, nil, configOf(t, "x", escaping), escaping)...), "leads out"},
		{"a layer that is no archive", pack(t, dockerArchive(t, nil, configOf(t, "x", []byte("hello")), []byte("hello"))...), "layer"},
		{"an empty layer file that claims to be no archive", pack(t, dockerArchive(t, nil, configOf(t, "x", nil), nil)...), "has the digest"},
		{"a bomb", pack(t, dockerArchive(t, nil, configOf(t, "x", bombLayer), bombLayer)...), "times its size"},
		{"a bomb outside", compressed(t, pack(t, archived{name: "zeros", raw: make([]byte, 64<<20)}), toZstd), "times its size"},
		{"a bad name", pack(t, dockerArchive(t, []string{"A B"}, config, one, two)...), "invalid reference"},
		{"a name like an id", pack(t, dockerArchive(t, []string{"sha256:abc"}, config, one, two)...), "ambiguous"},
		{"a name by digest", pack(t, dockerArchive(t, []string{"a@" + digest.FromString("x").String()}, config, one, two)...), "digest"},
		{"a name outside", add(archived{name: "../x", raw: []byte("x")}), "leads out"},
		{"an absolute name", add(archived{name: "/etc/x", raw: []byte("x")}), "leads out"},
		{"a link outside", add(archived{name: "x", link: "../../etc/passwd"}), "leads out"},
		{"an absolute link", add(archived{name: "x", link: "/etc/passwd"}), "leads out"},
		{"a hard link outside", add(archived{name: "x", link: "../x", hard: true}), "leads out"},
		{"a device", add(archived{name: "x", kind: tar.TypeChar}), "type"},
		{"a pipe", add(archived{name: "x", kind: tar.TypeFifo}), "type"},
		{"a document twice", add(archived{name: nameManifest, raw: []byte("[]")}), "more than one"},
		{"a link twice", add(archived{name: "x", link: "a"}, archived{name: "x", link: "b"}), "more than one"},
		{"a huge document", add(archived{name: "x.json", raw: make([]byte, maxDocument+1)}), "more than"},
		{"too many documents", add(manyDocuments()...), "documents"},
		{"links in a circle", pack(t, slices.Concat(
			[]archived{{name: "a", link: "b"}, {name: "b", link: "a"}},
			with(docker, nameManifest, manifest(archiveEntry{configName, nil, []string{"a", "b"}})))...), "no layer"},
		{"manifest.json leads out", pack(t, with(docker, nameManifest, manifest(archiveEntry{"../" + configName, nil, names}))...), "leads out"},
		{"oci: a blob of another digest", pack(t, wrongBlob...), "does not have the digest"},
		{"oci: no layout", pack(t, with(oci, nameLayout, nil)...), nameLayout},
		{"oci: another version", pack(t, with(oci, nameLayout, []byte(`{"imageLayoutVersion":"2.0.0"}`))...), "1.0.0"},
		{"oci: a broken index", pack(t, with(oci, nameIndex, []byte(`{"schemaVersion":2,"manifests":[{"digest":"sha256:../../x"}]}`))...), nameIndex},
		{"oci: no images", pack(t, with(oci, nameIndex, []byte(`{"schemaVersion":2,"manifests":[]}`))...), "does not name"},
		{"oci: no manifest", pack(t, slices.Delete(slices.Clone(oci), blobAt(typeOCIConfig), blobAt(typeOCIConfig)+1)...), "no blob"},
		{"oci: another config", pack(t, with(oci, oci[0].name, configOf(t, "y", one, two))...), "digest"},
		{"folders: a missing parent", pack(t,
			archived{name: "a/json", raw: []byte(`{"id":"a","parent":"b"}`)}, archived{name: "a/layer.tar", raw: one},
			archived{name: nameRepositories, raw: []byte(`{"r":{"t":"a"}}`)}), "no layer"},
		{"folders: parents in a circle", pack(t,
			archived{name: "a/json", raw: []byte(`{"id":"a","parent":"b"}`)}, archived{name: "a/layer.tar", raw: one},
			archived{name: "b/json", raw: []byte(`{"id":"b","parent":"a"}`)}, archived{name: "b/layer.tar", raw: two},
			archived{name: nameRepositories, raw: []byte(`{"r":{"t":"a"}}`)}), "more than"},
		{"folders: no layer", pack(t, archived{name: "a/json", raw: []byte(`{"id":"a"}`)}), "no layer"},
		{"folders: a bad name", pack(t, archived{name: "a/json", raw: []byte(`{"id":"a"}`)}, archived{name: "a/layer.tar", raw: one},
			archived{name: nameRepositories, raw: []byte(`{"A B":{"t":"a"}}`)}), "invalid reference"},
		{"folders: a broken record", pack(t, archived{name: "a/json", raw: []byte(`{"id":`)}, archived{name: "a/layer.tar", raw: one}), "a/json"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, st, events := newService(t, Limits{Free: 48 << 20, Ratio: 100})
			says, err := load(t, s, tc.raw)
			kind := fault.KindOf(err)
			if err == nil || kind != fault.KindInvalid && kind != fault.KindUnsupported || !strings.Contains(err.Error(), tc.says) || says != "" {
				t.Errorf("Load = %v (kind %d), says %q, want a bad request with %q", err, kind, says, tc.says)
			}
			if got := layerCount(t, st); got != 0 || events.take() != "" {
				t.Errorf("%d layers and events are left", got)
			}
			nothingStaged(t, st)
		})
	}
}

func manyDocuments() []archived {
	many := make([]archived, 0, 5)
	for i := range cap(many) {
		many = append(many, archived{name: fmt.Sprintf("%d.json", i), raw: append([]byte(`"`), append(bytes.Repeat([]byte("x"), 7<<20), '"')...)})
	}
	return many
}

// TestLoadTruncated cuts archives at many places: nothing may be left, and no message may say that something was loaded.
func TestLoadTruncated(t *testing.T) {
	one, two := rootfs(t, "one"), rootfs(t, strings.Repeat("two", 3000))
	config := configOf(t, "x", one, two)
	s, st, _ := newService(t, Limits{})
	for name, raw := range map[string][]byte{
		"docker": pack(t, dockerArchive(t, []string{"a:1"}, config, one, two)...),
		"oci":    pack(t, ociArchive(t, "a:1", config, toGzip, typeOCILayer+"+gzip", one, two)...),
		"gzip":   compressed(t, pack(t, dockerArchive(t, []string{"a:1"}, config, one, two)...), toGzip),
	} {
		step := max(len(raw)/40, 1)
		for at := 0; at < len(raw)-3*blockSize; at += step + at%7 {
			says, err := load(t, s, raw[:at])
			if name != "gzip" && at > len(raw)-2*blockSize {
				continue // all entries are there
			}
			if err == nil || says != "" {
				t.Fatalf("%s cut at %d of %d: Load = %v, says %q", name, at, len(raw), err, says)
			}
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%s cut at %d: %v is no bad request", name, at, err)
			}
		}
	}
	if got := layerCount(t, st); got != 0 {
		t.Errorf("%d layers are left", got)
	}
	nothingStaged(t, st)
}

func TestLoadEndsWithItsSource(t *testing.T) {
	content := make([]byte, 4<<20)
	_, _ = rand.Read(content)
	layer := rootfs(t, string(content))
	raw := pack(t, dockerArchive(t, []string{"a:1"}, configOf(t, "x", layer), layer)...)
	s, st, _ := newService(t, Limits{})
	boom := errors.New("boom")
	for _, at := range []int{10, 3000, 1 << 20, len(raw) - 3000} {
		err := s.Load(t.Context(), io.MultiReader(bytes.NewReader(raw[:at]), iotest.ErrReader(boom)), image.LoadOptions{Quiet: true}, nil)
		if !errors.Is(err, boom) {
			t.Errorf("an error at %d: Load = %v, want it", at, err)
		}
		nothingStaged(t, st)
	}
	ctx, cancel := context.WithCancel(t.Context())
	src := io.MultiReader(bytes.NewReader(raw[:2<<20]), readerFunc(func([]byte) (int, error) { cancel(); return 0, boom }))
	if err := s.Load(ctx, src, image.LoadOptions{Quiet: true}, nil); !errors.Is(err, context.Canceled) && !errors.Is(err, boom) {
		t.Errorf("a client that goes: Load = %v", err)
	}
	nothingStaged(t, st)
	if got := layerCount(t, st); got != 0 {
		t.Errorf("%d layers are left", got)
	}
	before := runtime.NumGoroutine()
	if _, err := load(t, s, raw); err != nil {
		t.Errorf("after that: %v", err)
	}
	if after := runtime.NumGoroutine(); after > before+2 {
		t.Errorf("%d goroutines became %d", before, after)
	}
}

// TestLoadTwice has two clients load the same archive at the same time, and a third one save and remove it.
func TestLoadTwice(t *testing.T) {
	content := make([]byte, 1<<20)
	_, _ = rand.Read(content)
	one, two := rootfs(t, string(content)), rootfs(t, "two")
	raw := pack(t, dockerArchive(t, []string{"a:1"}, configOf(t, "x", one, two), one, two)...)
	s, st, _ := newService(t, Limits{})
	for range 10 {
		var clients sync.WaitGroup
		for range 2 {
			clients.Go(func() {
				if err := s.Load(t.Context(), bytes.NewReader(raw), image.LoadOptions{Quiet: true}, nil); err != nil {
					t.Errorf("Load = %v", err)
				}
			})
		}
		clients.Go(func() {
			var buf bytes.Buffer
			err := s.Save(t.Context(), []string{"a:1"}, image.SaveOptions{}, func() (io.Writer, error) { return &buf, nil })
			if err == nil {
				unpacked(t, buf.Bytes())
			} else if !fault.Is(err, fault.NotFound) {
				t.Errorf("Save = %v", err)
			}
		})
		clients.Wait()
		if got := layerCount(t, st); got != 2 {
			t.Errorf("%d layers, want 2", got)
		}
		if _, err := s.Remove(t.Context(), "a:1", image.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	nothingStaged(t, st)
}
