package main

import (
	"fmt"
	"strings"

	"moss/api/client"
	"moss/cmd/moss/arg"
)

// buildLinks writes links as the API has them, with an alias each (API document 1, 2.3: Links).
func (f *createFlags) buildLinks(body *client.Create, _ surroundings) error {
	for _, text := range f.links {
		link, err := arg.Link(text)
		if err != nil {
			return err
		}
		body.HostConfig.Links = append(body.HostConfig.Links, link)
	}
	return nil
}

// buildEndpoint sets what is asked of the network. Only networks that a user made have names and fixed addresses.
func (f *createFlags) buildEndpoint(body *client.Create, _ surroundings) error {
	if len(f.aliases) == 0 && f.ip == "" && f.ip6 == "" && len(f.linkLocalIPs) == 0 {
		return nil
	}
	switch name, _, _ := strings.Cut(f.network, ":"); name {
	case "default", "bridge", "host", "none", "container":
		return fmt.Errorf("--network-alias, --ip, --ip6 and --link-local-ip need a network of your own, not %s", f.network)
	}
	endpoint := &client.EndpointConfig{Aliases: f.aliases}
	for flag, addresses := range map[string][]string{"ip": {f.ip}, "ip6": {f.ip6}, "link-local-ip": f.linkLocalIPs} {
		for _, address := range addresses {
			if address == "" {
				continue
			}
			if err := arg.Address(flag, address); err != nil {
				return err
			}
			endpoint.IPAMConfig = &client.IPAMConfig{IPv4Address: f.ip, IPv6Address: f.ip6, LinkLocalIPs: f.linkLocalIPs}
		}
	}
	for _, text := range f.links {
		link, err := arg.Link(text)
		if err != nil {
			return err
		}
		endpoint.Links = append(endpoint.Links, link)
	}
	body.NetworkingConfig = &client.NetworkingConfig{EndpointsConfig: map[string]*client.EndpointConfig{f.network: endpoint}}
	return nil
}
