// Package registry speaks to image registries: manifests and blobs in both directions, tags, search. It holds the rules
// about TLS, certificates, proxies, mirrors and redirects. It knows nothing of the store, and checks no content but a
// manifest's digest.
//
// All requests of the distribution API are made here, by endpoint.do, pushes in the same way as pulls: with tokens of
// imagesvc/token, bounds on everything, one set of errors, and credentials for the registry's own server alone. The image
// library (go.podman.io/image) has a transport of its own for that, which is not used: it gives up a blob after two broken
// connections, reads error messages of any length, waits for minutes unseen when it is asked to, sends credentials to
// whatever server an upload is led to, and tells some statuses in the text of an error alone. What is used of the library
// are the formats of manifests (types, digests), the certificates and keys of certs.d, and the reading of registries.conf.
package registry

import (
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"moss/imagesvc/token"
)

// Config is what a Client is made of.
type Config struct {
	Mirrors   []string   // of docker.io, tried in this order before it: see parseMirror
	Insecure  []string   // registries that need no TLS, besides those on loopback: see parseInsecure
	Redirects []string   // servers on this machine or in private networks that registries may lead to: see parseServer
	CertDirs  []string   // searched in this order for a folder HOST:PORT with certificates and keys
	Files     *HostFiles // settings of the host's other engines; nil: they are not read
	UserAgent string
	Proxy     func(*url.URL) (*url.URL, error) // nil: as the environment says
	Tokens    *token.Service                   // nil: one of this client's own
	Log       zerolog.Logger

	// Stall is how long a server may send nothing before its connection counts as broken; 0 is a minute.
	Stall time.Duration
	// Backoff is the first wait before a broken connection is taken up again, doubled up to 25 times as much; 0 is 0.2 s.
	Backoff time.Duration
}

const (
	defaultStall   = time.Minute
	defaultBackoff = 200 * time.Millisecond
)

// Client reaches registries. Its methods may be called by any number of goroutines.
type Client struct {
	cfg       Config
	mirrors   []mirror
	insecure  servers // registries
	redirects servers // to which registries may lead from wherever they are
	tokens    *token.Service

	mu     sync.Mutex // guards probes
	probes map[string]probe
}

// New returns a client. Errors are fault.Invalid (a setting).
func New(cfg Config) (*Client, error) {
	c := &Client{cfg: cfg, tokens: cfg.Tokens, probes: make(map[string]probe)}
	for _, text := range cfg.Mirrors {
		m, err := parseMirror(text)
		if err != nil {
			return nil, err
		}
		c.mirrors = append(c.mirrors, m)
	}
	var err error
	if c.insecure, err = parseServers(cfg.Insecure, parseInsecure); err != nil {
		return nil, err
	}
	if c.redirects, err = parseServers(cfg.Redirects, parseServer); err != nil {
		return nil, err
	}
	if c.tokens == nil {
		c.tokens = token.New()
	}
	if c.cfg.Stall == 0 {
		c.cfg.Stall = defaultStall
	}
	if c.cfg.Backoff == 0 {
		c.cfg.Backoff = defaultBackoff
	}
	return c, nil
}

// IndexServer is the address by which clients know docker.io, in their credentials and in info.
const IndexServer = "https://index.docker.io/v1/"

// Settings is what a client was told about registries (API document 1, 2.11: info).
type Settings struct {
	IndexServer   string
	InsecureCIDRs []string
	Indexes       []Index // docker.io, the insecure registries that have a name, and those of the host's files, once each
}

// Index is one registry of which something is known.
type Index struct {
	Name             string
	Mirrors          []string
	Secure, Official bool
}

// Config returns what is set about registries now. Of files that cannot be read it has nothing.
func (c *Client) Config() Settings {
	s := Settings{IndexServer: IndexServer, InsecureCIDRs: []string{"::1/128", "127.0.0.0/8"}}
	for _, n := range c.insecure.networks {
		if text := n.String(); !slices.Contains(s.InsecureCIDRs, text) {
			s.InsecureCIDRs = append(s.InsecureCIDRs, text)
		}
	}
	official := Index{Name: dockerHub, Secure: true, Official: true}
	for _, m := range c.mirrors {
		official.Mirrors = append(official.Mirrors, m.baseURL())
	}
	files, _ := c.cfg.Files.readAll() // each pull says what is wrong with them
	listed := listIndexes(files)
	if len(official.Mirrors) == 0 {
		official.Mirrors = listed[dockerHub].Mirrors
	}
	delete(listed, dockerHub)
	s.Indexes = append(s.Indexes, official)
	for _, name := range c.insecure.names {
		s.Indexes = append(s.Indexes, Index{Name: name, Mirrors: listed[name].Mirrors})
		delete(listed, name)
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		s.Indexes = append(s.Indexes, listed[name])
	}
	return s
}
