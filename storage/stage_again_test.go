package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/opencontainers/go-digest"
)

func TestStageAgain(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		plain := tarball(t, map[string]string{"etc/": "", "etc/a": "some content", "b": ""})
		diffID := digest.FromBytes(plain)
		first, err := s.Stage(t.Context(), bytes.NewReader(plain), Blob{Size: -1})
		if err != nil {
			t.Fatal(err)
		}
		second, err := s.StageAgain(t.Context(), first)
		if err != nil || second.DiffID() != diffID || second.Size() != first.Size() {
			t.Fatalf("StageAgain = %+v, %v", second, err)
		}
		config, err := json.Marshal(imageJSON{OS: "linux", RootFS: rootFS{Type: "layers", DiffIDs: []digest.Digest{diffID, diffID}}})
		if err != nil {
			t.Fatal(err)
		}
		img, err := s.PutPulled(t.Context(), Pulled{
			Config: config, Manifest: Document{MediaType: mediaTypeManifest, Raw: []byte(`{"schemaVersion":2}`)},
			DiffIDs: []digest.Digest{diffID, diffID}, Layers: []*Staged{first, second},
		})
		if err != nil || len(img.Layers) != 2 {
			t.Errorf("PutPulled = %+v, %v", img, err)
		}
		if again, err := s.StageAgain(t.Context(), first); !errors.Is(err, ErrLayersGone) {
			t.Errorf("StageAgain of a spent layer = %v, %v", again, err)
		}
	})
}
