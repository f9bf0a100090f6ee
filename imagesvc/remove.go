package imagesvc

import (
	"context"

	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/image"
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
	img, err := s.store.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	r := &removal{s: s, opts: opts}
	if name, ok := nameOf(img, what); ok {
		last, err := r.byName(ctx, img, name)
		if err != nil || !last {
			return r.done, err
		}
		return r.done, r.image(ctx, img.ID, opts.Force, true)
	}
	if err := r.byID(ctx, img); err != nil {
		return r.done, err
	}
	return r.done, r.image(ctx, img.ID, opts.Force, false)
}

// nameOf returns the name of img that a client wrote; false if it wrote the id.
func nameOf(img *image.Image, what image.Lookup) (image.Ref, bool) {
	if what.Ref.IsZero() {
		return image.Ref{}, false
	}
	wanted := what.Ref.WithoutTag()
	for _, name := range refs(img) {
		if name.Canonical() == wanted.Canonical() {
			return name, true
		}
	}
	if what.IsIDOf(img.ID) {
		return image.Ref{}, false
	}
	return wanted, true // a digest that the image has by its manifest only
}

// refs returns all names of an image.
func refs(img *image.Image) []image.Ref {
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

// byName takes a name away, and with a repository's last tag its digests. It reports whether no name is left.
func (r *removal) byName(ctx context.Context, img *image.Image, name image.Ref) (last bool, err error) {
	if users := r.s.usersOf(img.ID); !r.opts.Force && len(users) > 0 && isSingle(refs(img)) {
		return false, fault.Conflict(
			"conflict: unable to remove repository reference %q (must force) - container %s is using its referenced image %s",
			name.Familiar(), id.Short(users[0].ContainerID), id.Short(img.ID))
	}
	if err := r.untag(ctx, img, name); err != nil {
		return false, err
	}
	var left []image.Ref
	tagged := false
	for _, other := range refs(img) {
		if other.Canonical() == name.Canonical() {
			continue
		}
		left = append(left, other)
		tagged = tagged || other.Repo() == name.Repo() && other.Tag() != ""
	}
	if name.Tag() == "" || tagged {
		return len(left) == 0, nil
	}
	kept := 0
	for _, other := range left {
		if other.Repo() != name.Repo() {
			kept++
			continue
		}
		if err := r.untag(ctx, img, other); err != nil {
			return false, err
		}
	}
	return kept == 0, nil
}

// byID takes all names away if they are of one repository with one tag at most.
func (r *removal) byID(ctx context.Context, img *image.Image) error {
	names := refs(img)
	if !isSingle(names) {
		return nil
	}
	if err := r.conflict(ctx, img, !r.opts.Force, false); err != nil {
		return err
	}
	for _, name := range names {
		if err := r.untag(ctx, img, name); err != nil {
			return err
		}
	}
	return nil
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

func (r *removal) untag(ctx context.Context, img *image.Image, name image.Ref) error {
	if err := r.s.store.Untag(ctx, img.ID, name.Canonical()); err != nil {
		return err
	}
	r.done = append(r.done, image.Removed{Untagged: name.Familiar()})
	r.s.publish("untag", img, img.ID)
	return nil
}

// image deletes an image without names, or with force one with names, and then its parents. quiet says that the caller
// asked for something else, which is done: what keeps the image is no error then.
func (r *removal) image(ctx context.Context, imageID string, force, quiet bool) error {
	img, err := r.s.store.Get(ctx, imageID)
	if err != nil {
		return err
	}
	if err := r.conflict(ctx, img, !force, !force); err != nil {
		if quiet && fault.Is(err, fault.Conflict) {
			return nil
		}
		return err
	}
	for _, name := range refs(img) {
		if err := r.untag(ctx, img, name); err != nil {
			return err
		}
	}
	layers, err := r.s.store.Delete(ctx, imageID)
	if err != nil {
		return err
	}
	r.s.publish("delete", img, img.ID)
	r.done = append(r.done, image.Removed{Deleted: img.ID})
	for _, layer := range layers {
		r.done = append(r.done, image.Removed{Deleted: layer})
	}
	if r.opts.NoPrune || img.Parent == "" {
		return nil
	}
	if err := r.image(ctx, img.Parent, false, true); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// conflict returns what keeps an image: images built on it and running containers always, stopped containers and names
// if asked for.
func (r *removal) conflict(ctx context.Context, img *image.Image, stopped, named bool) error {
	all, err := r.s.store.List(ctx)
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.Parent == img.ID {
			return unable(img, false, "image has dependent child images")
		}
	}
	users := r.s.usersOf(img.ID)
	for _, u := range users {
		if u.Running {
			return unable(img, false, "image is being used by running container "+id.Short(u.ContainerID))
		}
	}
	if named && len(refs(img)) > 0 {
		return unable(img, true, "image is referenced in multiple repositories")
	}
	if stopped && len(users) > 0 {
		return unable(img, true, "image is being used by stopped container "+id.Short(users[0].ContainerID))
	}
	return nil
}

// unable is the one wording for an image that has to stay.
func unable(img *image.Image, forceHelps bool, why string) error {
	hint := "cannot be forced"
	if forceHelps {
		hint = "must be forced"
	}
	return fault.Conflict("conflict: unable to delete %s (%s) - %s", id.Short(img.ID), hint, why)
}
