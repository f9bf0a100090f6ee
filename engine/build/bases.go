package build

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"moss/engine/fault"
	"moss/engine/image"
)

// bases are the images that FROM, COPY --from and RUN --mount name. Each is looked for once in a build, so that all stages
// see the same.
type bases struct {
	b *build

	mu    sync.Mutex // guards the fields below
	byRef map[string]*base
	pulls map[string]*sync.Mutex // by name: held while it is fetched, for it means the image that came last
}

// base is one image that is looked for.
type base struct {
	done  chan struct{} // closed at the end; the fields below hold then
	image *image.Image
	err   error
}

func newBases(b *build) *bases {
	return &bases{b: b, byRef: map[string]*base{}, pulls: map[string]*sync.Mutex{}}
}

// getImage returns an image for a platform, and fetches it if it is not here or the build asks for newer ones. What the pull
// tells goes to t, of whoever asks first. The image stays until the build is over.
func (s *bases) getImage(ctx context.Context, ref string, platform image.Platform, t *transcript) (*image.Image, error) {
	key := platform.String() + " " + ref
	s.mu.Lock()
	found, known := s.byRef[key]
	if !known {
		found = &base{done: make(chan struct{})}
		s.byRef[key] = found
	}
	s.mu.Unlock()
	if !known {
		found.image, found.err = s.findOrPull(ctx, ref, platform, t)
		close(found.done)
	}
	select {
	case <-found.done:
		return found.image, found.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// findOrPull looks an image up here, or fetches it, and holds it for the build.
func (s *bases) findOrPull(ctx context.Context, ref string, platform image.Platform, t *transcript) (*image.Image, error) {
	images := s.b.s.opt.Images
	if !s.b.req.Pull {
		img, err := images.Get(ctx, ref)
		switch {
		case err == nil && matchesPlatform(img, platform):
			return s.b.holdImage(ctx, img.ID)
		case err != nil && !fault.Is(err, fault.NotFound):
			return nil, err
		case err == nil && isID(ref):
			return nil, fault.Invalid("image %s is for %s, not for %s", ref, img.Platform(), platform)
		}
	}
	named, err := image.ParseRef(ref)
	if err != nil {
		if img, getErr := images.Get(ctx, ref); getErr == nil { // an id: there is nothing newer
			return s.b.holdImage(ctx, img.ID)
		}
		return nil, err
	}
	alone := s.pullLock(named.Canonical())
	alone.Lock()
	defer alone.Unlock()
	err = images.Pull(ctx, image.PullOptions{
		Repo: named.Canonical(), Platform: platform.String(), Auth: authFor(s.b.req.Auths, named.Domain()),
	}, t.addProgress)
	if err != nil {
		return nil, err
	}
	img, err := images.Get(ctx, named.Canonical())
	if err != nil {
		return nil, fmt.Errorf("find the image %s that was fetched: %w", ref, err)
	}
	if !matchesPlatform(img, platform) {
		return nil, fault.Invalid("image %s is for %s, not for %s", ref, img.Platform(), platform)
	}
	return s.b.holdImage(ctx, img.ID)
}

// pullLock returns the lock that keeps pulls of one name for several platforms apart.
func (s *bases) pullLock(name string) *sync.Mutex {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pulls[name] == nil {
		s.pulls[name] = &sync.Mutex{}
	}
	return s.pulls[name]
}

// isID reports whether ref means an image by its id, so that nothing can be fetched for it.
func isID(ref string) bool {
	l, err := image.ParseLookup(ref)
	return err == nil && l.Ref.IsZero()
}

// matchesPlatform reports whether an image is for a platform in its normal form. What one side does not name does not count.
func matchesPlatform(img *image.Image, want image.Platform) bool {
	has := img.Platform().NormalForm()
	for _, part := range [][2]string{{want.OS, has.OS}, {want.Architecture, has.Architecture}, {want.Variant, has.Variant}} {
		if part[0] != part[1] && part[0] != "" && part[1] != "" {
			return false
		}
	}
	return true
}

// hub is the registry that names without one mean; clients write it in several ways.
const hub = "docker.io"

// authFor returns the credentials for a registry. Keys are hosts, with or without a scheme and a path.
func authFor(auths map[string]image.RegistryAuth, domain string) image.RegistryAuth {
	if auth, ok := auths[domain]; ok {
		return auth
	}
	for key, auth := range auths {
		if registryOf(key) == domain {
			return auth
		}
	}
	return image.RegistryAuth{}
}

func registryOf(key string) string {
	_, host, ok := strings.Cut(key, "://")
	if !ok {
		host = key
	}
	host, _, _ = strings.Cut(host, "/")
	if host == "index."+hub || host == "registry-1."+hub {
		return hub
	}
	return host
}
