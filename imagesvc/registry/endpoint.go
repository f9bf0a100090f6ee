package registry

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"go.podman.io/image/v5/types"

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
	insecure bool   // any certificate will do, and none as well
	mirror   bool   // of another registry, whose credentials are not for it
	certDir  string // with its certificates; one without any if there is none
}

// endpointFor finds the rules for a registry by its name.
func (c *Client) endpointFor(ctx context.Context, host string) *endpoint {
	e := &endpoint{c: c, host: host, server: host, insecure: c.isInsecure(ctx, host), certDir: c.certDir(host)}
	if host == dockerHub {
		e.server = dockerHubServer
	}
	return e
}

// endpointsFor returns where an image may be: on the mirrors of its registry, then in the registry itself.
func (c *Client) endpointsFor(ctx context.Context, ref image.Ref) []*endpoint {
	var all []*endpoint
	if ref.Domain() == dockerHub {
		for _, m := range c.mirrors {
			e := c.endpointFor(ctx, m.host)
			e.mirror, e.insecure = true, e.insecure || m.plain
			all = append(all, e)
		}
	}
	return append(all, c.endpointFor(ctx, ref.Domain()))
}

// namedRef returns an image's name as it is at this endpoint, with one tag or digest.
func (e *endpoint) namedRef(path, tagOrDigest string) (reference.Named, error) {
	ref, err := image.ParseRepoTag(e.host+"/"+path, tagOrDigest)
	if err != nil {
		return nil, err
	}
	return reference.ParseNormalizedNamed(ref.Canonical())
}

// baseURLs returns the addresses to try, the safer first.
func (e *endpoint) baseURLs() []string {
	if e.insecure {
		return []string{"https://" + e.server, "http://" + e.server}
	}
	return []string{"https://" + e.server}
}

// systemContext returns the image library's settings for this endpoint. Every path is given: the defaults are those of other
// programs, and of root, whom the library takes the engine for.
func (e *endpoint) systemContext(ctx context.Context, g grant) *types.SystemContext {
	empty := e.c.emptyDir()
	ctx = context.WithoutCancel(ctx) // another request than the one that logged in may ask for the way
	return &types.SystemContext{
		RegistriesDirPath:                 empty,
		SystemRegistriesConfPath:          e.c.registriesConf(),
		SystemRegistriesConfDirPath:       empty,
		UserShortNameAliasConfPath:        os.DevNull,
		AuthFilePath:                      os.DevNull,
		SignaturePolicyPath:               os.DevNull,
		BlobInfoCacheDir:                  empty,
		BigFilesTemporaryDir:              e.c.cfg.RunDir,
		DockerCertPath:                    e.certDir,
		DockerInsecureSkipTLSVerify:       types.NewOptionalBool(e.insecure),
		DockerAuthConfig:                  &g.auth,
		DockerBearerRegistryToken:         string(g.bearer),
		DockerRegistryUserAgent:           e.c.cfg.UserAgent,
		DockerDisableDestSchema1MIMETypes: true,
		DockerProxy: func(u *url.URL) (*url.URL, error) {
			if err := e.allowsLibrary(ctx, u); err != nil {
				return nil, err
			}
			return e.allowedProxy(ctx, u)
		},
	}
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

// certDir returns the first folder of a registry's certificates.
func (c *Client) certDir(host string) string {
	if strings.ContainsAny(host, "/\\") || strings.Trim(host, ".") == "" {
		return c.emptyDir()
	}
	for _, dir := range c.cfg.CertDirs {
		path := filepath.Join(dir, host)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
	}
	return c.emptyDir()
}

// withoutPort cuts a port off.
func withoutPort(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.Trim(host, "[]")
}
