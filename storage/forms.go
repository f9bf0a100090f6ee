package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	cstorage "go.podman.io/storage"
)

// formsKey names what is kept with a layer: the digests of the compressed forms that were made of it here.
const formsKey = "moss-forms"

const (
	maxForms     = 16       // of one layer; the oldest go
	maxFormsFile = 64 << 10 // bytes
)

// NoteForms keeps the digests of compressed forms that the caller has made of an image's layers, one for each layer, lowest
// first; an empty one says nothing. Manifests from outside are believed about a layer only where its own blob has been
// unpacked here: anybody can write a manifest that names some other blob for a layer that many images have.
//
// Errors are fault.NotFound or internal.
func (s *Store) NoteForms(ctx context.Context, imageID string, made []digest.Digest) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("note forms of image %s: %w", imageID, err)
	}
	s.images.Lock()
	defer s.images.Unlock()
	cfg, err := s.soundConfig(bareID(imageID))
	if err != nil {
		return err
	}
	chain, err := s.layerChain(cfg.topLayer)
	if err != nil {
		return fmt.Errorf("note forms of image %s: %w", imageID, err)
	}
	slices.Reverse(chain)
	for i, form := range made[:min(len(made), len(chain))] {
		if form == "" {
			continue
		}
		layer, err := s.cs.Layer(chain[i])
		if err != nil {
			return wrapError(err, "note a form of layer %s", chain[i])
		}
		forms := s.readForms(layer)
		if slices.Contains(forms, form) {
			continue
		}
		forms = append(forms, form)
		raw, err := json.Marshal(forms[max(0, len(forms)-maxForms):])
		if err == nil {
			err = s.cs.SetLayerBigData(layer.ID, formsKey, bytes.NewReader(raw))
		}
		if err != nil {
			return wrapError(err, "note a form of layer %s", layer.ID)
		}
	}
	return nil
}

// readForms returns what NoteForms has kept with a layer. What cannot be read is none.
func (t *layerTree) readForms(layer *cstorage.Layer) []digest.Digest {
	if !slices.Contains(layer.BigDataNames, formsKey) {
		return nil
	}
	file, err := t.cs.LayerBigData(layer.ID, formsKey)
	if err != nil {
		return nil
	}
	defer file.Close() //nolint:errcheck // opened for reading
	var forms []digest.Digest
	if json.NewDecoder(io.LimitReader(file, maxFormsFile)).Decode(&forms) != nil {
		return nil
	}
	return forms
}

// provenForms returns the blobs of layers with some content that are sure to unpack to it: those that were unpacked here, and
// those that were made here.
func (t *layerTree) provenForms(diffIDs []digest.Digest) map[digest.Digest][]digest.Digest {
	proven := make(map[digest.Digest][]digest.Digest, len(diffIDs))
	for _, diffID := range diffIDs {
		if _, done := proven[diffID]; done {
			continue
		}
		proven[diffID] = nil
		layers, err := t.cs.LayersByUncompressedDigest(diffID)
		if err != nil {
			continue // they have gone
		}
		for i := range layers {
			proven[diffID] = append(append(proven[diffID], layers[i].CompressedDigest), t.readForms(&layers[i])...)
		}
	}
	return proven
}
