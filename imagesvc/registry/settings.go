package registry

import (
	"net/netip"
	"net/url"
	"strings"

	"github.com/distribution/reference"

	"moss/engine/fault"
)

// mirror is a server that has what docker.io has.
type mirror struct {
	host  string // with a port wherever a name of an image needs it to be a host
	plain bool   // the user wrote http
}

func (m mirror) baseURL() string {
	if m.plain {
		return "http://" + m.host + "/"
	}
	return "https://" + m.host + "/"
}

// parseMirror reads a mirror: HOST[:PORT], https://HOST[:PORT] or http://HOST[:PORT], which goes without TLS. Errors are
// fault.Invalid.
func parseMirror(text string) (mirror, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "https", text
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil || (scheme != "https" && scheme != "http") || u.Host != strings.TrimSuffix(rest, "/") || !isHost(u.Host) {
		return mirror{}, fault.Invalid("registry mirror %q: want HOST[:PORT] or a URL with http or https, a host and nothing more",
			text)
	}
	m := mirror{host: strings.ToLower(u.Host), plain: scheme == "http"}
	if !strings.ContainsAny(m.host, ".:") && m.host != "localhost" {
		// In the name of an image it would be the first part of a path.
		m.host += map[bool]string{true: ":80", false: ":443"}[m.plain]
	}
	return m, nil
}

// parseServers reads a list of a setting.
func parseServers(texts []string, parse func(string) (netip.Prefix, error)) (s servers, err error) {
	for _, text := range texts {
		network, err := parse(text)
		if err != nil {
			return s, err
		}
		if network.IsValid() {
			s.networks = append(s.networks, network)
		} else {
			s.names = append(s.names, strings.ToLower(text))
		}
	}
	return s, nil
}

// parseServer reads a server: HOST[:PORT] or a network in CIDR form, which is returned. Errors are fault.Invalid.
func parseServer(text string) (netip.Prefix, error) {
	if network, err := netip.ParsePrefix(text); err == nil {
		return network.Masked(), nil
	}
	if !isHost(text) {
		return netip.Prefix{}, fault.Invalid("server %q: want HOST[:PORT] or a network in CIDR form", text)
	}
	return netip.Prefix{}, nil
}

// parseInsecure is parseServer for a registry that needs no TLS.
func parseInsecure(text string) (netip.Prefix, error) {
	network, err := parseServer(text)
	if err == nil && !network.IsValid() {
		if name := strings.ToLower(withoutPort(text)); name == dockerHub || strings.HasSuffix(name, "."+dockerHub) {
			return network, fault.Invalid("insecure registry %q: docker.io is always reached by TLS", text)
		}
	}
	return network, err
}

// isHost reports whether text can be the host of an image's name.
func isHost(text string) bool {
	if text == "" || strings.ContainsAny(text, "/@ ") {
		return false
	}
	named, err := reference.ParseNamed(text + "/x")
	if err == nil {
		return reference.Domain(named) == text
	}
	// A single word is a host only with a port, for the parser.
	named, err = reference.ParseNamed(text + ":1/x")
	return err == nil && reference.Domain(named) == text+":1"
}
