package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxTransfers bounds how many layers are on their way at the same time: more would only share the same line.
const maxTransfers = 64

// registrySettings are about where images come from and go to.
func registrySettings() []setting {
	return []setting{
		{
			"registry-mirror", "MOSS_REGISTRY_MIRROR", "mirror of docker.io, asked before it; may be given several times",
			"HOST[:PORT], https://HOST[:PORT] or http://HOST[:PORT]", true,
			func(c *Config, v []string, _ func(string) string) error {
				return setEach(&c.RegistryMirrors, v, checkMirror)
			},
		},
		{
			"insecure-registry", "MOSS_INSECURE_REGISTRY",
			"registry that is reached without TLS, or without knowing its certificate; may be given several times",
			"HOST[:PORT] or a network in CIDR form", true,
			func(c *Config, v []string, _ func(string) string) error {
				return setEach(&c.InsecureRegistries, v, checkInsecure)
			},
		},
		{
			"registry-redirect", "MOSS_REGISTRY_REDIRECT",
			"server on this machine or in a private network that registries may redirect to; may be given several times",
			"HOST[:PORT] or a network in CIDR form", true,
			func(c *Config, v []string, _ func(string) string) error {
				return setEach(&c.RegistryRedirects, v, checkServer)
			},
		},
		{
			"max-concurrent-downloads", "MOSS_MAX_CONCURRENT_DOWNLOADS", "number of layers that all pulls download at the same time",
			"0 (the engine's own) or 1 to 64", false,
			func(c *Config, v []string, _ func(string) string) error { return setTransfers(&c.MaxDownloads, v[0]) },
		},
		{
			"max-concurrent-uploads", "MOSS_MAX_CONCURRENT_UPLOADS", "number of layers that a push uploads at the same time",
			"0 (the engine's own) or 1 to 64", false,
			func(c *Config, v []string, _ func(string) string) error { return setTransfers(&c.MaxUploads, v[0]) },
		},
	}
}

func setEach(to *[]string, values []string, check func(string) error) error {
	for _, v := range values {
		if err := check(v); err != nil {
			return err
		}
	}
	*to = append([]string(nil), values...)
	return nil
}

func setTransfers(to *int, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxTransfers {
		return errNotAllowed
	}
	*to = n
	return nil
}

func checkMirror(text string) error {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "https", text
	}
	u, err := url.Parse(scheme + "://" + rest)
	switch {
	case err != nil || (scheme != "https" && scheme != "http"):
		return errNotAllowed
	case u.User != nil:
		return errors.New("a mirror gets no credentials")
	case u.Host != strings.TrimSuffix(rest, "/"):
		return errors.New("a mirror has no path") // nor query and fragment
	}
	return checkRegistry(u.Host)
}

// checkServer takes a network too.
func checkServer(text string) error {
	if _, err := netip.ParsePrefix(text); err == nil {
		return nil
	}
	return checkRegistry(text)
}

func checkInsecure(text string) error {
	if name := strings.ToLower(trimPort(text)); name == "docker.io" || strings.HasSuffix(name, ".docker.io") {
		return errors.New("docker.io is always reached by TLS")
	}
	return checkServer(text)
}

// checkRegistry tells whether text can be the host of an image's name: letters, digits, dots and dashes, or an address,
// with or without a port.
func checkRegistry(text string) error {
	name := trimPort(text)
	if rest := strings.TrimPrefix(strings.Trim(text, "[]"), name); rest != "" {
		_, port, err := net.SplitHostPort(text)
		if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || n == 0 {
			return errNotAllowed
		}
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Zone() != "" || addr.Is6() != strings.HasPrefix(text, "[") {
			return errNotAllowed
		}
		return nil
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
			return errNotAllowed
		}
	}
	return nil
}

// trimPort cuts a port off.
func trimPort(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.Trim(host, "[]")
}
