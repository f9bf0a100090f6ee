package token

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"moss/engine/fault"
	"moss/engine/image"
)

// errGetOnly says that a server does not know the POST form.
var errGetOnly = errors.New("the token server knows no OAuth 2.0")

// exchange is one way to a token, by what the client gave and what is known of the server.
type exchange struct {
	s        *Service
	registry string
	auth     image.RegistryAuth
	realm    *url.URL
	scopes   Scopes
	account  account
	client   *http.Client
	// allows is what the client says of a redirect; it may be nil.
	allows  func(*http.Request, []*http.Request) error
	secrets []string // must not come back in an error's text
}

func newExchange(s *Service, r Request) (*exchange, error) {
	realm, err := parseRealm(r)
	if err != nil {
		return nil, err
	}
	client := http.Client{}
	if r.Client != nil {
		client = *r.Client
	}
	allows := client.CheckRedirect
	// A form with a secret goes to the server it is meant for and nowhere else; getToken makes its own exceptions.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Jar = nil
	auth := r.Auth
	return &exchange{
		s: s, registry: r.Registry, auth: auth, realm: realm, client: &client, allows: allows,
		scopes: r.Challenge.Scopes().With(r.Scopes...),
		account: account{
			issuer:  realm.Scheme + "://" + realm.Host + realm.EscapedPath(),
			service: r.Challenge.Params["service"],
			who:     digestOf(auth.Username, string(auth.Password), string(auth.IdentityToken)),
		},
		secrets: secretsOf(auth),
	}, nil
}

// run tries what may lead to a token: the refresh token that the server gave us, the client's identity token, user and
// password, nothing at all. Each is tried only where the one before is refused.
func (x *exchange) run(ctx context.Context) (Token, error) {
	if kept := x.s.refreshToken(x.account); kept != "" {
		t, err := x.byRefreshToken(ctx, kept)
		if !isRefusal(err) {
			return t, err
		}
		x.s.setRefreshToken(x.account, "")
	}
	if x.auth.IdentityToken != "" {
		t, err := x.byIdentityToken(ctx)
		if !isRefusal(err) || !x.hasPassword() {
			return t, err
		}
	}
	if x.hasPassword() {
		return x.byPassword(ctx)
	}
	return x.getToken(ctx)
}

func (x *exchange) hasPassword() bool { return x.auth.Username != "" && x.auth.Password != "" }

// isRefusal tells whether other credentials may do better.
func isRefusal(err error) bool {
	return fault.Is(err, fault.Unauthorized) || errors.Is(err, errGetOnly)
}

// byIdentityToken uses a refresh token that the client kept since a login. It goes only to the server that issued it: a
// registry whose challenges begin to name another one does not get it.
func (x *exchange) byIdentityToken(ctx context.Context) (Token, error) {
	mine := x.auth.IdentityToken
	if of := x.s.issuerOf(mine); of != "" && of != x.account.issuer {
		return Token{},
			fault.Unauthorized("log in to %s: the identity token was issued by %s, and the registry now names %s: log in again",
				x.registry, of, x.account.issuer)
	}
	t, err := x.byRefreshToken(ctx, mine)
	switch {
	case errors.Is(err, errGetOnly):
		return Token{}, fault.Unauthorized("log in to %s: token server %s takes no identity tokens: log in with the password",
			x.registry, x.realm.Host)
	case err == nil:
		x.s.setIssuer(mine, x.account.issuer)
	}
	return t, err
}

func (x *exchange) byRefreshToken(ctx context.Context, refresh image.Secret) (Token, error) {
	x.secrets = append(x.secrets, string(refresh))
	form := x.baseForm("refresh_token")
	form.Set("refresh_token", string(refresh))
	a, err := x.postForm(ctx, form)
	if err != nil {
		return Token{}, err
	}
	if a.refresh != "" && a.refresh != refresh { // a server that renews it with each use
		x.s.setRefreshToken(x.account, a.refresh)
	}
	return a.token, nil
}

