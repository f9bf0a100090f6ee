package server

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"moss/api/route"
	"moss/engine/fault"
)

// guard refuses what a web page could make a browser send. Unix sockets are out of a browser's reach; over TCP the Host
// must be this machine's (a name that was rebound to it is not), and a request from a page of another origin is refused.
type guard struct {
	next   http.Handler
	origin string
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
	tcp := r.Context().Value(overTCP{}) != nil
	if tcp && !localHost(r.Host) {
		route.Refuse(w, fault.Forbidden("the host %q is not this engine's", r.Host))
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && (tcp || takesOver(r)) && !g.allows(origin, r.Host) {
		route.Refuse(w, fault.Forbidden("the origin %q may not use this engine", origin))
		return
	}
	g.next.ServeHTTP(w, r)
}

// allows reports whether pages of an origin may send requests.
func (g *guard) allows(origin, host string) bool {
	if g.origin == "*" || g.origin != "" && strings.EqualFold(g.origin, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// takesOver reports whether a request asks for its connection.
func takesOver(r *http.Request) bool {
	return r.Header.Get("Upgrade") != "" || strings.HasSuffix(r.URL.Path, "/attach") || strings.HasPrefix(r.URL.Path, "/exec/")
}

// localHost reports whether a Host header names this machine's loopback.
func localHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}
