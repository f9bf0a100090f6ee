package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.podman.io/image/v5/pkg/tlsclientconfig"

	"moss/engine/image"
	"moss/imagesvc/token"
)

const (
	probeTime = 30 * time.Second // for one answer to a probe
	probeKept = 5 * time.Minute  // how long its answer stands

	maxRedirects = 10

	// idleConnections is how many are kept between two layers: about as many as are fetched at the same time.
	idleConnections = 8
)

// HTTP returns a client that follows the rules for a registry, and the addresses at which to try it, the safer first:
// two for an insecure one. The caller closes its idle connections.
func (c *Client) HTTP(host string) (client *http.Client, bases []string, err error) {
	// Nobody waits for longer than the time for a lookup here.
	e, err := c.endpointNamed(context.Background(), host, host)
	if err != nil {
		return nil, nil, err
	}
	client, err = e.newClient()
	return client, e.baseURLs(), err
}

// newClient makes an HTTP client that follows the rules for the endpoint. What bounds its requests is their stallWatch.
func (e *endpoint) newClient() (*http.Client, error) {
	t := tlsclientconfig.NewTransport()
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: e.insecure, MinVersion: tls.VersionTLS12} //nolint:gosec // only where the settings say so
	if err := tlsclientconfig.SetupCertificates(e.certDir, t.TLSClientConfig); err != nil {
		return nil, fmt.Errorf("certificates for %s: %w", e.host, err)
	}
	t.Proxy = func(r *http.Request) (*url.URL, error) { return e.allowedProxy(r.Context(), r.URL) }
	t.IdleConnTimeout = 5 * time.Second
	t.MaxIdleConnsPerHost = idleConnections
	return &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return errors.New("redirected too often")
		}
		if r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
			r.Header.Del("Authorization")
		}
		if err := e.allowsScheme(r.URL); err != nil { // what is neither http nor https asks for no proxy
			return err
		}
		if addressOf(r.URL) == addressOf(via[0].URL) {
			return nil
		}
		return e.allowsAway(r.Context(), r.URL)
	}}, nil
}

// probe is what a server's answer to /v2/ told.
type probe struct {
	base       string
	challenges []token.Challenge
	until      time.Time
}

// errNoRegistry says that what answered does not look like a registry.
var errNoRegistry = errors.New("no registry there")

// probeServer asks the server how it wants to be spoken to, or remembers. An answer that no registry gives is errNoRegistry.
func (e *endpoint) probeServer(ctx context.Context, client *http.Client) (probe, error) {
	key := e.probeKey()
	e.c.mu.Lock()
	known, ok := e.c.probes[key]
	e.c.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known, nil
	}
	var failed error
	for _, base := range e.baseURLs() {
		p, err := e.probeBase(ctx, client, base)
		if err == nil {
			e.c.mu.Lock()
			e.c.probes[key] = p
			e.c.mu.Unlock()
			return p, nil
		}
		if failed == nil || !errors.Is(err, errNoRegistry) {
			failed = err
		}
	}
	return probe{}, failed
}

// forgetProbe drops what is remembered of a server, after it behaved otherwise.
func (e *endpoint) forgetProbe() {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	delete(e.c.probes, e.probeKey())
}

// probeKey is that of the server's probe.
func (e *endpoint) probeKey() string { return fmt.Sprint(e.server, e.insecure, e.certDir) }

func (e *endpoint) probeBase(ctx context.Context, client *http.Client, base string) (probe, error) {
	w := newStallWatch(ctx, min(probeTime, e.c.cfg.Stall))
	defer w.endRequest()
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, base+"/v2/", http.NoBody) //nolint:contextcheck // w.ctx is made from ctx
	if err != nil {
		return probe{}, err
	}
	req.Header.Set("User-Agent", e.c.cfg.UserAgent)
	res, err := client.Do(req)
	if err != nil {
		return probe{}, w.explainError(err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // lets the connection be used again
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusUnauthorized {
		return probe{}, errNoRegistry
	}
	return probe{base: base, challenges: token.Challenges(res.Header), until: time.Now().Add(probeKept)}, nil
}

// grant is what a request to a registry is sent with.
type grant struct {
	username string // for servers that take no bearer token
	password image.Secret
	bearer   image.Secret
	open     bool // the server asked for nothing when it was probed
}

// access says what for, and for whom.
type access struct {
	auth    image.RegistryAuth
	scopes  token.Scopes
	refused image.Secret // a token that the registry has just turned down
	basic   bool         // the server is no registry and takes no tokens: it gets name and password
}

// obtainGrant gets what the server wants to see. Errors are those of token.Service, and those of reaching the server.
func (e *endpoint) obtainGrant(ctx context.Context, client *http.Client, a access) (grant, error) {
	auth := a.auth
	if !isFor(auth.ServerAddress, e.host) || (e.mirror && auth.ServerAddress == "") {
		auth = image.RegistryAuth{}
	}
	if auth.RegistryToken != "" {
		return grant{bearer: auth.RegistryToken}, nil
	}
	var own grant
	if auth.IdentityToken == "" {
		own.username, own.password = auth.Username, auth.Password
	}
	if a.basic {
		return own, nil
	}
	p, err := e.probeServer(ctx, client)
	if errors.Is(err, errNoRegistry) {
		return own, nil // its answer to the request itself has better words
	}
	if err != nil {
		return grant{}, err
	}
	own.open = len(p.challenges) == 0
	challenge, ok := token.Offer(p.challenges, "bearer")
	if !ok || p.challenges[0].Scheme == "basic" {
		return own, nil
	}
	t, err := e.c.tokens.Token(ctx, token.Request{
		Registry: e.server, Insecure: e.insecure, Challenge: challenge, Scopes: a.scopes, Auth: auth, Client: client,
		Refused: a.refused,
	})
	if err != nil {
		return grant{}, err
	}
	own.bearer = t.Value
	return own, nil
}
