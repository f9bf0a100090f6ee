// Package token gets the bearer tokens that registries ask for (API document 3, 5.3): it reads their challenges, speaks
// to their token servers, and keeps in memory what is still good. It knows nothing of images, and writes nothing to
// disks or logs.
package token

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
)

const (
	clientID = "moss" // for the audit of whoever runs the token server

	// early is how long before its end a token is not given out any more, so that it lives through the request it
	// is for. Tokens have a minute at least.
	early = 10 * time.Second

	// oldForm is how long a server that knows only the GET form is not asked for the other one.
	oldForm = time.Hour

	// maxKept bounds each of the maps: realms and scopes come from outside.
	maxKept = 512
)

// Request says what a token is needed for.
type Request struct {
	Registry  string             // host[:port] that sent the challenge
	Insecure  bool               // that registry may be reached without TLS, and so may its token server
	Challenge Challenge          // of the scheme bearer
	Scopes    Scopes             // needed beyond those of the challenge
	Auth      image.RegistryAuth // all fields empty: nobody
	// Client carries the TLS settings, proxies and rules for redirects, which hold beside those of this package.
	Client *http.Client

	// Refused is a token that the registry has just turned down: it is not given out again.
	Refused image.Secret
}

// Token is what a registry wants to see in Authorization: Bearer.
type Token struct {
	Value   image.Secret
	Expires time.Time // zero: not known
	Scopes  Scopes    // that the server granted; nil: it did not say
}

// Service gets tokens and keeps them. Its methods may be called by any number of goroutines.
type Service struct {
	mu      sync.Mutex // guards the fields below
	tokens  map[key]Token
	refresh map[account]image.Secret
	issuers map[digest]string    // who an identity token of a client's belongs to
	getOnly map[string]time.Time // until when an issuer counts as one that knows only the GET form
	flights map[key]*flight
}

// digest stands for credentials in keys, so that these are not kept longer than a request needs them.
type digest [sha256.Size]byte

// account is one user at one service of one token server.
type account struct {
	issuer, service string
	who             digest
}

// key is what makes requests equal.
type key struct {
	account
	realm  string // with its query
	scopes string
}

// flight is an exchange under way.
type flight struct {
	done  chan struct{} // closed at the end
	token Token
	err   error
}

// New returns a service that knows no tokens yet.
func New() *Service {
	return &Service{
		tokens:  make(map[key]Token),
		refresh: make(map[account]image.Secret),
		issuers: make(map[digest]string),
		getOnly: make(map[string]time.Time),
		flights: make(map[key]*flight),
	}
}

// Token returns a token for a request. One that is kept and good for at least ten seconds more is returned at once;
// equal requests at the same moment share one exchange.
//
// Errors are fault.Unauthorized (the credentials are refused), fault.Forbidden (they are known and do not suffice),
// fault.Invalid (a challenge that cannot be followed), fault.Unavailable (the server is too busy) or internal. None has
// a secret in its text.
func (s *Service) Token(ctx context.Context, r Request) (Token, error) {
	if r.Auth.RegistryToken != "" {
		return Token{Value: r.Auth.RegistryToken}, nil
	}
	x, err := newExchange(s, r)
	if err != nil {
		return Token{}, err
	}
	k := key{x.account, x.realm.String(), x.scopes.String()}
	for {
		t, f, leads := s.joinFlight(k, r.Refused)
		if f == nil {
			return t, nil
		}
		if leads {
			s.runFlight(ctx, k, f, x)
			return f.token, f.err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return Token{}, ctx.Err()
		}
		// The leader's own end says nothing about those who waited for it: the next of them tries.
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			return f.token, f.err
		}
	}
}

// joinFlight returns a kept token, or the flight to wait for, or a new one that the caller leads.
func (s *Service) joinFlight(k key, refused image.Secret) (t Token, f *flight, leads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.tokens[k]; ok {
		if t.Value != refused && time.Until(t.Expires) > early {
			return t, nil, false
		}
		delete(s.tokens, k)
	}
	if f, ok := s.flights[k]; ok {
		return Token{}, f, false
	}
	f = &flight{done: make(chan struct{})}
	s.flights[k] = f
	return Token{}, f, true
}

// runFlight makes the exchange. Those who wait are let go whatever happens.
func (s *Service) runFlight(ctx context.Context, k key, f *flight, x *exchange) {
	f.err = errors.New("get a token: the request broke off")
	defer s.endFlight(k, f)
	f.token, f.err = x.run(ctx)
}

// endFlight ends a flight and keeps what it brought.
func (s *Service) endFlight(k key, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flights, k)
	if f.err == nil {
		for old, t := range s.tokens {
			if time.Until(t.Expires) <= early {
				delete(s.tokens, old)
			}
		}
		putBounded(s.tokens, k, f.token)
	}
	close(f.done)
}

// putBounded puts a value into a map, in the place of any other one where it is full.
func putBounded[K comparable, V any](m map[K]V, k K, v V) {
	if _, ok := m[k]; !ok && len(m) >= maxKept {
		for old := range m {
			delete(m, old)
			break
		}
	}
	m[k] = v
}

// refreshToken returns the token that an account has for getting others.
func (s *Service) refreshToken(a account) image.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refresh[a]
}

// setRefreshToken keeps one, or forgets it if there is none any more.
func (s *Service) setRefreshToken(a account, t image.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t == "" {
		delete(s.refresh, a)
		return
	}
	putBounded(s.refresh, a, t)
}

// knowsGetOnly tells whether an issuer lately said that it does not know the POST form.
func (s *Service) knowsGetOnly(issuer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.getOnly[issuer])
}

func (s *Service) setGetOnly(issuer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	putBounded(s.getOnly, issuer, time.Now().Add(oldForm))
}

// setIssuer notes which server an identity token belongs to: the first that took it. No other one gets it.
func (s *Service) setIssuer(t image.Secret, issuer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	putBounded(s.issuers, digestOf(string(t)), issuer)
}

// issuerOf returns whom an identity token belongs to, empty if that is not known yet.
func (s *Service) issuerOf(t image.Secret) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issuers[digestOf(string(t))]
}

// digestOf makes one digest of several strings.
func digestOf(parts ...string) digest {
	h := sha256.New()
	for _, p := range parts {
		_ = binary.Write(h, binary.BigEndian, uint64(len(p)))
		_, _ = h.Write([]byte(p))
	}
	return digest(h.Sum(nil))
}

// parseRealm checks where a registry sends us. Its registry is asked over TLS: what is secret does not travel without
// it then, except on this machine.
func parseRealm(r Request) (*url.URL, error) {
	text := r.Challenge.Params["realm"]
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fault.Invalid("registry %s: its token server is %q: not an address with http or https",
			r.Registry, printableText(text))
	}
	if u.Scheme == "http" && !r.Insecure && !isLoopback(r.Registry) {
		return nil, fault.Invalid("registry %s: its token server %s does not use TLS, and the registry is not marked as insecure", r.Registry, u.Host)
	}
	u.Scheme, u.Host, u.Fragment = strings.ToLower(u.Scheme), strings.ToLower(u.Host), ""
	return u, nil
}

// isLoopback tells whether host[:port] is this machine for certain: a literal address, or the name localhost.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}
