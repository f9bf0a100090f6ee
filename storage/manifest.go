package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	cstorage "go.podman.io/storage"

	"moss/engine/fault"
	"moss/engine/image"
)

// maxManifest bounds a manifest or an index, in bytes.
const maxManifest = 4 << 20

// AddManifest keeps one more manifest with an image, byte for byte: that by which a registry has it now. names are added to
// the image's, taken from the images that had them. The same manifest once more is no error.
//
// Errors are fault.NotFound (no such image), fault.Invalid (a bad name, a manifest too large) or internal.
func (s *Store) AddManifest(ctx context.Context, imageID string, doc Document, names []string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("add a manifest to image %s: %w", imageID, err)
	}
	if len(doc.Raw) == 0 || len(doc.Raw) > maxManifest {
		return fault.Invalid("a manifest has %d bytes, want 1 to %d", len(doc.Raw), maxManifest)
	}
	canonical, err := canonicalNames(names)
	if err != nil {
		return err
	}
	bare := bareID(imageID)
	s.images.Lock()
	defer s.images.Unlock()
	if _, err := s.soundConfig(bare); err != nil {
		return err
	}
	if err := s.promoteStep(bare, nil); err != nil {
		return err
	}
	sum := digest.FromBytes(doc.Raw)
	key := cstorage.ImageDigestManifestBigDataNamePrefix + "-" + sum.String()
	err = s.addDocument(bare, key, doc.Raw, sum)
	if errors.Is(err, cstorage.ErrImageUnknown) {
		return image.NoSuch(imageID)
	}
	if err != nil {
		return wrapError(err, "add a manifest to image %s", imageID)
	}
	if len(canonical) == 0 {
		return nil
	}
	return wrapError(s.addNames(bare, canonical), "name image %s", imageID)
}
