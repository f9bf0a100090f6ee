package slirp

import (
	"net/netip"
	"os"
	"strings"
)

// The kernel of every libc stops reading there; more is not worth passing on.
const (
	maxResolvConf = 64 << 10 // bytes
	maxServers    = 3        // resolv.conf(5), MAXNS
)

// resolver is what a container's resolv.conf says.
type resolver struct {
	servers []string
	search  []string
	options []string
}

// readResolvConf reads what RootlessKit has written for the detached namespace.
func readResolvConf(path string) (resolver, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return resolver{}, err
	}
	return parseResolvConf(string(data[:min(len(data), maxResolvConf)])), nil
}

// parseResolvConf follows resolv.conf(5): unknown and malformed lines count for nothing, the last search list wins.
func parseResolvConf(text string) resolver {
	var r resolver
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if _, err := netip.ParseAddr(fields[1]); err == nil && len(r.servers) < maxServers {
				r.servers = append(r.servers, fields[1])
			}
		case "search", "domain":
			r.search = fields[1:]
		case "options":
			r.options = append(r.options, fields[1:]...)
		}
	}
	return r
}
