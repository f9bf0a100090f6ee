package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"moss/engine/fault"
)

// servers are hosts and networks that the settings name.
type servers struct {
	names    []string // host or host:port, in lower case
	networks []netip.Prefix
}

func (s servers) hasAddress(address string) bool {
	address = strings.ToLower(address)
	return slices.Contains(s.names, address) || slices.Contains(s.names, withoutPort(address))
}

func (s servers) hasIP(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(s.networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// reach says from where an address can be reached.
type reach int

const (
	everywhere reach = iota
	private          // this network
	local            // this machine, or what means something else on every machine: unspecified and link-local addresses
)

func reachOf(addr netip.Addr) reach {
	addr = addr.Unmap()
	switch {
	case addr.IsLoopback(), addr.IsUnspecified(), addr.IsLinkLocalUnicast():
		return local
	case addr.IsPrivate():
		return private
	}
	return everywhere
}

// isLoopback tells whether a name or a literal address is this machine for certain. No name is looked up: whoever
// answers could say so of any.
func isLoopback(name string) bool {
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Unmap().IsLoopback()
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// addressOf returns the host and port of a URL.
func addressOf(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// allowsScheme keeps a registry reached over TLS from leading credentials or content out of it.
func (e *endpoint) allowsScheme(u *url.URL) error {
	if u.Scheme != "https" && (u.Scheme != "http" || !e.insecure) {
		return fault.Invalid("registry %s: refused to go on without TLS at %s", e.host, u.Host)
	}
	return nil
}

// allowsAway refuses a redirect to another server on this machine or in a private network, unless the settings name it:
// what listens there may trust whoever can reach it.
func (e *endpoint) allowsAway(ctx context.Context, u *url.URL) error {
	return e.allowsUpTo(ctx, everywhere, u)
}

// allowsTarget checks the URL of a request, which the registry may have named, and reports whether the registry's own
// server is there: no other one gets its credentials.
func (e *endpoint) allowsTarget(ctx context.Context, text string) (own bool, err error) {
	if strings.HasPrefix(text, "/") {
		return true, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return false, fault.Invalid("registry %s: it leads to something that is no URL", e.host)
	}
	if err := e.allowsScheme(u); err != nil || e.isOwn(u) {
		return err == nil, err
	}
	return false, e.allowsAway(ctx, u)
}

// allowsURL is for every request: the server of a registry's tokens may be no deeper inside than the registry itself.
func (e *endpoint) allowsURL(ctx context.Context, u *url.URL) error {
	if err := e.allowsScheme(u); err != nil {
		return err
	}
	if e.isOwn(u) {
		return nil
	}
	if e.allowsUpTo(ctx, everywhere, u) == nil {
		return nil
	}
	own, err := e.farthestReach(ctx, &url.URL{Scheme: "https", Host: e.server})
	if err != nil {
		return err
	}
	return e.allowsUpTo(ctx, own, u)
}

func (e *endpoint) allowsUpTo(ctx context.Context, most reach, u *url.URL) error {
	if e.c.redirects.hasAddress(u.Host) || e.c.redirects.hasAddress(addressOf(u)) {
		return nil
	}
	found, err := e.farthestReach(ctx, u)
	if err == nil && found > most {
		where := map[reach]string{private: "in a private network", local: "on this machine"}[found]
		err = fault.Invalid("registry %s: refused to be led to %s %s: name it in registry-redirect if that is right", e.host,
			u.Host, where)
	}
	return err
}

// farthestReach returns how deep inside a server is, with all the addresses that its name has, but for those that the settings
// name. A name that a proxy looks up is everywhere.
func (e *endpoint) farthestReach(ctx context.Context, u *url.URL) (reach, error) {
	name := u.Hostname()
	if isLoopback(name) {
		if addr, err := netip.ParseAddr(name); err == nil && e.c.redirects.hasIP(addr) {
			return everywhere, nil
		}
		return local, nil
	}
	addr, err := netip.ParseAddr(name)
	addrs := []netip.Addr{addr}
	if err != nil {
		if via, err := e.configuredProxy(u); err != nil || via != nil {
			return everywhere, err
		}
		ctx, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", name); err != nil {
			return everywhere, fmt.Errorf("registry %s: look up %s: %w", e.host, name, err)
		}
	}
	most := everywhere
	for _, addr := range addrs {
		if !e.c.redirects.hasIP(addr) {
			most = max(most, reachOf(addr))
		}
	}
	return most, nil
}

func (e *endpoint) isOwn(u *url.URL) bool {
	return slices.ContainsFunc(e.baseURLs(), func(base string) bool {
		own, err := url.Parse(base)
		return err == nil && addressOf(own) == addressOf(u)
	})
}

// allowedProxy is asked for a proxy before every request, those that follow a redirect included.
func (e *endpoint) allowedProxy(ctx context.Context, u *url.URL) (*url.URL, error) {
	if err := e.allowsURL(ctx, u); err != nil {
		return nil, err
	}
	return e.configuredProxy(u)
}

// errBadProxy stands for the original, which shows the setting and with it a password.
var errBadProxy = errors.New("the proxy set for it is not a usable URL")

// configuredProxy returns what the settings of the user's environment say.
func (e *endpoint) configuredProxy(u *url.URL) (*url.URL, error) {
	proxy := e.c.cfg.Proxy
	if proxy == nil {
		proxy = func(u *url.URL) (*url.URL, error) { return http.ProxyFromEnvironment(&http.Request{URL: u}) }
	}
	via, err := proxy(u)
	if err != nil {
		return nil, errBadProxy
	}
	return via, nil
}