// byPassword asks for a refresh token as well: further scopes then need no password.
func (x *exchange) byPassword(ctx context.Context) (Token, error) {
	if x.s.knowsGetOnly(x.account.issuer) {
		return x.getToken(ctx)
	}
	form := x.baseForm("password")
	form.Set("username", x.auth.Username)
	form.Set("password", string(x.auth.Password))
	form.Set("access_type", "offline")
	a, err := x.postForm(ctx, form)
	if errors.Is(err, errGetOnly) {
		t, err := x.getToken(ctx)
		if err == nil {
			x.s.setGetOnly(x.account.issuer)
		}
		return t, err
	}
	if err != nil {
		return Token{}, err
	}
	if a.refresh != "" {
		x.s.setRefreshToken(x.account, a.refresh)
		x.s.setIssuer(a.refresh, x.account.issuer)
	}
	return a.token, nil
}

// baseForm holds what every POST has. A registry that names no service is one itself.
func (x *exchange) baseForm(grant string) url.Values {
	service := x.account.service
	if service == "" {
		service = x.registry
	}
	form := url.Values{"grant_type": {grant}, "service": {service}, "client_id": {clientID}}
	if len(x.scopes) > 0 {
		form.Set("scope", x.scopes.String())
	}
	return form
}

// postForm sends a form. The error is errGetOnly where the server does not know the POST form: it answers 404 (API document
// 3, 5.3) or another status for what it does not do, or refuses it in words that are not OAuth 2.0's, as Artifactory does
// with 401.
func (x *exchange) postForm(ctx context.Context, form url.Values) (answer, error) {
	body := form.Encode()
	r, err := x.sendRetrying(ctx, x.client, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.realm.String(), strings.NewReader(body))
		if err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return req, err
	})
	if err != nil {
		return answer{}, err
	}
	switch r.status {
	case http.StatusOK:
		return x.parseAnswer(r)
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return answer{}, errGetOnly
	case http.StatusBadRequest, http.StatusUnauthorized:
		if code, _ := parseError(r.body); code == "" && form.Get("grant_type") == "password" {
			return answer{}, errGetOnly
		}
	}
	return answer{}, x.refusalError(r)
}

// getToken asks in the form that every token server knows, with user and password or as nobody.
func (x *exchange) getToken(ctx context.Context) (Token, error) {
	query := x.realm.Query()
	query.Set("client_id", clientID)
	if x.account.service != "" {
		query.Set("service", x.account.service)
	}
	for _, scope := range x.scopes {
		query.Add("scope", scope.String())
	}
	known := x.hasPassword()
	if known {
		query.Set("account", x.auth.Username)
		query.Set("offline_token", "true")
	}
	u := *x.realm
	u.RawQuery = query.Encode()
	client := *x.client
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if err := checkRedirect(req, via, known); err != nil || x.allows == nil {
			return err
		}
		return x.allows(req, via)
	}
	r, err := x.sendRetrying(ctx, &client, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
		if err == nil && known {
			req.Header.Set("Authorization", "Basic "+basicCredentials(x.auth))
		}
		return req, err
	})
	if err != nil {
		return Token{}, err
	}
	if r.status != http.StatusOK {
		return Token{}, x.refusalError(r)
	}
	// A refresh token in this answer is of no use: the form that would take it is the one this server does not know.
	a, err := x.parseAnswer(r)
	return a.token, err
}

// checkRedirect lets credentials go no further than their server, and nothing from TLS to none.
func checkRedirect(req *http.Request, via []*http.Request, secret bool) error {
	first := via[0].URL
	same := req.URL.Scheme == first.Scheme && req.URL.Host == first.Host
	downgrade := first.Scheme == "https" && req.URL.Scheme != "https"
	if len(via) > 5 || downgrade || (secret && !same) {
		return http.ErrUseLastResponse
	}
	return nil
}
