package imagesvc

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/registry"
	"moss/storage"
)

// registries is where images come from.
type registries interface {
	Source(ctx context.Context, ref image.Ref, auth image.RegistryAuth) (source, error)
	Tags(ctx context.Context, repo image.Ref, auth image.RegistryAuth) ([]string, error)
}

// network makes a registries of a registry client.
type network struct{ *registry.Client }

// Source opens an image.
func (n network) Source(ctx context.Context, ref image.Ref, auth image.RegistryAuth) (source, error) {
	src, err := n.Client.Source(ctx, ref, auth)
	if err != nil {
		return nil, err // a nil *Source in the interface would look like one
	}
	return src, nil
}

// layers is where what was fetched goes.
type layers interface {
	Stage(ctx context.Context, plain io.Reader, blob storage.Blob) (*storage.Staged, error)
	StageChunked(ctx context.Context, blob storage.Blob, from storage.Ranges) (*storage.Staged, error)
	StageTwin(ctx context.Context, diffID digest.Digest) (*storage.Staged, error)
	Here(diffIDs []digest.Digest) int
	PutPulled(ctx context.Context, p storage.Pulled) (*image.Image, error)
	restaging
}

// Pull fetches an image from its registry, or all tags of a repository: those one after the other, until one fails. What
// is here already is not fetched; what another pull fetches at the moment is waited for. progress is called by this
// goroutine alone; it may be nil. The end of ctx ends the pull, and the work that nobody else waits for.
//
// Each image is all or nothing. Errors before the first message are fault.Invalid (a name, a platform),
// fault.NotFound (no such repository, tag or platform), fault.Unauthorized, fault.Forbidden, fault.Unavailable (the
// registry), fault.Unsupported (a format that moss does not take) or internal.
func (s *Transfers) Pull(ctx context.Context, opts image.PullOptions, progress func(image.Progress)) error {
	if s.sources == nil {
		return fault.Unavailable("pull: there is no way to registries")
	}
	want, own, err := parseUsable(opts.Platform)
	if err != nil {
		return err
	}
	ref, err := image.ParseRepoTag(opts.Repo, opts.Tag)
	if err == nil {
		err = ref.CanName()
	}
	if err != nil {
		return err
	}
	if progress == nil {
		progress = func(image.Progress) {}
	}
	all := opts.Tag == "" && ref.Digest() == "" && !strings.HasSuffix(opts.Repo, ":"+ref.Tag())
	refs, shown := []image.Ref{ref}, ref.Familiar()
	if all {
		shown = ref.FamiliarRepo()
		if refs, err = s.listTags(ctx, ref, opts.Auth); err != nil {
			return err
		}
	}
	newer := false
	for _, ref := range refs {
		p := pull{s: s, ref: ref.WithoutTag(), want: want, own: own, progress: progress}
		changed, err := p.run(ctx, opts.Auth)
		if err != nil {
			return err
		}
		newer = newer || changed
	}
	if newer {
		progress(image.Progress{Status: "Status: Downloaded newer image for " + shown})
	} else {
		progress(image.Progress{Status: "Status: Image is up to date for " + shown})
	}
	return nil
}

// listTags returns the names of all tags of a repository.
func (s *Transfers) listTags(ctx context.Context, repo image.Ref, auth image.RegistryAuth) ([]image.Ref, error) {
	tags, err := s.sources.Tags(ctx, repo, auth)
	if err != nil {
		return nil, err
	}
	if len(tags) == 0 {
		return nil, fault.NotFound("%s has no tags", repo.FamiliarRepo())
	}
	refs := make([]image.Ref, 0, len(tags))
	for _, tag := range tags {
		ref, err := image.ParseRepoTag(repo.Repo(), tag)
		if err != nil {
			return nil, fmt.Errorf("the registry lists a tag of %s that cannot be: %.128q", repo.FamiliarRepo(), tag)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// pull is the pull of one image by one client.
type pull struct {
	s        *Transfers
	ref      image.Ref // with a tag or a digest, not both
	want     image.Platform
	own      bool // want is this machine
	progress func(image.Progress)

	src      *lease
	digest   digest.Digest // of what the registry has under ref
	index    storage.Document
	document storage.Document
	manifest *manifest
	config   []byte
	diffIDs  []digest.Digest
	layers   []*wantedLayer
}

// run fetches the image. changed is false if ref named it before.
func (p *pull) run(ctx context.Context, auth image.RegistryAuth) (changed bool, err error) {
	src, err := p.s.sources.Source(ctx, p.ref, auth)
	if err != nil {
		return false, err
	}
	p.src = newLease(src)
	defer p.src.release()
	if err := p.readManifest(ctx); err != nil {
		return false, err
	}
	img, before := p.upToDate(ctx)
	if img == nil {
		if img, err = p.fetchImage(ctx); err != nil {
			return false, err
		}
	}
	p.progress(image.Progress{Status: "Digest: " + p.digest.String()})
	p.s.publishRef("pull", img, p.ref)
	return img.ID != before, nil
}

// digestName is the one by digest that the image gets besides ref.
func (p *pull) digestName() string { return p.ref.Repo() + "@" + p.digest.String() }

// upToDate returns the image if it is here under both of its names, and the id that ref means here so far.
func (p *pull) upToDate(ctx context.Context) (img *image.Image, before string) {
	old, err := p.s.store.Get(ctx, p.ref.Canonical())
	if err != nil {
		return nil, ""
	}
	byDigest, err := image.ParseRef(p.digestName()) // images are also found by digests that are none of their names
	if err != nil || !slices.Contains(old.RepoDigests, byDigest.Familiar()) ||
		!suitsPlatform(p.want, p.own, old.Platform()) {
		return nil, old.ID
	}
	return old, old.ID
}

// fetchImage fetches what is missing of the image and puts it into the store.
func (p *pull) fetchImage(ctx context.Context) (*image.Image, error) {
	if err := p.readImage(ctx); err != nil {
		return nil, err
	}
	return p.bringLayers(ctx)
}
