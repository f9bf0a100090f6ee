package imagesvc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"

	"moss/engine/compress"
	"moss/engine/image"
	"moss/storage"
)

// restaging stages a layer for another place of its image.
type restaging interface {
	StageAgain(ctx context.Context, staged *storage.Staged) (*storage.Staged, error)
}

// Archives takes images in from archives, and gives them out as such. Its methods may be called by any number of
// goroutines.
type Archives struct{ *collection }

// Load takes the images of an archive in: of one with manifest.json, as clients since 2016 write it, of an OCI layout, or of
// one with a folder per layer (API document 1, 2.11). The archive may be compressed with gzip, bzip2, xz or zstd, and so may
// its layers. It is read once, in the order in which it comes; layers are unpacked meanwhile. A name moves from the image that
// had it. progress gets what clients show; when quiet nothing but the names or ids of what was loaded. The caller closes src.
//
// An archive that is broken, that ends too early, or that has an image for another platform than the one that is asked for,
// leaves nothing behind; of a whole one each image is there or not.
// Errors are fault.Invalid (the archive, the platform), fault.NotFound (an image for the platform), fault.Unsupported (an image
// that cannot run here), fault.Conflict (layers that were here were removed meanwhile) or internal.
func (s *Archives) Load(ctx context.Context, src io.Reader, opt image.LoadOptions, progress func(image.Progress)) (err error) {
	if progress == nil {
		progress = func(image.Progress) {}
	}
	want, anyPlatform, err := parsePlatform(opt.Platform)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	l := newLoader(s, cancel, progress, opt.Quiet)
	l.want, l.anyPlatform = want, anyPlatform
	defer func() {
		cancel(nil)
		err = errors.Join(err, l.close())
	}()
	if err := l.readArchive(ctx, src); err != nil {
		return err
	}
	images, err := l.checkedImages()
	if err != nil {
		return err
	}
	for _, img := range images {
		if err := l.loadImage(ctx, img); err != nil {
			return err
		}
	}
	return nil
}

// readArchive reads the archive to its end and waits until its layers are unpacked.
func (l *loader) readArchive(ctx context.Context, src io.Reader) error {
	l.in = compress.From(src)
	plain, err := compress.Plain(l.in)
	if err != nil {
		return err
	}
	defer plain.Close() //nolint:errcheck // the archive has been read to its end, or an error is known
	err = l.scanArchive(ctx, newRatio(plain, l.service.limits, l.in.Count))
	l.stages.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("load: %w", cause) // a layer's fault, or the client has gone
	}
	return err
}

// close waits for what is under way and removes the layers that became part of no image.
func (l *loader) close() error {
	l.stages.Wait()
	var err error
	for _, layer := range l.all {
		if layer.staged != nil {
			err = errors.Join(err, layer.staged.Discard())
		}
	}
	return err
}

// loadable is an image that was found in an archive.
type loadable struct {
	config   []byte
	manifest storage.Document // none: it is made when the sizes of all layers are known
	index    storage.Document
	diffIDs  []digest.Digest
	layers   []*archiveLayer
	names    []image.Ref
}

// loadImage puts an image into the store and tells of it.
func (l *loader) loadImage(ctx context.Context, img *loadable) error {
	moved, names := l.nameHolders(ctx, img)
	put, err := l.putImage(ctx, img, names)
	if err != nil {
		return err
	}
	for _, name := range img.names {
		if old := moved[name.Canonical()]; old != "" && old != put.ID {
			l.reportText("The image %s already exists, renaming the old one with ID %s to empty string\n", name.Familiar(), old)
		}
		l.reportText("Loaded image: %s\n", name.Familiar())
	}
	if len(img.names) == 0 {
		l.reportText("Loaded image ID: %s\n", put.ID)
	}
	l.service.publishEvent("load", put, put.ID)
	return nil
}

func (l *loader) reportText(format string, args ...any) {
	l.progress(image.Progress{Stream: fmt.Sprintf(format, args...)})
}

// nameHolders returns the images that have the names of img now, and these names as the store takes them.
func (l *loader) nameHolders(ctx context.Context, img *loadable) (holders map[string]string, names []string) {
	holders = map[string]string{}
	for _, name := range img.names {
		names = append(names, name.Canonical())
		if old, err := l.service.store.Get(ctx, name.Canonical()); err == nil {
			holders[name.Canonical()] = old.ID
		}
	}
	return holders, names
}

// putTries bounds how often layers may vanish below an image that is being put.
const putTries = 5

// putImage puts an image into the store. Layers of it that are there already are not taken from the archive, unless they go in
// the very moment.
func (l *loader) putImage(ctx context.Context, img *loadable, names []string) (*image.Image, error) {
	for try := 1; ; try++ {
		pulled := storage.Pulled{
			Config: img.config, Manifest: img.manifest, Index: img.index, DiffIDs: img.diffIDs, Names: names,
			Layers: make([]*storage.Staged, len(img.diffIDs)),
		}
		gather := gathering{l: l, own: map[*archiveLayer]bool{}}
		for i := l.service.store.Here(img.diffIDs); i < len(img.diffIDs); i++ {
			staged, err := gather.takeLayer(ctx, img.layers[i], img.diffIDs[i])
			if err != nil {
				return nil, errors.Join(err, gather.discardExtra())
			}
			pulled.Layers[i] = staged
		}
		put, err := l.service.store.PutPulled(ctx, pulled)
		if errors.Is(err, storage.ErrLayersGone) && try < putTries {
			if err := gather.discardExtra(); err != nil {
				return nil, err
			}
			continue
		}
		gather.markSpent()
		return put, errors.Join(err, gather.discardExtra())
	}
}

// gathering collects the layers of one image.
type gathering struct {
	l     *loader
	own   map[*archiveLayer]bool // whose staged layer is to be spent
	extra []*storage.Staged      // made for this image
}

// takeLayer returns a staged layer that no other place of the image uses.
func (g *gathering) takeLayer(ctx context.Context, layer *archiveLayer, diffID digest.Digest) (*storage.Staged, error) {
	if layer.staged != nil && !g.own[layer] {
		g.own[layer] = true
		return layer.staged, nil
	}
	again, err := g.l.stageAgain(ctx, layer, diffID)
	if err != nil {
		return nil, err
	}
	g.extra = append(g.extra, again)
	return again, nil
}

// markSpent notes that the layers are the store's.
func (g *gathering) markSpent() {
	for layer := range g.own {
		layer.staged = nil
	}
}

// discardExtra removes what was made for this image and not spent.
func (g *gathering) discardExtra() error {
	var err error
	for _, staged := range g.extra {
		err = errors.Join(err, staged.Discard())
	}
	return err
}

// stageAgain stages a layer once more: one that an image has in several places, or that an earlier image of the archive took.
func (l *loader) stageAgain(ctx context.Context, layer *archiveLayer, diffID digest.Digest) (*storage.Staged, error) {
	if layer.staged != nil {
		return l.service.store.StageAgain(ctx, layer.staged)
	}
	twin, err := l.service.store.StageTwin(ctx, diffID)
	if twin == nil && err == nil {
		err = fmt.Errorf("load layer %s: %w", diffID, storage.ErrLayersGone) // skipped since it was here, or put and removed
	}
	return twin, err
}
