package imagesvc

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/image"
	"moss/storage"
)

// archived is one entry of an archive that a test makes.
type archived struct {
	name string
	raw  []byte
	link string // symbolic; with hard, a hard one
	hard bool
	kind byte // of another entry than a file
}

func pack(t testing.TB, entries ...archived) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: 0o644, Size: int64(len(e.raw))}
		switch {
		case e.kind != 0:
			h.Typeflag = e.kind
		case e.hard:
			h.Typeflag, h.Linkname = tar.TypeLink, e.link
		case e.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func toJSON(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// configOf makes the config of an image of layers.
func configOf(t testing.TB, word string, layers ...[]byte) []byte {
	t.Helper()
	diffIDs := make([]string, 0, len(layers))
	history := make([]storage.History, 0, len(layers))
	for i, layer := range layers {
		diffIDs = append(diffIDs, digest.FromBytes(layer).String())
		history = append(history, storage.History{CreatedBy: fmt.Sprintf("step %d", i)})
	}
	return toJSON(t, map[string]any{
		"architecture": "amd64", "os": "linux", "created": "2023-11-14T22:13:20Z",
		"config": map[string]any{"Cmd": []string{word}}, "history": history,
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs},
	})
}

// dockerArchive makes the archive of an image as clients write it: layers first.
func dockerArchive(t testing.TB, tags []string, config []byte, layers ...[]byte) []archived {
	t.Helper()
	var entries []archived
	entry := archiveEntry{Config: digest.FromBytes(config).Encoded() + ".json", RepoTags: tags}
	for i, layer := range layers {
		name := fmt.Sprintf("%064d", i)
		entries = append(entries, archived{name: name + "/"}, archived{name: name + "/VERSION", raw: []byte("1.0")},
			archived{name: name + "/layer.tar", raw: layer})
		entry.Layers = append(entry.Layers, name+"/layer.tar")
	}
	return append(entries, archived{name: entry.Config, raw: config},
		archived{name: "manifest.json", raw: toJSON(t, []archiveEntry{entry})})
}

// ociArchive makes an OCI layout of one image, its layers compressed by open (nil: not).
func ociArchive(t testing.TB, name string, config []byte, open func(io.Writer) (io.WriteCloser, error), kind string, layers ...[]byte) []archived {
	t.Helper()
	var entries []archived
	blob := func(mediaType string, raw []byte) descriptor {
		d := descriptor{MediaType: mediaType, Size: int64(len(raw)), Digest: digest.FromBytes(raw)}
		entries = append(entries, archived{name: blobName(d), raw: raw})
		return d
	}
	m := map[string]any{"schemaVersion": 2, "mediaType": typeOCIManifest, "config": blob(typeOCIConfig, config)}
	descs := make([]descriptor, 0, len(layers))
	for _, layer := range layers {
		if open != nil {
			layer = compressed(t, layer, open)
		}
		descs = append(descs, blob(kind, layer))
	}
	m["layers"] = descs
	top := blob(typeOCIManifest, toJSON(t, m))
	if name != "" {
		top.Annotations = map[string]string{annotationRefName: name}
	}
	return append(entries, archived{name: nameLayout, raw: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		archived{name: nameIndex, raw: toJSON(t, map[string]any{"schemaVersion": 2, "manifests": []descriptor{top}})})
}

// shown keeps what a load told.
type shown struct{ said []image.Progress }

func (s *shown) progress(p image.Progress) { s.said = append(s.said, p) }

// streams returns the lines that a client sees in any case.
func (s *shown) streams() string {
	var lines strings.Builder
	for _, p := range s.said {
		lines.WriteString(p.Stream)
	}
	return lines.String()
}

func load(t testing.TB, s *Service, raw []byte) (string, error) {
	t.Helper()
	var told shown
	err := s.Load(t.Context(), bytes.NewReader(raw), image.LoadOptions{}, told.progress)
	return told.streams(), err
}

func save(t testing.TB, s *Service, refs ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := s.Save(t.Context(), refs, image.SaveOptions{}, func() (io.Writer, error) { return &buf, nil }); err != nil {
		t.Fatalf("Save(%v): %v", refs, err)
	}
	return buf.Bytes()
}

// unpacked returns the files of an archive by name; links have their target after "-> ".
func unpacked(t testing.TB, raw []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	in := tar.NewReader(bytes.NewReader(raw))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := files[h.Name]; ok {
			t.Errorf("entry %s comes twice", h.Name)
		}
		files[h.Name] = string(content)
		if h.Linkname != "" {
			files[h.Name] = "-> " + h.Linkname
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("entry %s belongs to %d:%d %s", h.Name, h.Uid, h.Gid, h.Uname)
		}
	}
}

// nothingStaged fails if a layer lies in the store that belongs to nothing.
func nothingStaged(t testing.TB, st *storage.Store) {
	t.Helper()
	for _, dir := range []string{"overlay/staging", "moss-staged"} {
		left, err := os.ReadDir(filepath.Join(st.Root(), dir))
		if err == nil && len(left) > 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
}

func layerCount(t testing.TB, st *storage.Store) int {
	t.Helper()
	all, err := st.Library().Layers()
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
