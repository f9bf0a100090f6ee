package credential

import "strings"

// The registry that names without a host mean, and how the credential files call it.
const (
	hub    = "docker.io"
	hubKey = "https://index.docker.io/v1/"
)

// Registry returns the host, with its port, of the registry that an image's name points to. A first part without a dot, a
// colon or a capital is no host unless it is localhost.
func Registry(image string) string {
	host, _, found := strings.Cut(image, "/")
	if !found || (!strings.ContainsAny(host, ".:") && host != "localhost" && host == strings.ToLower(host)) {
		return hub
	}
	return Host(host)
}

// Repository returns an image's name with its registry and without tag and digest: docker.io/library/busybox.
func Repository(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if colon := strings.LastIndexByte(name, ':'); colon >= 0 && !strings.Contains(name[colon:], "/") {
		name = name[:colon]
	}
	registry := Registry(name)
	first, rest, found := strings.Cut(name, "/")
	switch {
	case found && Host(first) == registry:
		name = rest
	case found:
		name = first + "/" + rest
	}
	if registry == hub && !strings.Contains(name, "/") {
		name = "library/" + name
	}
	return registry + "/" + name
}

// Host returns the host of what may be a URL, in the one spelling that is compared: every name of the hub is docker.io.
func Host(server string) string {
	if at := strings.Index(server, "://"); at >= 0 {
		server = server[at+len("://"):]
	}
	server, _, _ = strings.Cut(server, "/")
	server = strings.ToLower(server)
	switch server {
	case "index.docker.io", "registry-1.docker.io", "www.docker.io", "":
		return hub
	}
	return server
}

// registryKey returns the key of a registry in the files and for the helpers.
func registryKey(registry string) string {
	if registry == hub {
		return hubKey
	}
	return registry
}

// isKeyOf reports whether a key of a file is for a registry as a whole. Keys with a scheme, or with the path of a
// version of the registries' API, count by their host; any other path names a part of the registry.
func isKeyOf(key, registry string) bool {
	scheme := strings.Contains(key, "://")
	_, path, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://"), "/")
	switch strings.Trim(path, "/") {
	case "", "v1", "v2":
	default:
		if !scheme {
			return false
		}
	}
	return key != "" && Host(key) == registry
}

// repositoryKeys returns the keys that may hold a repository's credentials, the closest first: the repository, the folders
// above it and the registry.
func repositoryKeys(repository string) []string {
	var all []string
	for {
		all = append(all, repository)
		cut := strings.LastIndexByte(repository, '/')
		if cut < 0 {
			return all
		}
		repository = repository[:cut]
	}
}

// Address returns what a registry is called where its credentials are sent along.
func Address(server string) string { return registryKey(Host(server)) }
