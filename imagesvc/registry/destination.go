package registry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/pkg/blobinfocache/none"
	"go.podman.io/image/v5/types"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/token"
	"moss/storage"
)

// longUpload is the size in bytes from which an upload may outlive a token: the library gets the credentials then, and
// asks for tokens of its own.
const longUpload = 256 << 20

// patience is how many times longer than in the middle of a transfer a registry may take for what it does with a blob, or
// for an answer without one: it may have to copy what it got, and the library waits for registries with too many requests.
const patience = 5

// Destination is a repository that an image is sent to. Its methods may be called by any number of goroutines, but for
// PutManifest, which comes last.
type Destination struct {
	e     *endpoint
	ref   image.Ref
	auth  image.RegistryAuth
	began time.Time

	turn    chan struct{} // held while the fields below change
	now     *upload       // nil: none is open
	long    *upload       // the one that renews its tokens by itself
	refused image.Secret  // the last token that the registry turned down
}

// upload is one login to the registry.
type upload struct {
	lib   types.ImageDestination
	grant grant
}

// Destination opens a repository for writing; mirrors have no part in it. That the registry can be reached and takes the
// credentials has been tried when it returns, as far as it says so before anything is sent. The caller closes it.
//
// Errors, also those of the methods, are fault.Unauthorized (no access, or not with these credentials), fault.Unavailable
// (too many requests), fault.Invalid (a name without a tag, or a redirect that is refused) or internal.
func (c *Client) Destination(ctx context.Context, ref image.Ref, auth image.RegistryAuth) (*Destination, error) {
	if ref.Tag() == "" {
		return nil, fault.Invalid("cannot push %s: it has no tag", ref.Familiar())
	}
	d := &Destination{
		e: c.endpointFor(ctx, ref.Domain()), ref: ref, auth: auth, began: time.Now(), turn: make(chan struct{}, 1),
	}
	if _, err := d.validUpload(ctx, nil); err != nil {
		return nil, err
	}
	return d, nil
}

// Close gives up the connections that nothing uses.
func (d *Destination) Close() error {
	d.turn <- struct{}{}
	defer d.releaseTurn()
	for _, u := range []*upload{d.now, d.long} {
		if u != nil {
			_ = u.lib.Close()
		}
	}
	d.now, d.long = nil, nil
	return nil
}

// Has reports whether the repository has a blob.
func (d *Destination) Has(ctx context.Context, b storage.Blob) (bool, error) {
	if b.Digest == "" {
		return false, nil
	}
	if err := b.Digest.Validate(); err != nil {
		return false, fault.Invalid("push of %s: %q is not a digest", d.ref.Familiar(), printableText(b.Digest.String()))
	}
	has := false
	err := d.tryTwice(ctx, func(ctx context.Context, u *upload) (err error) {
		has, _, err = u.lib.TryReusingBlob(ctx, infoOf(b), none.NoCache, false)
		return err
	})
	return has, err
}

