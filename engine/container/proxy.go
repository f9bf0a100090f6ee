package container

import (
	"slices"
	"strings"
)

// LayProxies returns the environment that a client asks for, with those proxies before it that neither the client nor the
// image knows, whether in upper or lower case.
func LayProxies(proxies, image, client []string) []string {
	if len(proxies) == 0 {
		return client
	}
	known := func(name string) bool {
		is := func(entry string) bool {
			other, _, _ := strings.Cut(entry, "=")
			return strings.EqualFold(other, name)
		}
		return slices.ContainsFunc(image, is) || slices.ContainsFunc(client, is)
	}
	env := make([]string, 0, len(proxies)+len(client))
	for _, entry := range proxies {
		if name, _, _ := strings.Cut(entry, "="); !known(name) {
			env = append(env, entry)
		}
	}
	return append(env, client...)
}
