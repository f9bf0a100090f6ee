package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	cstorage "go.podman.io/storage"

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
	spec.ensureCreated()
	var staged *Staged
	if layer != nil {
		if staged, err = s.Stage(ctx, layer, Blob{Size: -1}); err != nil {
			return nil, err
		}
	}
	img, err := s.putStaged(staged, spec, canonical)
	if staged != nil {
		err = errors.Join(err, staged.Discard())
	}
	if err != nil {
		return nil, err
	}
	return img, nil
}

// putStaged makes an image of a staged layer, or of none, on top of its base.
func (s *Store) putStaged(staged *Staged, spec ImageSpec, names []string) (*image.Image, error) {
	s.images.Lock()
	defer s.images.Unlock()
	var base *configCache
	var diffIDs []digest.Digest
	var sizes []int64
	top := ""
	if spec.Base != "" {
		var err error
		if base, err = s.soundConfig(bareID(spec.Base)); err != nil {
			return nil, err
		}
		top, diffIDs, sizes = base.topLayer, slices.Clone(base.diffIDs), slices.Clone(base.sizes)
	}
	put := &putting{store: s, light: spec.Step != "" && len(names) == 0}
	if staged != nil {
		diffIDs, sizes = append(diffIDs, staged.diffID), append(sizes, staged.plain)
		here, highest := s.findHighestLayer(diffIDs)
		if here == len(diffIDs) {
			top = highest
		} else {
			if err := put.listLayers(chainIDs(diffIDs)[len(diffIDs)-1:]); err != nil {
				return nil, err
			}
			var err error
			if top, err = put.applyLayer(staged, top); err != nil {
				return nil, put.undo(wrapError(err, "put layer"))
			}
		}
	}
	docs, err := renderDocuments(spec, base, diffIDs, sizes)
	if err != nil {
		return nil, put.undo(err)
	}
	img, err := s.putDocuments(docs, spec, top, names)
	if err != nil {
		return nil, put.undo(err)
	}
	put.commitLayers()
	return img, nil
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

// watched remembers the error of the reader below it, since the library words it anew, and ends with ctx.
type watched struct {
	ctx context.Context //nolint:containedctx // io.Reader has no other way to take one
	src io.Reader

	what string // is done, for the error of ctx; empty: unpack layer
	err  error
}

func (w *watched) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if err := w.ctx.Err(); err != nil {
		w.err = fmt.Errorf("%s: %w", cmp.Or(w.what, "unpack layer"), err)
		return 0, w.err
	}
	n, err := w.src.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// putRecord makes the record of an image over a layer, as the library's transport would find it, and gives it names. An
// image that is there already gets the documents that it lacks. It is called with s.images held.
func (s *Store) putRecord(
	docs documents, created time.Time, flags map[string]any, top string, names []string,
) (*cstorage.Image, error) {
	bare := docs.configDigest.Encoded()
	if len(names) > 0 {
		flags[namedFlag] = true // a name is to follow
	}
	step := s.lightStep(bare)
	if step != nil {
		flags[stepFlag] = step.Key
		if flags[parentFlag] == nil && step.Parent != "" {
			flags[parentFlag] = step.Parent
		}
	}
	if err := s.flusher.syncSteps(); err != nil { // it may stand on layers of steps
		return nil, err
	}
	known, err := s.createRecord(docs, created, flags, top)
	if err != nil {
		return nil, err
	}
	var record *cstorage.Image
	if len(names) > 0 {
		err = wrapError(s.addNames(bare, names), "name image")
	}
	if err == nil {
		record, err = s.cs.Image(bare)
		err = wrapError(err, "read back image")
	}
	if err != nil {
		if !known {
			err = errors.Join(err, s.dropFromLibrary(bare))
		}
		return nil, err
	}
	s.flusher.markImage(bare)
	s.adoptLayers(top)
	if step != nil {
		err = s.dropStep(bare) // what is left of it goes with the next start
	}
	return record, err
}

// createRecord stores an image's documents. The same image once more is known.
func (c *catalog) createRecord(docs documents, created time.Time, flags map[string]any, top string) (known bool, err error) {
	const more = cstorage.ImageDigestManifestBigDataNamePrefix + "-"
	data := []cstorage.ImageBigDataOption{
		{Key: docs.configDigest.String(), Data: docs.config, Digest: docs.configDigest},
		{Key: more + docs.manifestDigest.String(), Data: docs.manifest, Digest: docs.manifestDigest},
	}
	if docs.index != nil {
		data = append(data,
			cstorage.ImageBigDataOption{Key: more + docs.indexDigest.String(), Data: docs.index, Digest: docs.indexDigest})
	}
	bare := docs.configDigest.Encoded()
	create := func(names []string) error {
		_, err := c.cs.CreateImage(bare, names, top, "", &cstorage.ImageOptions{
			CreationDate: created,
			Digest:       docs.manifestDigest,
			Flags:        flags,
			// The main manifest comes last: an image that has it is whole.
			BigData: append(data, cstorage.ImageBigDataOption{
				Key: cstorage.ImageDigestBigDataKey, Data: docs.manifest, Digest: docs.manifestDigest,
			}),
		})
		return err
	}
	err = create(nil)
	if !errors.Is(err, cstorage.ErrDuplicateID) {
		return false, wrapError(err, "record image")
	}
	record, err := c.cs.Image(bare)
	if err != nil {
		return true, wrapError(err, "record image")
	}
	cfg, err := c.configOf(record)
	if err != nil {
		return true, err
	}
	if cfg.damaged != nil && record.TopLayer != top { // its layers are damaged: it gets others
		if err := c.dropFromLibrary(bare); err != nil {
			return true, err
		}
		c.damage.Settle(c.imageFolder(bare))
		return true, wrapError(create(record.Names), "record image")
	}
	if cfg.damaged != nil { // all of it once more
		data = append(data,
			cstorage.ImageBigDataOption{Key: cstorage.ImageDigestBigDataKey, Data: docs.manifest, Digest: docs.manifestDigest})
		c.forgetConfig(bare)
		c.damage.Settle(c.imageFolder(bare))
	}
	for _, item := range data {
		if cfg.damaged == nil && (item.Key == docs.configDigest.String() || slices.Contains(record.BigDataNames, item.Key)) {
			continue
		}
		if err := c.addDocument(bare, item.Key, item.Data, item.Digest); err != nil {
			return true, wrapError(err, "record image")
		}
	}
	return true, nil
}

// Tag gives an image another name, taking it from the image that had it.
//
// Errors are fault.NotFound, fault.Invalid (a bad name) or internal.
func (s *Store) Tag(ctx context.Context, imageID, name string) error {
	ref, err := nameForChange(ctx, name)
	if err != nil {
		return err
	}
	s.images.Lock()
	defer s.images.Unlock()
	if _, err := s.knownConfig(bareID(imageID)); err != nil {
		return err
	}
	return s.promoteStep(bareID(imageID), []string{ref.Canonical()})
}

// Untag takes names from an image that the caller has seen with all its names, all at once. A name that the image does not
// have is no error.
//
// Errors are fault.NotFound (no such image), fault.Invalid (a bad name), ErrRenamed or internal.
func (s *Store) Untag(ctx context.Context, seen *image.Image, names ...string) error {
	canonical := make([]string, 0, len(names))
	for _, name := range names {
		ref, err := nameForChange(ctx, name)
		if err != nil {
			return err
		}
		canonical = append(canonical, ref.Canonical())
	}
	s.images.Lock()
	defer s.images.Unlock()
	if _, err := s.asSeen(seen); err != nil {
		return err
	}
	bare := bareID(seen.ID)
	if s.lightStep(bare) != nil {
		return nil // it has no names
	}
	s.ballast.releaseIfScarce() // it is the way to remove an image
	return wrapError(s.changeImage(bare, func() error {
		return s.cs.RemoveNames(bare, canonical)
	}), "take names from image %s", seen.ID)
}

func nameForChange(ctx context.Context, name string) (image.Ref, error) {
	if err := ctx.Err(); err != nil {
		return image.Ref{}, fmt.Errorf("name %s: %w", name, err)
	}
	ref, err := image.ParseRef(name)
	if err != nil {
		return image.Ref{}, err
	}
	return ref.WithoutTag(), nil
}
