package imagesvc

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"moss/engine/fault"
	"moss/engine/image"
)

// maxSaved bounds the names that one archive is asked for.
const maxSaved = 4096

// Save writes images as an archive (API document 1, 2.11), together with the manifest.json that clients of today read. A ref
// is a name, an id or the beginning of one; a repository without a tag means all its tags. open is called once it is sure
// that all of them are there; an error before that is a status, one after it leaves half an archive behind. The images
// cannot be removed meanwhile. The same images saved twice are the same bytes.
//
// Errors are fault.Invalid (no name, a bad one, no platform), fault.NotFound (no such image, or one for another platform), open's
// and its writer's, or internal.
func (s *Archives) Save(ctx context.Context, refs []string, opt image.SaveOptions, open func() (io.Writer, error)) error {
	if len(refs) == 0 || len(refs) > maxSaved {
		return fault.Invalid("an archive is made of 1 to %d images, not of %d", maxSaved, len(refs))
	}
	var picked picked
	defer picked.release()
	for _, ref := range refs {
		if err := picked.addRef(ctx, s, ref); err != nil {
			return err
		}
	}
	if err := picked.checkPlatforms(opt.Platforms); err != nil {
		return err
	}
	plan, err := s.planArchive(ctx, picked.images)
	if err != nil {
		return err
	}
	w, err := open()
	if err != nil {
		return err
	}
	if err := plan.writeArchive(ctx, s.store, w); err != nil {
		return err
	}
	for _, saved := range picked.images {
		s.publishEvent("save", saved.img, saved.img.ID)
	}
	return nil
}

// savedImage is an image that an archive is to hold, with the names it is asked for by.
type savedImage struct {
	img  *image.Image
	tags []image.Ref
}

// picked are the images asked for, each once, in the order of the question.
type picked struct {
	images   []*savedImage
	releases []func()
}

// release lets the images go again.
func (p *picked) release() {
	for _, release := range p.releases {
		release()
	}
}

// checkPlatforms is fault.NotFound for an image that is not for one of the platforms, in a client's words.
func (p *picked) checkPlatforms(platforms []string) error {
	for _, text := range platforms {
		for _, saved := range p.images {
			name := saved.img.ID
			if len(saved.tags) > 0 {
				name = saved.tags[0].Familiar()
			}
			if err := checkPlatform(name, saved.img, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// addRef takes in what one ref means.
func (p *picked) addRef(ctx context.Context, s *Archives, ref string) error {
	l, err := image.ParseLookup(ref)
	if err != nil {
		return err
	}
	if isRepo(l) {
		found, err := p.addRepo(ctx, s, l.Ref)
		if err != nil || found {
			return err
		}
	}
	return p.addImage(ctx, s, ref, l.Ref)
}

// isRepo reports whether a ref is the name of a repository, without tag and digest. ParseRef has given it the tag latest.
func isRepo(l image.Lookup) bool {
	return !l.Ref.IsZero() && l.Ref.Digest() == "" && !strings.HasSuffix(l.Text, ":"+l.Ref.Tag())
}

// addRepo takes in all tags of a repository, and reports whether it has any.
func (p *picked) addRepo(ctx context.Context, s *Archives, repo image.Ref) (bool, error) {
	all, err := s.store.List(ctx)
	if err != nil {
		return false, fmt.Errorf("look for tags of %s: %w", repo.FamiliarRepo(), err)
	}
	found := false
	for _, img := range all {
		for _, tag := range img.RepoTags {
			name, err := image.ParseRef(tag)
			if err != nil || name.Repo() != repo.Repo() {
				continue
			}
			err = p.addImage(ctx, s, tag, name)
			if fault.Is(err, fault.NotFound) {
				continue // removed meanwhile
			}
			if err != nil {
				return false, err
			}
			found = true
		}
	}
	return found, nil
}

// addImage takes in the image that ref means. It gets name in the archive if that is what it was found by.
func (p *picked) addImage(ctx context.Context, s *Archives, ref string, name image.Ref) error {
	img, release, err := s.holdImage(ctx, ref, "saved")
	if err != nil {
		return err
	}
	p.releases = append(p.releases, release)
	at := slices.IndexFunc(p.images, func(other *savedImage) bool { return other.img.ID == img.ID })
	if at < 0 {
		at = len(p.images)
		p.images = append(p.images, &savedImage{img: img})
	}
	saved := p.images[at]
	if name.IsZero() || name.Digest() != "" || !slices.Contains(img.RepoTags, name.Familiar()) {
		return nil
	}
	if !slices.ContainsFunc(saved.tags, func(other image.Ref) bool { return other.Canonical() == name.Canonical() }) {
		saved.tags = append(saved.tags, name)
	}
	return nil
}
