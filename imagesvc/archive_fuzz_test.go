package imagesvc

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/storage"
)

// FuzzArchiveIndex reads documents of an archive as anybody may write them. Whatever comes out can be put into a store.
func FuzzArchiveIndex(f *testing.F) {
	config := []byte(`{"os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:` + strings.Repeat("a", 64) + `"]}}`)
	f.Add([]byte(`[{"Config":"c.json","RepoTags":["a:1"],"Layers":["a/layer.tar"]}]`), config, []byte(`{"schemaVersion":2,"manifests":[]}`), []byte(`{"a":{"1":"a"}}`), []byte(`{"id":"a"}`))
	f.Add([]byte(`null`), config, []byte(`{"schemaVersion":2,"manifests":[{"digest":"sha256:x","mediaType":"`+typeOCIManifest+`"}]}`), []byte(`{}`), []byte(`{"parent":"a"}`))
	f.Fuzz(func(t *testing.T, manifest, config, index, repositories, record []byte) {
		for _, docs := range []map[string][]byte{
			{nameManifest: manifest, "c.json": config},
			{nameIndex: index, nameLayout: []byte(`{"imageLayoutVersion":"1.0.0"}`), "blobs/sha256/" + digest.FromBytes(config).Encoded(): config},
			{nameRepositories: repositories, "a/json": record, "b/json": config},
		} {
			l := newLoader(&Archives{}, func(error) {}, nil, true)
			l.docs = docs
			for _, name := range []string{"a/layer.tar", "b/layer.tar"} {
				l.layers[name] = &archiveLayer{name: name, diffID: digest.Digest("sha256:" + strings.Repeat("a", 64)), plain: 1}
			}
			images, err := l.checkedImages()
			if err != nil {
				if kind := fault.KindOf(err); kind != fault.KindInvalid && kind != fault.KindUnsupported && kind != fault.KindNotFound {
					t.Errorf("%q, %q, %q, %q, %q: %v has the kind %d", manifest, config, index, repositories, record, err, kind)
				}
				continue
			}
			for _, img := range images {
				if len(img.layers) != len(img.diffIDs) || !json.Valid(img.config) || !json.Valid(img.manifest.Raw) {
					t.Errorf("an image of %d layers and %d diff ids, config %q, manifest %q", len(img.layers), len(img.diffIDs), img.config, img.manifest.Raw)
				}
				for _, name := range img.names {
					if name.Tag() == "" || name.Digest() != "" {
						t.Errorf("the name %q", name.Canonical())
					}
				}
			}
		}
	})
}

// FuzzArchiveScan reads archives as anybody may write them, without a store.
func FuzzArchiveScan(f *testing.F) {
	one := rootfs(f, "one")
	f.Add(pack(f, dockerArchive(f, []string{"a"}, configOf(f, "x", one), one)...))
	f.Add(pack(f, archived{name: "a", link: "b"}, archived{name: "x.json", raw: []byte("[]")}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		l := newLoader(New(partsOf(noStore{}), Options{}).Archives, cancel, nil, true)
		if err := l.readArchive(ctx, bytes.NewReader(raw)); err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v is no bad request", err)
		}
		for name := range l.docs {
			if clean, err := entryName(name); err != nil || clean != name {
				t.Errorf("the document %q: %v", name, err)
			}
		}
	})
}

// noStore takes layers and forgets them.
type noStore struct{ Store }

func (noStore) Stage(_ context.Context, plain io.Reader, _ storage.Blob) (*storage.Staged, error) {
	_, err := io.Copy(io.Discard, plain)
	return &storage.Staged{}, err
}

func (noStore) Room(int64, int64) error { return nil }