// Mount makes the repository have a blob that another repository of the same registry has, and reports whether it came to
// that: a registry may not offer it, and the client may have no access to the other one.
//
// The library does that only for blobs whose compression it has found out itself, so the request is ours.
func (d *Destination) Mount(ctx context.Context, from image.Ref, b storage.Blob) (bool, error) {
	if from.Domain() != d.ref.Domain() || from.Path() == d.ref.Path() || b.Digest.Validate() != nil {
		return false, nil
	}
	client, err := d.e.newClient()
	if err != nil {
		return false, d.e.pushError(d.ref, err, d.began)
	}
	defer client.CloseIdleConnections()
	want := access{auth: d.auth, scopes: repositoryScopes(d.ref.Path(), "pull", "push").With(token.Repository(from.Path(), "pull"))}
	query := url.Values{"mount": {b.Digest.String()}, "from": {from.Path()}}
	res, err := d.e.do(ctx, client, request{
		method: http.MethodPost, url: "/v2/" + d.ref.Path() + "/blobs/uploads/?" + query.Encode(), access: want,
	})
	if err != nil {
		if t := troubleOf(err); t.isPermanent() && !t.isThrottling() {
			return false, nil // no access to the other repository, or nothing of the kind there
		}
		return false, d.e.pushError(d.ref, err, d.began)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusCreated {
		return true, nil
	}
	d.cancelUpload(ctx, client, res, want)
	return false, nil
}

// cancelUpload ends an upload that the registry began in place of a mount. It goes by itself in the end, so an error
// means nothing.
func (d *Destination) cancelUpload(ctx context.Context, client *http.Client, res *http.Response, want access) {
	at, err := res.Location()
	if err != nil || at.Host != res.Request.URL.Host || at.Scheme != res.Request.URL.Scheme {
		return
	}
	if ended, err := d.e.do(ctx, client, request{method: http.MethodDelete, url: at.String(), access: want}); err == nil {
		_ = ended.Body.Close()
	}
}

// Put sends a blob; its digest and size may be unknown (empty and -1), and are told. most is the largest size that it can
// have, in bytes. A blob that the registry has is not read. What has begun to be sent is not sent again: the caller may,
// with a new reader.
func (d *Destination) Put(ctx context.Context, b storage.Blob, most int64, r io.Reader) (storage.Blob, error) {
	if b.Digest != "" {
		// The library would ask as well, but could not get a new token then without having lost the upload.
		has, err := d.Has(ctx, b)
		if has || err != nil {
			return b, err
		}
	}
	u, err := d.validUpload(ctx, nil)
	if most > longUpload {
		u, err = d.longUpload(ctx)
	}
	if err != nil {
		return b, err
	}
	w := newWatchedReader(ctx, r, d.e.c.cfg.Stall)
	defer w.stop()
	info, err := u.lib.PutBlob(w.ctx, w, infoOf(b), none.NoCache, false) //nolint:contextcheck // w.ctx is made from ctx
	if err != nil {
		return b, d.e.pushError(d.ref, w.explainError(ctx, err), d.began)
	}
	b.Digest, b.Size = info.Digest, info.Size
	return b, nil
}

// PutManifest sends a manifest under the tag, byte for byte, and returns its digest.
func (d *Destination) PutManifest(ctx context.Context, raw []byte) (digest.Digest, error) {
	sum, err := manifest.Digest(raw)
	if err != nil {
		return "", fmt.Errorf("manifest of %s: %w", d.ref.Familiar(), err)
	}
	err = d.tryTwice(ctx, func(ctx context.Context, u *upload) error { return u.lib.PutManifest(ctx, raw, nil) })
	return sum, err
}

// tryTwice does something that can be done twice, with a new token if the first is turned down.
func (d *Destination) tryTwice(ctx context.Context, what func(context.Context, *upload) error) error {
	u, err := d.validUpload(ctx, nil)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, patience*d.e.c.cfg.Stall)
	defer cancel()
	err = what(short, u)
	if err != nil && troubleOf(err).status == http.StatusUnauthorized && u.grant.bearer != "" && d.auth.RegistryToken == "" {
		next, renewErr := d.validUpload(ctx, u)
		if renewErr != nil {
			return renewErr
		}
		err = what(short, next)
	}
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		err = errStalled
	}
	if err != nil {
		return d.e.pushError(d.ref, err, d.began)
	}
	return nil
}

// validUpload returns a login whose token is good, and is not that of refused.
func (d *Destination) validUpload(ctx context.Context, refused *upload) (*upload, error) {
	if err := d.acquireTurn(ctx); err != nil {
		return nil, err
	}
	defer d.releaseTurn()
	if d.now != nil && d.now != refused && !d.now.grant.expiresSoon() {
		return d.now, nil
	}
	if refused != nil {
		d.refused = refused.grant.bearer
	}
	next, err := d.openUpload(ctx, access{auth: d.auth, scopes: repositoryScopes(d.ref.Path(), "pull", "push"), refused: d.refused})
	if err != nil {
		return nil, err
	}
	if d.now != nil {
		_ = d.now.lib.Close()
	}
	d.now = next
	return next, nil
}

// longUpload returns the login for what takes long.
func (d *Destination) longUpload(ctx context.Context) (*upload, error) {
	if err := d.acquireTurn(ctx); err != nil {
		return nil, err
	}
	defer d.releaseTurn()
	if d.long != nil {
		return d.long, nil
	}
	next, err := d.openUpload(ctx, access{auth: d.auth, renewed: true})
	d.long = next
	return next, err
}

func (d *Destination) openUpload(ctx context.Context, want access) (*upload, error) {
	client, err := d.e.newClient()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	g, err := d.e.obtainGrant(ctx, client, want)
	if err != nil {
		return nil, d.e.pushError(d.ref, err, d.began)
	}
	named, err := d.e.namedRef(d.ref.Path(), d.ref.Tag())
	if err != nil {
		return nil, err
	}
	ref, err := docker.NewReference(named)
	if err != nil {
		return nil, err
	}
	lib, err := ref.NewImageDestination(ctx, d.e.systemContext(ctx, g))
	if err != nil {
		return nil, d.e.pushError(d.ref, err, d.began)
	}
	return &upload{lib: lib, grant: g}, nil
}

func (d *Destination) acquireTurn(ctx context.Context) error {
	select {
	case d.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Destination) releaseTurn() { <-d.turn }

func infoOf(b storage.Blob) types.BlobInfo {
	size := b.Size
	if size < 0 {
		size = -1
	}
	return types.BlobInfo{Digest: b.Digest, Size: size, MediaType: b.MediaType}
}
