package arg

import (
	"errors"
	"os"
	"slices"
	"strings"
)

// proxyNames are the variables that name proxies. Programs read them in lower or in upper case.
var proxyNames = []string{"http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy"} //nolint:gochecknoglobals // a constant list

// Proxies returns those variables of the environment that name proxies, as NAME=VALUE, but for those that given, a list of
// NAME or NAME=VALUE, holds in either case.
func Proxies(lookup Lookup, given []string) []string {
	var entries []string
	for _, lower := range proxyNames {
		is := func(entry string) bool {
			name, _, _ := strings.Cut(entry, "=")
			return strings.EqualFold(name, lower)
		}
		if slices.ContainsFunc(given, is) {
			continue
		}
		for _, name := range []string{lower, strings.ToUpper(lower)} {
			if value, set := lookup(name); set && value != "" {
				entries = append(entries, name+"="+value)
			}
		}
	}
	return entries
}

// CAInside is where a container finds the authorities of its host, and CAVariables are what leads its programs there: OpenSSL,
// Go and Python read the first, curl, Python's requests, node and git the others.
const CAInside = "/run/host-ca.pem"

// CAVariables returns the variables that name the file CAInside, as NAME=VALUE.
func CAVariables() []string {
	return []string{
		"SSL_CERT_FILE=" + CAInside, "CURL_CA_BUNDLE=" + CAInside, "REQUESTS_CA_BUNDLE=" + CAInside, "NODE_EXTRA_CA_CERTS=" + CAInside,
		"GIT_SSL_CAINFO=" + CAInside,
	}
}

// HostCA returns the file of the authorities that this machine trusts: that of SSL_CERT_FILE, or where distributions keep it.
func HostCA(lookup Lookup) (string, error) {
	if path, set := lookup("SSL_CERT_FILE"); set && path != "" {
		_, err := os.Stat(path)
		return path, err
	}
	for _, path := range []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian, Arch
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
		"/etc/ssl/ca-bundle.pem",                            // SUSE
		"/etc/ssl/cert.pem",                                 // Alpine
	} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("this machine has no file of authorities: install ca-certificates, or name one in SSL_CERT_FILE")
}
