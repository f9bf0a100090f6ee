package server

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"moss/engine/fault"
)

// guard refuses what a web page could make a browser send. Unix sockets are out of a browser's reach; over TCP the Host
// must be this engine's (a name that was rebound to its address is not), and a request from a page of another origin is
// refused. Taking over a connection needs no reading of answers, so there the origin counts on unix sockets too.
type guard struct {
	next   http.Handler
	refuse func(w http.ResponseWriter, r *http.Request, err error)
	origin string
	// certified tells whether the engine's certificate was made for a name, which Host may then hold besides the loopback's.
	certified func(name string) bool
}

type overTCP struct{}

// markTransport notes on each connection's context whether it came over TCP.
func markTransport(ctx context.Context, c net.Conn) context.Context {
	if c.LocalAddr().Network() == "tcp" {
		return context.WithValue(ctx, overTCP{}, true)
	}
	return ctx
}

// ServeHTTP checks and passes on.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := g.checkRequest(r); err != nil {
		if g.refuse == nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		g.refuse(w, r, err)
		return
	}
	g.next.ServeHTTP(w, r)
}

// checkRequest returns fault.Forbidden for what must not reach the API.
func (g *guard) checkRequest(r *http.Request) error {
	tcp := r.Context().Value(overTCP{}) != nil
	if tcp && !g.isOwnHost(r.Host) {
		return fault.Forbidden("the host %q is not this engine's", r.Host)
	}
	for _, origin := range r.Header["Origin"] {
		if (tcp || takesOver(r)) && !g.allowsOrigin(origin, r) {
			return fault.Forbidden("the origin %q may not use this engine", origin)
		}
	}
	return nil
}

// allowsOrigin reports whether pages of an origin may send requests.
func (g *guard) allowsOrigin(origin string, r *http.Request) bool {
	if g.origin == "*" || g.origin != "" && strings.EqualFold(g.origin, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return false
	}
	// A page that came without TLS may have come from anybody.
	return r.TLS == nil || u.Scheme == "https"
}

// takesOver reports whether a request asks for its connection.
func takesOver(r *http.Request) bool {
	return r.Header.Get("Upgrade") != "" || strings.Contains(r.URL.Path, "/attach") || strings.Contains(r.URL.Path, "/exec/")
}

// isOwnHost reports whether a Host header names this machine's loopback, or what the engine is called.
func (g *guard) isOwnHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if host == "" || strings.EqualFold(name, "localhost") { // a browser always names one
		return true
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return g.certified(name)
}
