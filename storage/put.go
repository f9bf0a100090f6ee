package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	cstorage "go.podman.io/storage"
	"golang.org/x/sys/unix"

	"moss/engine/image"
)

// PutImage makes an image from a layer and gives it names, taking these from the images that had them. layer is an
// uncompressed tar archive that the caller has checked; nil makes an image without a layer of its own. It is read to its
// end, unless an error comes first.
//
// It is all or nothing: after an error, of layer or of ctx too, nothing is left. Errors are fault.Invalid (a bad name),
// fault.NotFound (no such base) or internal; an error of layer is in the chain.
func (s *Store) PutImage(ctx context.Context, layer io.Reader, spec ImageSpec, names []string) (*image.Image, error) {
	canonical, err := canonicalNames(names)
	if err != nil {
		return nil, err
	}
	if spec.Created.IsZero() {
		spec.Created = time.Now()
	}
	spec.Created = spec.Created.UTC()
	var base *configCache
	parent := ""
	if spec.Base != "" {
		if base, err = s.config(bareID(spec.Base)); err != nil {
			return nil, err
		}
		parent = base.topLayer
	}
	top := parent
	var added *cstorage.Layer
	if layer != nil {
		if added, err = s.putLayer(ctx, parent, layer); err != nil {
			return nil, err
		}
		top = added.ID
	}
	s.images.Lock()
	defer s.images.Unlock()
	record, err := s.putRecord(spec, base, added, &top, canonical)
	if err != nil {
		if added != nil {
			err = errors.Join(err, s.dropLayer(added.ID))
		}
		return nil, err
	}
	return s.assemble(record)
}

func canonicalNames(names []string) ([]string, error) {
	canonical := make([]string, 0, len(names))
	for _, name := range names {
		ref, err := image.ParseRef(name)
		if err != nil {
			return nil, err
		}
		canonical = append(canonical, ref.WithoutTag().Canonical())
	}
	return canonical, nil
}

// putLayer unpacks a layer. Records are synced by the library; the files are synced here, so that an image that is there
// after a power cut is whole.
func (s *Store) putLayer(ctx context.Context, parent string, layer io.Reader) (*cstorage.Layer, error) {
	src := &watched{ctx: ctx, src: layer}
	added, _, err := s.cs.PutLayer("", parent, nil, "", false, nil, src)
	if cause := src.err; cause != nil {
		// The library's own words tell of the pipe to its helper; the cause is what happened to the archive.
		if err == nil {
			err = s.dropLayer(added.ID)
		} else {
			err = nil
		}
		return nil, errors.Join(cause, err)
	}
	if err != nil {
		return nil, wrap(err, "unpack layer")
	}
	if err := s.sync(); err != nil {
		return nil, errors.Join(err, s.dropLayer(added.ID))
	}
	return added, nil
}

// watched remembers the error of the reader below it, since the library words it anew, and ends with ctx.
type watched struct {
	ctx context.Context //nolint:containedctx // io.Reader has no other way to take one
	src io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if err := w.ctx.Err(); err != nil {
		w.err = fmt.Errorf("unpack layer: %w", err)
		return 0, w.err
	}
	n, err := w.src.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

func (s *Store) sync() error {
	dir, err := os.Open(s.root)
	if err != nil {
		return fmt.Errorf("sync storage: %w", err)
	}
	defer dir.Close() //nolint:errcheck // opened for reading
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return wrap(err, "sync storage")
	}
	return nil
}

// dropLayer removes a layer that became part of nothing.
func (s *Store) dropLayer(layerID string) error {
	err := s.cs.DeleteLayer(layerID)
	if err == nil || errors.Is(err, cstorage.ErrNotALayer) || errors.Is(err, cstorage.ErrLayerUnknown) ||
		errors.Is(err, cstorage.ErrLayerHasChildren) || errors.Is(err, cstorage.ErrLayerUsedByImage) {
		return nil
	}
	return wrap(err, "remove layer %s", layerID)
}

