package registry

import "strings"

// isFor reports whether credentials that came with a server's address are for a registry (API document 3, 5.1).
// docker.io is known by several addresses. An empty address is that of whatever registry is asked.
func isFor(address, host string) bool {
	if address == "" {
		return true
	}
	_, rest, ok := strings.Cut(address, "://")
	if !ok {
		rest = address
	}
	name, _, _ := strings.Cut(rest, "/")
	return strings.EqualFold(plainHost(name), plainHost(host))
}

func plainHost(host string) string {
	switch host {
	case dockerHubIndex, dockerHubServer:
		return dockerHub
	default:
		return host
	}
}
