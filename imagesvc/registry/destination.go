package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/manifest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/token"
	"moss/storage"
)

// Destination is a repository that an image is sent to. Its methods may be called by any number of goroutines, but for
// PutManifest, which comes last.
type Destination struct {
	e      *endpoint
	client *http.Client
	ref    image.Ref
	auth   image.RegistryAuth
	began  time.Time
}

// Destination opens a repository for writing; mirrors, aliases and other
// locations of the host's files have no part in it. That the registry can be reached and takes the
// credentials has been tried when it returns, as far as it says so before anything is sent. The caller closes it.
//
// Errors, also those of the methods, are fault.Unauthorized (no access, or not with these credentials), fault.Unavailable
// (too many requests), fault.Invalid (a name without a tag, or a redirect that is refused), fault.Forbidden (a registry
// that the host's files block) or internal.
func (c *Client) Destination(ctx context.Context, ref image.Ref, auth image.RegistryAuth) (*Destination, error) {
	if ref.Tag() == "" {
		return nil, fault.Invalid("cannot push %s: it has no tag", ref.Familiar())
	}
	e, err := c.endpointNamed(ctx, ref.Domain(), ref.Repo())
	if err != nil {
		return nil, err
	}
	d := &Destination{e: e, ref: ref, auth: auth, began: time.Now()}
	if d.client, err = d.e.newClient(); err != nil {
		return nil, d.pushError(err)
	}
	if _, err := d.e.obtainGrant(ctx, d.client, d.pushAccess()); err != nil {
		return nil, errors.Join(d.pushError(err), d.Close())
	}
	return d, nil
}

// Close gives up the connections that nothing uses.
func (d *Destination) Close() error {
	d.client.CloseIdleConnections()
	return nil
}

func (d *Destination) pushAccess() access {
	return access{auth: d.auth, scopes: repositoryScopes(d.ref.Path(), "pull", "push")}
}

func (d *Destination) pushError(err error) error { return d.e.pushError(d.ref, err, d.began) }

// Has reports whether the repository has a blob.
func (d *Destination) Has(ctx context.Context, b storage.Blob) (bool, error) {
	if b.Digest == "" {
		return false, nil
	}
	if err := b.Digest.Validate(); err != nil {
		return false, fault.Invalid("push of %s: %q is not a digest", d.ref.Familiar(), printableText(b.Digest.String()))
	}
	has, err := d.askForBlob(ctx, b.Digest)
	if err != nil {
		return false, d.pushError(err)
	}
	return has, nil
}

func (d *Destination) askForBlob(ctx context.Context, b digest.Digest) (bool, error) {
	res, err := d.sendRepeatable(ctx, request{
		method: http.MethodHead, url: fmt.Sprintf("/v2/%s/blobs/%s", d.ref.Path(), b), access: d.pushAccess(),
	})
	if troubleOf(err).status == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, res.Body.Close()
}

// sendRepeatable sends a request that does no harm twice. The caller closes the answer's body.
func (d *Destination) sendRepeatable(ctx context.Context, r request) (res *http.Response, err error) {
	r.slow = true
	err = d.e.c.repeatCall(ctx, func() (err error) {
		res, err = d.e.do(ctx, d.client, r) //nolint:bodyclose // the caller closes it
		return err
	})
	return res, err
}