// putRecord makes the record of an image over the layer *top. It gives the added layer up for an equal one that is there
// already. It is called with s.images held.
func (s *Store) putRecord(spec ImageSpec, base *configCache, added *cstorage.Layer, top *string, names []string) (*cstorage.Image, error) {
	var diffIDs []digest.Digest
	var sizes []int64
	if base != nil {
		diffIDs, sizes = slices.Clone(base.diffIDs), slices.Clone(base.sizes)
	}
	if added != nil {
		diffIDs, sizes = append(diffIDs, added.UncompressedDigest), append(sizes, added.UncompressedSize)
		if twin := s.twin(added); twin != "" {
			if err := s.dropLayer(added.ID); err != nil {
				return nil, err
			}
			*top = twin
		}
	}
	docs, err := render(spec, base, diffIDs, sizes)
	if err != nil {
		return nil, err
	}
	bare := docs.configDigest.Encoded()
	known, err := s.createRecord(spec, docs, *top)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		if err := s.cs.AddNames(bare, names); err != nil {
			err = wrap(err, "name image")
			if !known {
				_, undo := s.cs.DeleteImage(bare, true)
				err = errors.Join(err, undo)
			}
			return nil, err
		}
	}
	s.adoptLayers(*top)
	record, err := s.cs.Image(bare)
	if err != nil {
		return nil, wrap(err, "read back image")
	}
	return record, nil
}

// createRecord stores an image's documents as the library's transport finds them. The same image once more is known.
func (s *Store) createRecord(spec ImageSpec, docs documents, top string) (known bool, err error) {
	flags := map[string]any{}
	if spec.Base != "" {
		flags[parentFlag] = "sha256:" + bareID(spec.Base)
	}
	_, err = s.cs.CreateImage(docs.configDigest.Encoded(), nil, top, "", &cstorage.ImageOptions{
		CreationDate: spec.Created,
		Digest:       docs.manifestDigest,
		Flags:        flags,
		BigData: []cstorage.ImageBigDataOption{
			{Key: docs.configDigest.String(), Data: docs.config, Digest: docs.configDigest},
			{Key: cstorage.ImageDigestBigDataKey, Data: docs.manifest, Digest: docs.manifestDigest},
			{
				Key:    cstorage.ImageDigestManifestBigDataNamePrefix + "-" + docs.manifestDigest.String(),
				Data:   docs.manifest,
				Digest: docs.manifestDigest,
			},
		},
	})
	if errors.Is(err, cstorage.ErrDuplicateID) {
		return true, nil
	}
	return false, wrap(err, "record image")
}

// twin returns another layer with the same content over the same parent, nothing if there is none.
func (s *Store) twin(added *cstorage.Layer) string {
	layers, err := s.cs.LayersByUncompressedDigest(added.UncompressedDigest)
	if err != nil {
		return "" // a layer of our own is right in any case
	}
	for i := range layers {
		if l := &layers[i]; l.ID != added.ID && l.Parent == added.Parent && !isContainer(l) {
			return l.ID
		}
	}
	return ""
}

// Tag gives an image another name, taking it from the image that had it.
//
// Errors are fault.NotFound, fault.Invalid (a bad name) or internal.
func (s *Store) Tag(ctx context.Context, imageID, name string) error {
	ref, err := s.nameForChange(ctx, name)
	if err != nil {
		return err
	}
	s.images.Lock()
	defer s.images.Unlock()
	if _, err := s.config(bareID(imageID)); err != nil {
		return err
	}
	return wrap(s.cs.AddNames(bareID(imageID), []string{ref.Canonical()}), "name image %s", imageID)
}

// Untag takes a name from an image. A name that the image does not have is no error.
//
// Errors are fault.NotFound (no such image), fault.Invalid (a bad name) or internal.
func (s *Store) Untag(ctx context.Context, imageID, name string) error {
	ref, err := s.nameForChange(ctx, name)
	if err != nil {
		return err
	}
	s.images.Lock()
	defer s.images.Unlock()
	if _, err := s.config(bareID(imageID)); err != nil {
		return err
	}
	return wrap(s.cs.RemoveNames(bareID(imageID), []string{ref.Canonical()}), "take name from image %s", imageID)
}

func (s *Store) nameForChange(ctx context.Context, name string) (image.Ref, error) {
	if err := ctx.Err(); err != nil {
		return image.Ref{}, fmt.Errorf("name %s: %w", name, err)
	}
	ref, err := image.ParseRef(name)
	if err != nil {
		return image.Ref{}, err
	}
	return ref.WithoutTag(), nil
}
