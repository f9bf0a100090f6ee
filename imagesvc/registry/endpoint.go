package registry

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"moss/engine/image"
)

const (
	dockerHub       = "docker.io"            // in names of images
	dockerHubServer = "registry-1.docker.io" // where its registry is
	dockerHubIndex  = "index.docker.io"      // where its search is

	// lookupTime bounds the question whether a registry's address is in an insecure network.
	lookupTime = 5 * time.Second
)

// endpoint is one server that has images, and the rules for reaching it.
type endpoint struct {
	c        *Client
	host     string // as names of images have it: docker.io, 127.0.0.1:5000
	server   string // host[:port] to connect to
	path     string // of the repository there; empty where it is not asked for images
	insecure bool   // any certificate will do, and none as well
	mirror   bool   // in the place of another registry, whose credentials are not for it
	certDir  string // with its certificates; empty: there is none
}

// newEndpoint finds the rules for a registry by its name; insecure says that it needs no TLS by the host's files.
func (c *Client) newEndpoint(ctx context.Context, host string, insecure bool) *endpoint {
	e := &endpoint{
		c: c, host: host, server: host, certDir: c.certDir(host),
		insecure: host != dockerHub && (insecure || c.isInsecure(ctx, host)),
	}
	if host == dockerHub {
		e.server = dockerHubServer
	}
	return e
}

// endpointsFor returns where an image may be: on the mirrors of its registry, then in the registry itself, which may be
// elsewhere than its name says. For docker.io the mirrors of the settings are in the place of those in the host's files.
// It is fault.Forbidden where the files block the image.
func (c *Client) endpointsFor(ctx context.Context, ref image.Ref) ([]*endpoint, error) {
	target, places, err := c.cfg.Files.findPlaces(ref)
	if err != nil {
		return nil, err
	}
	var all []*endpoint
	if reference.Domain(target) == dockerHub && len(c.mirrors) > 0 {
		for _, m := range c.mirrors {
			e := c.newEndpoint(ctx, m.host, m.plain)
			e.path, e.mirror = reference.Path(target), true
			all = append(all, e)
		}
		places = places[len(places)-1:]
	}
	for i, p := range places {
		e := c.newEndpoint(ctx, p.host, p.insecure)
		e.path, e.mirror = p.path, i < len(places)-1 || p.host != ref.Domain()
		all = append(all, e)
	}
	return all, nil
}

// baseURLs returns the addresses to try, the safer first.
func (e *endpoint) baseURLs() []string {
	if e.insecure {
		return []string{"https://" + e.server, "http://" + e.server}
	}
	return []string{"https://" + e.server}
}

// isInsecure reports whether a registry needs no TLS: those on loopback, those set by name, and those whose address is
// in a network that is set. docker.io always needs it.
func (c *Client) isInsecure(ctx context.Context, host string) bool {
	name := withoutPort(host)
	switch {
	case host == dockerHub:
		return false
	case isLoopback(name), c.insecure.hasAddress(host):
		return true
	case len(c.insecure.networks) == 0:
		return false
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return c.insecure.hasIP(addr)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	return err == nil && slices.ContainsFunc(addrs, c.insecure.hasIP)
}

// certDir returns the first folder of a registry's certificates; empty if there is none.
func (c *Client) certDir(host string) string {
	if strings.ContainsAny(host, "/\\") || strings.Trim(host, ".") == "" {
		return ""
	}
	for _, dir := range c.cfg.CertDirs {
		path := filepath.Join(dir, host)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
	}
	return ""
}

// withoutPort cuts a port off.
func withoutPort(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.Trim(host, "[]")
}
