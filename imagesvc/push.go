package imagesvc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

const (
	defaultUploads = 5                      // layers of one push on their way at the same time
	tick           = 100 * time.Millisecond // between two messages about the same thing
)

// contents gives out what an image is made of. Errors have the kinds that *storage.Store gives them.
type contents interface {
	Layers(ctx context.Context, imageID string) ([]storage.LayerInfo, error)
	OpenLayer(ctx context.Context, imageID string, index int) (io.ReadCloser, error)
	Documents(ctx context.Context, imageID string) (config []byte, manifests []storage.Document, err error)
	AddManifest(ctx context.Context, imageID string, doc storage.Document, names []string) error
	NoteForms(ctx context.Context, imageID string, made []digest.Digest) error
}

// destination is a repository that an image is sent to.
type destination interface {
	Has(ctx context.Context, b storage.Blob) (bool, error)
	Mount(ctx context.Context, from image.Ref, b storage.Blob) (bool, error)
	Put(ctx context.Context, b storage.Blob, r io.Reader) (storage.Blob, error)
	PutManifest(ctx context.Context, raw []byte) (digest.Digest, error)
	Close() error
}

// errNoRegistry says that the service was made without a way to registries.
func errNoRegistry() error { return fault.Unsupported("no registry can be reached") }

// openDestination opens a repository for writing. The caller closes it.
func (s *Transfers) openDestination(ctx context.Context, ref image.Ref, auth image.RegistryAuth) (destination, error) {
	if s.registry == nil {
		return nil, errNoRegistry()
	}
	return s.registry.Destination(ctx, ref, auth)
}

// Push sends an image to the registry that its name tells: one tag, or all that the repository has here (API document 2, 4.2).
// Layers that the registry has already are not sent, nor those that another of its repositories gives over. Where it has
// all of them in the form that the image came in, the manifest goes up byte for byte. The end of ctx ends the push. An
// image that is being pushed cannot be removed.
//
// Errors are fault.NotFound (no such image or tag here), fault.Invalid (a name), the registry's, or internal.
func (s *Transfers) Push(ctx context.Context, opts image.PushOptions, progress func(image.Progress)) error {
	refs, err := s.toPush(ctx, opts)
	if err != nil {
		return err
	}
	var mu sync.Mutex // layers report side by side
	tell := func(p image.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if progress != nil {
			progress(p)
		}
	}
	for i, ref := range refs {
		p := &push{s: s, ref: ref, tell: tell}
		if p.dest, err = s.destinations(ctx, ref, opts.Auth); err != nil {
			return err
		}
		if i == 0 {
			tell(image.Progress{Status: "The push refers to repository [" + ref.Repo() + "]"})
		}
		if err := errors.Join(p.run(ctx), p.dest.Close()); err != nil {
			return err
		}
	}
	return nil
}

// toPush returns the names to send, which are there.
func (s *Transfers) toPush(ctx context.Context, opts image.PushOptions) ([]image.Ref, error) {
	ref, err := image.ParseRepoTag(opts.Repo, opts.Tag)
	if err != nil {
		return nil, err
	}
	if whole, err := image.ParseRef(opts.Repo); err != nil || whole.Digest() != "" || ref.Digest() != "" {
		return nil, fault.Invalid("cannot push a digest reference")
	}
	images, err := s.store.List(ctx)
	if err != nil {
		return nil, err
	}
	all := opts.Tag == "" && !strings.HasSuffix(opts.Repo, ":"+ref.Tag())
	known := false
	var here []image.Ref
	for _, img := range images {
		for _, name := range refsOf(img) {
			if name.Repo() != ref.Repo() || name.Digest() != "" {
				continue
			}
			known = true
			if !all && name.Tag() != ref.Tag() {
				continue
			}
			if err := checkPlatform(name.Familiar(), img, opts.Platform); err != nil {
				return nil, err
			}
			here = append(here, name)
		}
	}
	switch {
	case !known:
		return nil, fault.NotFound("An image does not exist locally with the tag: %s", ref.FamiliarRepo())
	case len(here) == 0:
		return nil, fault.NotFound("tag does not exist: %s", ref.Familiar())
	}
	slices.SortFunc(here, func(a, b image.Ref) int { return strings.Compare(a.Tag(), b.Tag()) })
	return here, nil
}

// push sends one name.
type push struct {
	s    *Transfers
	ref  image.Ref
	dest destination
	tell func(image.Progress)

	img     *image.Image
	family  family
	sources map[string][]image.Ref // by diff id: repositories of this registry that should have the layer
}

func (p *push) run(ctx context.Context) error {
	img, release, err := p.s.holdImage(ctx, p.ref.Canonical(), "pushed")
	if err != nil {
		return err
	}
	defer release()
	p.img = img
	config, documents, err := p.s.store.Documents(ctx, img.ID)
	if err != nil {
		return err
	}
	layers, err := p.s.store.Layers(ctx, img.ID)
	if err != nil {
		return err
	}
	p.family = newFamily(documents, len(layers))
	if p.sources, err = p.findSources(ctx); err != nil {
		return err
	}
	blobs, made, err := p.sendAll(ctx, config, layers)
	if err != nil {
		return err
	}
	if err := p.s.store.NoteForms(ctx, img.ID, made); err != nil {
		return err
	}
	raw, err := p.family.renderManifest(config, blobs)
	if err != nil {
		return err
	}
	sum, err := p.dest.PutManifest(ctx, raw)
	if err != nil {
		return err
	}
	return p.recordManifest(ctx, raw, sum)
}

// recordManifest notes by which manifest the registry has the image, and tells of it.
func (p *push) recordManifest(ctx context.Context, raw []byte, sum digest.Digest) error {
	name, err := image.ParseRepoTag(p.ref.Repo(), sum.String())
	if err != nil {
		return fmt.Errorf("the registry's digest: %w", err)
	}
	doc := storage.Document{MediaType: typeSchema2, Raw: raw}
	if p.family.oci {
		doc.MediaType = typeOCIManifest
	}
	if err := p.s.store.AddManifest(ctx, p.img.ID, doc, []string{name.Canonical()}); err != nil {
		return fmt.Errorf("%s was pushed, but that could not be noted: %w", p.ref.Familiar(), err)
	}
	size := int64(len(raw))
	p.tell(image.Progress{Status: fmt.Sprintf("%s: digest: %s size: %d", p.ref.Tag(), sum, size)})
	p.tell(image.Progress{Aux: image.Pushed{Tag: p.ref.Tag(), Digest: sum.String(), Size: size}})
	p.s.publishRef("push", p.img, p.ref)
	return nil
}

// findSources returns the other repositories of the registry that layers may be mounted from: those by whose digests an image
// that has the layer is known here. The image's own come first.
func (p *push) findSources(ctx context.Context) (map[string][]image.Ref, error) {
	images, err := p.s.store.List(ctx)
	if err != nil {
		return nil, err
	}
	sources := map[string][]image.Ref{}
	for _, img := range append([]*image.Image{p.img}, images...) {
		for _, name := range refsOf(img) {
			if name.Digest() == "" || name.Domain() != p.ref.Domain() || name.Repo() == p.ref.Repo() {
				continue
			}
			for _, diffID := range img.Layers {
				same := func(other image.Ref) bool { return other.Repo() == name.Repo() }
				if known := sources[diffID]; len(known) < maxMounts && !slices.ContainsFunc(known, same) {
					sources[diffID] = append(known, name)
				}
			}
		}
	}
	return sources, nil
}

const maxMounts = 4 // repositories that a layer is asked of
