package config

import (
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"

	"moss/engine/fault"
)

// hostSettings are about where the API is served, and to whom. The variable of host is MOSS_HOSTS, since MOSS_HOST is the
// client's, and those of TLS begin with MOSSD for the same reason.
func hostSettings() []setting {
	return []setting{
		{
			"host", "MOSS_HOSTS", "address to serve the API on; may be given several times",
			"unix:///PATH, tcp://IP:PORT, fd://, fd://NAME or fd://NUMBER", true,
			func(c *Config, v []string, _ func(string) string) error { return setHosts(&c.Hosts, v) },
		},
		{
			"socket-group", "MOSS_SOCKET_GROUP", "group that may use the unix sockets: all of its members get your rights",
			"one of your groups, by name or number", false,
			func(c *Config, v []string, _ func(string) string) error { return setWord(&c.SocketGroup, v[0]) },
		},
		{
			"insecure-tcp", "MOSS_INSECURE_TCP", "allow tcp hosts on loopback without client certificates: every local user gets " +
				"your rights", allowedBool, false,
			func(c *Config, v []string, _ func(string) string) error { return setBool(&c.InsecureTCP, v[0]) },
		},
		{
			"tls", "MOSSD_TLS", "use TLS on tcp hosts", allowedBool, false,
			func(c *Config, v []string, _ func(string) string) error { return setBool(&c.TLS, v[0]) },
		},
		{
			"tlsverify", "MOSSD_TLS_VERIFY", "use TLS on tcp hosts, on any address, and require client certificates signed by " +
				"tlscacert", allowedBool, false,
			func(c *Config, v []string, _ func(string) string) error { return setBool(&c.TLSVerify, v[0]) },
		},
		{
			"tlscacert", "MOSSD_TLS_CACERT", "CA certificate to verify clients with (default ~/.config/moss/ca.pem)", allowedPath, false,
			func(c *Config, v []string, env func(string) string) error { return setPath(&c.TLSCACert, v[0], env) },
		},
		{
			"tlscert", "MOSSD_TLS_CERT", "the engine's certificate (default ~/.config/moss/cert.pem)", allowedPath, false,
			func(c *Config, v []string, env func(string) string) error { return setPath(&c.TLSCert, v[0], env) },
		},
		{
			"tlskey", "MOSSD_TLS_KEY", "its key (default ~/.config/moss/key.pem)", allowedPath, false,
			func(c *Config, v []string, env func(string) string) error { return setPath(&c.TLSKey, v[0], env) },
		},
	}
}

func setHosts(to *[]string, values []string) error {
	hosts := make([]string, 0, len(values))
	for _, v := range values {
		if !goodHost(v) {
			return errNotAllowed
		}
		hosts = append(hosts, v)
	}
	*to = hosts
	return nil
}

func goodHost(host string) bool {
	scheme, rest, _ := strings.Cut(host, "://")
	switch scheme {
	case "fd":
		return strings.HasPrefix(host, "fd://") && !strings.ContainsAny(rest, "/ \t\r\n\x00")
	case "unix":
		return filepath.IsAbs(rest) && !strings.ContainsRune(rest, 0)
	case "tcp":
		u, err := url.Parse(host)
		if err != nil || u.Host != rest || u.Port() == "" {
			return false
		}
		_, err = netip.ParseAddr(u.Hostname())
		return u.Hostname() == "localhost" || err == nil
	}
	return false
}

// setWord takes a name without separators.
func setWord(to *string, value string) error {
	if value == "" || strings.ContainsAny(value, ":/ \t\r\n\x00") {
		return errNotAllowed
	}
	*to = value
	return nil
}

// finishHosts holds the rules that need several settings, and finds the files of TLS.
func (c *Config) finishHosts(env func(string) string) error {
	c.TLS = c.TLS || c.TLSVerify
	for _, host := range c.Hosts {
		address, isTCP := strings.CutPrefix(host, "tcp://")
		switch {
		case !isTCP || c.TLSVerify:
		case !onLoopback(address):
			return fault.Invalid("host %q is not on the loopback: without client certificates (tlsverify) only loopback may be served",
				host)
		case !c.InsecureTCP:
			return fault.Invalid("host %q gives every user of this machine your rights: set insecure-tcp to true if you mean it, or "+
				"tlsverify to ask for certificates", host)
		}
	}
	given := map[string]string{"tlscacert": c.TLSCACert, "tlscert": c.TLSCert, "tlskey": c.TLSKey}
	for _, key := range []string{"tlscacert", "tlscert", "tlskey"} {
		if given[key] != "" && !c.TLS {
			return fault.Invalid("%s has no use without tls or tlsverify", key)
		}
	}
	if c.TLSCACert != "" && !c.TLSVerify {
		return fault.Invalid("tlscacert has no use without tlsverify")
	}
	if !c.TLS {
		return nil
	}
	dir := xdgFolder(env, "XDG_CONFIG_HOME", ".config")
	for name, to := range map[string]*string{"ca.pem": &c.TLSCACert, "cert.pem": &c.TLSCert, "key.pem": &c.TLSKey} {
		if *to == "" && dir != "" && (c.TLSVerify || to != &c.TLSCACert) {
			*to = filepath.Join(dir, "moss", name)
		}
	}
	return nil
}

func onLoopback(address string) bool {
	u, err := url.Parse("tcp://" + address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}