// Mount makes the repository have a blob that another repository of the same registry has, and reports whether it came to
// that: a registry may not offer it, and the client may have no access to the other one.
func (d *Destination) Mount(ctx context.Context, from image.Ref, b storage.Blob) (bool, error) {
	if from.Domain() != d.ref.Domain() || from.Path() == d.ref.Path() || b.Digest.Validate() != nil {
		return false, nil
	}
	want := d.pushAccess()
	want.scopes = want.scopes.With(token.Repository(from.Path(), "pull"))
	query := url.Values{"mount": {b.Digest.String()}, "from": {from.Path()}}
	res, err := d.sendRepeatable(ctx, request{method: http.MethodPost, url: d.uploadsPath() + "?" + query.Encode(), access: want})
	if err != nil {
		t := troubleOf(err)
		if (t.isPermanent() && !t.isThrottling()) || fault.Is(err, fault.Unauthorized) || fault.Is(err, fault.Forbidden) {
			return false, nil // no access to the other repository, or nothing of the kind there
		}
		return false, d.pushError(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusCreated {
		return true, nil
	}
	d.cancelUpload(ctx, res, want)
	return false, nil
}

// cancelUpload ends an upload that the registry began in place of a mount. It goes by itself in the end, so an error
// means nothing.
func (d *Destination) cancelUpload(ctx context.Context, res *http.Response, want access) {
	at, err := uploadURL(res)
	if err != nil {
		return
	}
	if ended, err := d.e.do(ctx, d.client, request{method: http.MethodDelete, url: at, access: want}); err == nil {
		_ = ended.Body.Close()
	}
}

func (d *Destination) uploadsPath() string { return "/v2/" + d.ref.Path() + "/blobs/uploads/" }

// Put sends a blob; its digest and size may be unknown (empty and -1), and are told. A blob that the registry has is not
// read. What has begun to be sent is not sent again: the caller may, with a new reader, where the error has no kind. An
// error of the reader comes back as it is.
func (d *Destination) Put(ctx context.Context, b storage.Blob, r io.Reader) (storage.Blob, error) {
	has, err := d.Has(ctx, b)
	if has || err != nil {
		return b, err
	}
	algorithm := digest.Canonical
	if b.Digest != "" {
		algorithm = b.Digest.Algorithm()
	}
	u := newUpload(r, b.Size, algorithm, d.e.c.cfg.Stall)
	at, err := d.beginUpload(ctx)
	if err == nil {
		at, err = d.sendUpload(ctx, at, u)
	}
	whole, readErr := u.stopReading()
	switch {
	case readErr != nil:
		return b, readErr
	case err != nil:
		return b, d.pushError(err)
	case !whole:
		return b, newTold("registry %s: it answered before it had the whole blob", d.e.host)
	case b.Digest != "" && b.Digest != u.digester.Digest():
		return b, fmt.Errorf("blob %s of %s: its content has the digest %s", b.Digest, d.ref.Familiar(), u.digester.Digest())
	}
	b.Digest, b.Size = u.digester.Digest(), u.sent
	if err := d.finishUpload(ctx, at, b.Digest); err != nil {
		return b, d.pushError(err)
	}
	return b, nil
}

// beginUpload opens an upload and returns its URL.
func (d *Destination) beginUpload(ctx context.Context) (at string, err error) {
	res, err := d.sendRepeatable(ctx, request{method: http.MethodPost, url: d.uploadsPath(), access: d.pushAccess()})
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	return uploadURL(res)
}

// sendUpload sends the blob of an upload in one stream, whose length need not be known, and returns the URL for what
// comes next. Of what the registry says that it has got (Range) nothing depends: the digest shows it.
func (d *Destination) sendUpload(ctx context.Context, at string, u *upload) (next string, err error) {
	res, err := d.e.do(ctx, d.client, request{
		method: http.MethodPatch, url: at, access: d.pushAccess(), upload: u, slow: true,
		header: http.Header{"Content-Type": {"application/octet-stream"}},
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	return uploadURL(res)
}

// finishUpload makes a blob of what was sent. The token may be another one than at the beginning, which can be hours ago.
// A registry whose answer got lost may have the blob all the same.
func (d *Destination) finishUpload(ctx context.Context, at string, b digest.Digest) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	if u.RawQuery != "" {
		u.RawQuery += "&" // what the registry put there is sent back as it is
	}
	u.RawQuery += "digest=" + url.QueryEscape(b.String())
	res, err := d.sendRepeatable(ctx, request{
		method: http.MethodPut, url: u.String(), access: d.pushAccess(),
		header: http.Header{"Content-Type": {"application/octet-stream"}},
	})
	if err != nil {
		if isServerFailure(err) || troubleOf(err).status == http.StatusNotFound {
			if has, hasErr := d.askForBlob(ctx, b); has && hasErr == nil {
				return nil
			}
		}
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusCreated {
		return newTold("registry %s: it answered %d to the end of an upload", d.e.host, res.StatusCode)
	}
	return nil
}

// uploadURL returns where an upload goes on, as the registry's answer says: relative, on another path or server, with a
// query that is the registry's business. Where that leads is checked with the next request.
func uploadURL(res *http.Response) (string, error) {
	at, err := res.Location()
	if err != nil {
		return "", newTold("registry %s: it answered %d without the place of the upload", res.Request.URL.Host, res.StatusCode)
	}
	return at.String(), nil
}

// PutManifest sends a manifest under the tag, byte for byte, and returns its digest.
func (d *Destination) PutManifest(ctx context.Context, raw []byte) (digest.Digest, error) {
	sum, err := manifest.Digest(raw)
	if err != nil {
		return "", fmt.Errorf("manifest of %s: %w", d.ref.Familiar(), err)
	}
	header := http.Header{}
	if kind := manifest.GuessMIMEType(raw); kind != "" {
		header.Set("Content-Type", kind)
	}
	res, err := d.sendRepeatable(ctx, request{
		method: http.MethodPut, url: fmt.Sprintf("/v2/%s/manifests/%s", d.ref.Path(), d.ref.Tag()), access: d.pushAccess(),
		header: header, body: raw,
	})
	if err != nil {
		return "", d.pushError(err)
	}
	return sum, res.Body.Close()
}
