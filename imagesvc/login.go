package imagesvc

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/token"
)

const dockerHub = "docker.io" // the registry of names without one

// reachable knows how registries are reached: by which client, and under which URLs in which order.
type reachable interface {
	HTTP(host string) (client *http.Client, bases []string, err error)
}

// Login asks a registry whether it takes credentials (API document 2, 4.7: auth). Where the registry issues a token in
// the place of the password, the answer has it.
//
// Errors are fault.Invalid (no credentials, or an address that is none), fault.Unauthorized and fault.Forbidden (they are
// refused), fault.Unavailable or internal.
func (s *Transfers) Login(ctx context.Context, auth image.RegistryAuth) (image.Login, error) {
	host, err := registryHost(auth.ServerAddress)
	if err != nil {
		return image.Login{}, err
	}
	if s.registry == nil {
		return image.Login{}, fault.Unsupported("log in to %s: this engine has no registries", host)
	}
	return loginToRegistry(ctx, s.registry, s.tokens, host, auth)
}

func loginToRegistry(
	ctx context.Context, registries reachable, tokens *token.Service, host string, auth image.RegistryAuth,
) (image.Login, error) {
	client, bases, err := registries.HTTP(host)
	if err != nil {
		return image.Login{}, err
	}
	defer client.CloseIdleConnections()
	identity, err := tokens.Login(ctx, token.Registry{Host: host, Bases: bases, Client: client}, auth)
	if err != nil {
		return image.Login{}, err
	}
	return image.Login{Status: "Login Succeeded", IdentityToken: identity}, nil
}

// registryHost reads the address of a registry as clients keep it: a host, or a URL such as that of docker.io's old
// index. An empty one is docker.io.
func registryHost(address string) (string, error) {
	text := address
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if address == "" {
		return dockerHub, nil
	}
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http") {
		return "", fault.Invalid("serveraddress %q: want HOST[:PORT] or a URL with http or https", address)
	}
	host := strings.ToLower(u.Host)
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		return dockerHub, nil
	}
	return host, nil
}
