package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/manifest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// maxManifest bounds a manifest or an index, in bytes.
const maxManifest = 4 << 20

// Source is an image in a registry, or on a mirror of it. Its methods may be called by any number of goroutines.
type Source struct {
	c     *Client
	ref   image.Ref
	auth  image.RegistryAuth
	doors []*door // where the image may be, the best first
	began time.Time
	raw   []byte // the manifest that ref names
	kind  string // its media type

	mu sync.Mutex // guards at
	at int        // of doors, the one in use
}

// door is an endpoint with the connections to it.
type door struct {
	*endpoint
	client *http.Client
	nth    int
}

// Source opens an image: its manifest, or its index, has been fetched when it returns. Mirrors of its registry are tried
// before it. The caller closes it.
//
// Errors are fault.NotFound (no such image, or no access to it, with Docker's words), fault.Unavailable (too many
// requests), fault.Invalid (a redirect that is refused), fault.Forbidden (an image that the host's files block) or
// internal (the registry is out of reach, one of the files is damaged).
func (c *Client) Source(ctx context.Context, ref image.Ref, auth image.RegistryAuth) (*Source, error) {
	ref = ref.WithoutTag()
	s := &Source{c: c, ref: ref, auth: auth, began: time.Now()}
	endpoints, err := c.endpointsFor(ctx, ref)
	if err != nil {
		return nil, err
	}
	for i, e := range endpoints {
		client, err := e.newClient()
		if err != nil {
			return nil, err
		}
		s.doors = append(s.doors, &door{endpoint: e, client: client, nth: i})
	}
	what, want := ref.Tag(), digest.Digest(ref.Digest())
	if want != "" {
		what = want.String()
	}
	s.raw, s.kind, err = s.findDocument(ctx, what, want)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close gives up the connections that no blob uses.
func (s *Source) Close() error {
	for _, d := range s.doors {
		d.client.CloseIdleConnections()
	}
	return nil
}

// Manifest fetches a manifest, byte for byte: the one that was asked for, which may be an index, or with a digest one of
// the same repository. It has that digest. mediaType is empty if the registry did not tell it. The kinds of errors are
// those of Client.Source.
func (s *Source) Manifest(ctx context.Context, d digest.Digest) (raw []byte, mediaType string, err error) {
	if d == "" {
		return s.raw, s.kind, nil
	}
	if err := d.Validate(); err != nil {
		return nil, "", fault.Invalid("manifest of %s: %q is not a digest", s.ref.Familiar(), printableText(d.String()))
	}
	return s.findDocument(ctx, d.String(), d)
}

// findDocument fetches a manifest by a tag or a digest from the endpoint in use, or from the first after it that has it.
func (s *Source) findDocument(ctx context.Context, what string, want digest.Digest) (raw []byte, mediaType string, err error) {
	for {
		d := s.currentDoor()
		raw, mediaType, err = s.fetchDocument(ctx, d, what)
		if ok := err == nil && want != ""; ok {
			err = verifyManifest(s.ref, raw, want)
		}
		switch {
		case err == nil:
			return raw, mediaType, nil
		case ctx.Err() != nil:
			return nil, "", ctx.Err()
		case !s.leaveDoor(d):
			return nil, "", d.pullError(s.ref, err, s.began)
		}
		s.c.cfg.Log.Warn().Str("mirror", d.host).Str("image", s.ref.Familiar()).
			Str("reason", d.pullError(s.ref, err, s.began).Error()).Msg("mirror left out")
	}
}

// fetchDocument asks one endpoint, and again where the server fails on its side.
func (s *Source) fetchDocument(ctx context.Context, d *door, what string) (raw []byte, mediaType string, err error) {
	err = s.c.repeatCall(ctx, func() (err error) {
		raw, mediaType, err = d.fetchManifest(ctx, s.auth, what)
		return err
	})
	return raw, mediaType, err
}

func (d *door) fetchManifest(ctx context.Context, auth image.RegistryAuth, what string) (raw []byte, mediaType string,
	err error,
) {
	ctx, cancel := context.WithTimeout(ctx, 2*d.c.cfg.Stall)
	defer cancel()
	res, err := d.do(ctx, d.client, request{
		method: http.MethodGet, url: "/v2/" + d.path + "/manifests/" + what, access: d.pullAccess(auth),
		header: http.Header{"Accept": manifest.DefaultRequestedManifestMIMETypes},
	})
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err = io.ReadAll(io.LimitReader(res.Body, maxManifest+1))
	if err != nil {
		return nil, "", err
	}
	if len(raw) > maxManifest {
		return nil, "", newTold("registry %s: the manifest %s of %s has more than %d MiB", d.host, what, d.path, maxManifest>>20)
	}
	return raw, mediaTypeOf(res.Header), nil
}

// verifyManifest checks a manifest against the digest by which it was asked for.
func verifyManifest(ref image.Ref, raw []byte, d digest.Digest) error {
	ok, err := manifest.MatchesDigest(raw, d)
	if err != nil || !ok {
		return newTold("manifest verification failed for %s: the registry sent something that has not the digest %s",
			ref.FamiliarRepo(), d)
	}
	return nil
}

// pullAccess is for reading the repository.
func (e *endpoint) pullAccess(auth image.RegistryAuth) access {
	return access{auth: auth, scopes: repositoryScopes(e.path, "pull")}
}

// currentDoor returns the endpoint in use.
func (s *Source) currentDoor() *door {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doors[s.at]
}

// leaveDoor goes on to the endpoint after d, unless others have, and reports whether there is one.
func (s *Source) leaveDoor(d *door) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at > d.nth {
		return true
	}
	if d.nth == len(s.doors)-1 {
		return false
	}
	s.at = d.nth + 1
	return true
}

// Blob opens a blob of the image's repository. A connection that breaks is taken up where it broke, with a new token if
// need be; only what does not get on at all becomes an error. The reader delivers no more than b.Size bytes if that is
// known, and leaves it to the caller to check their digest. size is that of the blob, -1 if unknown. URLs of foreign
// layers are not followed. The caller closes the reader.
//
// Errors, also those of reading, are ctx's, or fault.NotFound, fault.Unavailable, fault.Invalid or internal.
func (s *Source) Blob(ctx context.Context, b storage.Blob) (blob io.ReadCloser, size int64, err error) {
	if err := s.checkDigest(b); err != nil {
		return nil, 0, err
	}
	r := newBlobReader(ctx, s, b)
	if err := r.reopenBody(nil); err != nil {
		return nil, 0, err
	}
	return r, r.size, nil
}

// checkDigest keeps what is no digest out of URLs.
func (s *Source) checkDigest(b storage.Blob) error {
	if err := b.Digest.Validate(); err != nil {
		return fault.Invalid("layer of %s: %q is not a digest", s.ref.Familiar(), printableText(b.Digest.String()))
	}
	return nil
}

// getBlob asks for a blob, or for parts of it.
func (s *Source) getBlob(ctx context.Context, d *door, b digest.Digest, ranges string) (*http.Response, error) {
	r := request{
		method: http.MethodGet, access: d.pullAccess(s.auth), url: fmt.Sprintf("/v2/%s/blobs/%s", d.path, b),
		header: http.Header{"Accept-Encoding": {"identity"}},
	}
	if ranges != "" {
		r.header.Set("Range", "bytes="+ranges)
	}
	return d.do(ctx, d.client, r)
}
