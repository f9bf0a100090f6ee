package token

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/outage"
)

// Registry is one that credentials are tried on.
type Registry struct {
	Host   string   // host[:port], for errors
	Bases  []string // URLs without a path, tried in this order while nobody answers; http only if it is insecure
	Client *http.Client
}

// Login asks a registry whether it takes credentials, in the way it wants them. It does not look at what is kept.
// identity takes the place of the password from now on; it is empty where the registry issues no such thing.
//
// Errors are those of Token, and internal where the host does not answer as a registry.
func (s *Service) Login(ctx context.Context, r Registry, auth image.RegistryAuth) (identity image.Secret, err error) {
	if auth.IdentityToken == "" && (auth.Username == "" || auth.Password == "") {
		return "", fault.Invalid("log in to %s: it takes a user name and a password, or an identity token", r.Host)
	}
	client := http.Client{}
	if r.Client != nil {
		client = *r.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Jar = nil
	r.Client = &client
	base, res, err := r.findBase(ctx)
	if err != nil {
		return "", err
	}
	all := Challenges(res.header)
	if c, ok := Offer(all, "bearer"); ok && res.status == http.StatusUnauthorized {
		return s.loginForToken(ctx, r, base, c, auth)
	}
	if _, ok := Offer(all, "basic"); res.status == http.StatusUnauthorized && !ok {
		return "", fmt.Errorf("log in to %s: it asks for credentials in no way that is known here", r.Host)
	}
	if res.status == http.StatusUnauthorized {
		if auth.Username == "" || auth.Password == "" {
			return "", fault.Unauthorized("log in to %s: it takes no identity tokens: log in with the password", r.Host)
		}
		res, err = r.requestBase(ctx, base, func(h http.Header) { h.Set("Authorization", "Basic "+basicCredentials(auth)) })
		if err != nil {
			return "", fmt.Errorf("log in to %s: %w", r.Host, err)
		}
	}
	return "", r.checkLogin(res, auth)
}

// loginForToken tries the credentials on the token server, and what it gives on the registry.
func (s *Service) loginForToken(
	ctx context.Context, r Registry, base string, c Challenge, auth image.RegistryAuth,
) (image.Secret, error) {
	x, err := newExchange(s, Request{
		Registry: r.Host, Insecure: strings.HasPrefix(base, "http:"), Challenge: c, Auth: auth, Client: r.Client,
	})
	if err != nil {
		return "", err
	}
	s.setRefreshToken(x.account, "")
	t, err := x.run(ctx)
	if err != nil {
		return "", err
	}
	res, err := r.requestBase(ctx, base, func(h http.Header) { h.Set("Authorization", "Bearer "+string(t.Value)) })
	if err != nil {
		return "", fmt.Errorf("log in to %s: %w", r.Host, err)
	}
	if err := r.checkLogin(res, auth); err != nil {
		return "", err
	}
	if renewed := s.refreshToken(x.account); renewed != "" {
		return renewed, nil
	}
	return auth.IdentityToken, nil
}

// findBase finds the base under which the registry answers.
func (r Registry) findBase(ctx context.Context) (base string, res *reply, err error) {
	var all error
	for _, base := range r.Bases {
		res, err := r.requestBase(ctx, base, func(http.Header) {})
		if err == nil {
			return base, res, nil
		}
		if text, ok := outage.Words(err); ok {
			err = fmt.Errorf("it cannot be reached: %s", text)
		}
		switch {
		case all == nil:
			all = err
		case all.Error() != err.Error():
			all = fmt.Errorf("%w; %w", all, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", nil, fmt.Errorf("log in to %s: %w", r.Host, all)
}

// requestBase makes the request that every registry answers: GET /v2/.
func (r Registry) requestBase(ctx context.Context, base string, set func(http.Header)) (*reply, error) {
	return sendOnce(ctx, r.Client, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v2/", http.NoBody)
		if err == nil {
			set(req.Header)
		}
		return req, err
	})
}

// checkLogin says what a registry's answer to credentials means.
func (r Registry) checkLogin(res *reply, auth image.RegistryAuth) error {
	_, said := parseError(res.body)
	said = scrubText(said, secretsOf(auth))
	if said == "" {
		said = "incorrect user name or password"
	}
	switch res.status {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized:
		return fault.Unauthorized("log in to %s: unauthorized: %s", r.Host, said)
	case http.StatusForbidden:
		return fault.Forbidden("log in to %s: denied: %s", r.Host, said)
	case http.StatusTooManyRequests:
		return fault.Unavailable("log in to %s: too many requests", r.Host)
	}
	return fmt.Errorf("log in to %s: status %d is not the answer of a registry", r.Host, res.status)
}

// basicCredentials is what stands after "Basic " for a user and a password (RFC 7617, 2).
func basicCredentials(auth image.RegistryAuth) string {
	return base64.StdEncoding.EncodeToString([]byte(auth.Username + ":" + string(auth.Password)))
}

// secretsOf lists what must not come back in an error's text.
func secretsOf(auth image.RegistryAuth) []string {
	secrets := []string{string(auth.Password), string(auth.IdentityToken)}
	if auth.Password != "" {
		secrets = append(secrets, basicCredentials(auth))
	}
	return secrets
}
