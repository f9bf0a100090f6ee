package imagesvc

import (
	"context"
	"errors"
	"slices"

	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/image"
	"moss/storage"
)

// Remove takes a name from an image, and the image away with its last name (API document 2, 4.2: DELETE). A name only
// loses that name while the image has others; an id takes all names of one repository along, those of several need
// force. Running containers and images built on it keep an image in any case, stopped containers unless it is forced.
// Parents without names and users go as well, unless NoPrune is set.
//
// What was done before an error is in the answer. Errors are fault.NotFound, fault.Conflict, fault.Invalid or internal.
func (s *Service) Remove(ctx context.Context, ref string, opts image.RemoveOptions) ([]image.Removed, error) {
	what, err := image.ParseLookup(ref)
	if err != nil {
		return nil, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	for {
		img, err := s.store.Get(ctx, ref)
		if err != nil {
			return nil, err
		}
		r := &removal{s: s, opts: opts}
		if name, ok := nameOf(img, what); ok {
			if !hasName(img, name) {
				return nil, image.NoSuch(what.String())
			}
			err = r.byName(ctx, img, name)
		} else {
			err = r.byID(ctx, img)
		}
		if len(r.done) > 0 || !errors.Is(err, storage.ErrRenamed) { // a pull has named the image: decided anew
			return r.done, err
		}
	}
}

// nameOf returns the name of img that a client wrote; false if it wrote the id.
func nameOf(img *image.Image, what image.Lookup) (image.Ref, bool) {
	if what.Ref.IsZero() {
		return image.Ref{}, false
	}
	wanted := what.Ref.WithoutTag()
	for _, name := range refsOf(img) {
		if name.Canonical() == wanted.Canonical() {
			return name, true
		}
	}
	if what.IsIDOf(img.ID) {
		return image.Ref{}, false
	}
	return wanted, true // a digest that the image has by its manifest only
}

// hasName reports whether an image has a name.
func hasName(img *image.Image, name image.Ref) bool {
	return slices.ContainsFunc(refsOf(img), func(other image.Ref) bool { return other.Canonical() == name.Canonical() })
}

// refsOf returns all names of an image.
func refsOf(img *image.Image) []image.Ref {
	var all []image.Ref
	for _, list := range [][]string{img.RepoTags, img.RepoDigests} {
		for _, name := range list {
			if ref, err := image.ParseRef(name); err == nil {
				all = append(all, ref)
			}
		}
	}
	return all
}

// removal is one removal under way.
type removal struct {
	s    *Service
	opts image.RemoveOptions
	done []image.Removed
}

// byName takes a name away, and with a repository's last tag its digests. With its last name the image goes, unless something
// keeps it.
func (r *removal) byName(ctx context.Context, img *image.Image, name image.Ref) error {
	if err := r.nameConflict(img, name); err != nil {
		return err
	}
	going, left := splitNames(img, name)
	if len(left) == 0 {
		err := r.imageConflict(ctx, img, !r.opts.Force, false)
		if err == nil {
			return r.deleteImage(ctx, img)
		}
		if !fault.Is(err, fault.Conflict) {
			return err
		}
	}
	canonical := make([]string, len(going))
	for i, name := range going {
		canonical[i] = name.Canonical()
	}
	if err := r.s.store.Untag(ctx, img, canonical...); err != nil {
		return err
	}
	for _, name := range going {
		r.reportUntagged(img, name)
	}
	return nil
}

// nameConflict returns what keeps a name: who uses the image or reads it, if it has no other one.
func (r *removal) nameConflict(img *image.Image, name image.Ref) error {
	if !isSingle(refsOf(img)) {
		return nil
	}
	const text = "conflict: unable to remove repository reference %q"
	if users := r.s.usersOf(img.ID); !r.opts.Force && len(users) > 0 {
		return fault.Conflict(text+" (must force) - container %s is using its referenced image %s",
			name.Familiar(), id.Short(users[0].ContainerID), id.Short(img.ID))
	}
	if why := r.s.heldFor(img.ID); why != "" {
		return fault.Conflict(text+" (cannot be forced) - its referenced image %s is being %s", name.Familiar(), id.Short(img.ID), why)
	}
	return nil
}

// splitNames returns the names that go with one of them, that one first, and those that stay.
func splitNames(img *image.Image, name image.Ref) (going, left []image.Ref) {
	going = []image.Ref{name}
	var digests []image.Ref
	lastTag := name.Tag() != ""
	for _, other := range refsOf(img) {
		switch {
		case other.Canonical() == name.Canonical():
		case other.Repo() != name.Repo():
			left = append(left, other)
		case other.Tag() != "":
			left = append(left, other)
			lastTag = false
		default:
			digests = append(digests, other)
		}
	}
	if lastTag {
		return append(going, digests...), left
	}
	return going, append(left, digests...)
}

// byID takes the image away, with its names if they are of one repository with one tag at most, or by force.
func (r *removal) byID(ctx context.Context, img *image.Image) error {
	if err := r.imageConflict(ctx, img, !r.opts.Force, !r.opts.Force && !isSingle(refsOf(img))); err != nil {
		return err
	}
	return r.deleteImage(ctx, img)
}

// isSingle reports whether names amount to one: at most one tag, and digests of its repository only.
func isSingle(names []image.Ref) bool {
	if len(names) <= 1 {
		return true
	}
	tags := 0
	for _, name := range names {
		if name.Tag() != "" {
			tags++
		}
		if name.Repo() != names[0].Repo() {
			return false
		}
	}
	return tags <= 1
}

// reportUntagged tells that a name is gone.
func (r *removal) reportUntagged(img *image.Image, name image.Ref) {
	r.done = append(r.done, image.Removed{Untagged: name.Familiar()})
	r.s.publishEvent("untag", img, name.Familiar())
}

// deleteImage deletes an image that nothing keeps, with its names in one step, and then its parents as far as these have
// neither names nor users.
func (r *removal) deleteImage(ctx context.Context, img *image.Image) error {
	layers, err := r.s.store.Delete(ctx, img)
	if err != nil {
		return err
	}
	lastName := img.ID
	for i, name := range refsOf(img) {
		if i == 0 {
			lastName = name.Familiar()
		}
		r.reportUntagged(img, name)
	}
	r.s.publishEvent("delete", img, lastName)
	r.done = append(r.done, image.Removed{Deleted: img.ID})
	for _, layer := range layers {
		r.done = append(r.done, image.Removed{Deleted: layer})
	}
	if r.opts.NoPrune || img.Parent == "" {
		return nil
	}
	parent, err := r.s.store.Get(ctx, img.Parent)
	if err == nil {
		err = r.imageConflict(ctx, parent, true, true)
	}
	if err == nil {
		err = r.deleteImage(ctx, parent)
	}
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}

// imageConflict returns what keeps an image: images built on it, transfers and running containers always, stopped containers
// and names if asked for.
func (r *removal) imageConflict(ctx context.Context, img *image.Image, stopped, named bool) error {
	all, err := r.s.store.List(ctx)
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.Parent == img.ID {
			return errCannotDelete(img, false, "image has dependent child images")
		}
	}
	if why := r.s.heldFor(img.ID); why != "" {
		return errCannotDelete(img, false, "image is being "+why)
	}
	users := r.s.usersOf(img.ID)
	for _, u := range users {
		if u.Running {
			return errCannotDelete(img, false, "image is being used by running container "+id.Short(u.ContainerID))
		}
	}
	if named && len(refsOf(img)) > 0 {
		return errCannotDelete(img, true, "image is referenced in multiple repositories")
	}
	if stopped && len(users) > 0 {
		return errCannotDelete(img, true, "image is being used by stopped container "+id.Short(users[0].ContainerID))
	}
	return nil
}

// errCannotDelete is the one wording for an image that has to stay.
func errCannotDelete(img *image.Image, forceHelps bool, why string) error {
	hint := "cannot be forced"
	if forceHelps {
		hint = "must be forced"
	}
	return fault.Conflict("conflict: unable to delete %s (%s) - %s", id.Short(img.ID), hint, why)
}
