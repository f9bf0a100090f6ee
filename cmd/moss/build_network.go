package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"moss/api/types"
	"moss/cmd/moss/arg"
)

// defaultNetwork is what the API calls the network of containers that ask for none.
const defaultNetwork = "default"

// buildLinks writes links as the API has them, with an alias each (API document 1, 2.3: Links).
func (f *createFlags) buildLinks(body *types.ContainerCreate, _ surroundings) error {
	for _, text := range f.links {
		link, err := arg.Link(text)
		if err != nil {
			return err
		}
		body.HostConfig.Links = append(body.HostConfig.Links, link)
	}
	return nil
}

// buildNetworks sets the networks. The first is the container's NetworkMode: what stands in flags of its own, such as
// --ip, is asked of it.
func (f *createFlags) buildNetworks(body *types.ContainerCreate, around surroundings) error {
	body.MacAddress = f.macAddress
	if around.given("mac-address") {
		if err := arg.MAC("mac-address", f.macAddress); err != nil {
			return err
		}
	}
	values := f.networks
	if len(values) == 0 {
		values = []string{defaultNetwork}
	}
	endpoints := map[string]*types.EndpointConfig{}
	for i, text := range values {
		name, endpoint, err := arg.Network(text)
		if err != nil {
			return err
		}
		if name == defaultNetwork && len(values) > 1 {
			name = "bridge"
		}
		if len(values) > 1 && isExclusiveNetwork(name) {
			return fmt.Errorf("--network %s cannot be combined with another network", name)
		}
		if _, twice := endpoints[name]; twice {
			return fmt.Errorf("network %s is named twice", name)
		}
		if i == 0 {
			body.HostConfig.NetworkMode = name
			if err := f.fillFirst(body, name, &endpoint); err != nil {
				return err
			}
		}
		if isBuiltinNetwork(name) && (len(endpoint.Aliases) > 0 || endpoint.IPAMConfig != nil) {
			return fmt.Errorf("aliases and addresses of one's own need a network of your own, not %s", name)
		}
		endpoints[name] = &endpoint
	}
	if only := endpoints[body.HostConfig.NetworkMode]; len(endpoints) == 1 && emptyEndpoint(only) {
		return nil // the engine knows by the NetworkMode
	}
	body.NetworkingConfig = &types.NetworkingConfig{EndpointsConfig: endpoints}
	return nil
}

// fillFirst adds to an endpoint what the flags ask of the first network, and takes its hardware address out of it: the
// container's MacAddress is that of the first network.
func (f *createFlags) fillFirst(body *types.ContainerCreate, name string, endpoint *types.EndpointConfig) error {
	if endpoint.MacAddress != "" {
		if body.MacAddress != "" {
			return errors.New("--mac-address and mac-address of --network cannot be combined")
		}
		body.MacAddress, endpoint.MacAddress = endpoint.MacAddress, ""
	}
	endpoint.Aliases = append(endpoint.Aliases, f.aliases...)
	if !isBuiltinNetwork(name) {
		for _, text := range f.links {
			link, err := arg.Link(text)
			if err != nil {
				return err
			}
			endpoint.Links = append(endpoint.Links, link)
		}
	}
	if f.ip == "" && f.ip6 == "" && len(f.linkLocalIPs) == 0 {
		return nil
	}
	if endpoint.IPAMConfig == nil {
		endpoint.IPAMConfig = &types.IPAMConfig{}
	}
	ipam := endpoint.IPAMConfig
	ipam.LinkLocalIPs = append(ipam.LinkLocalIPs, f.linkLocalIPs...)
	if err := setAddress(&ipam.IPv4Address, "ip", f.ip, arg.IPv4); err != nil {
		return err
	}
	if err := setAddress(&ipam.IPv6Address, "ip6", f.ip6, arg.IPv6); err != nil {
		return err
	}
	for _, text := range f.linkLocalIPs {
		if err := arg.Address("link-local-ip", text); err != nil {
			return err
		}
	}
	return nil
}

func setAddress(field *string, flag, text string, check func(flag, text string) error) error {
	if text == "" {
		return nil
	}
	if *field != "" {
		return fmt.Errorf("--%s and %s of --network cannot be combined", flag, flag)
	}
	*field = text
	return check(flag, text)
}

// checkNetworks looks whether the networks of a container that is to run are there, and whether its ports can be published
// by one of them. The engine says so only at the start, when there is a container already, or not at all.
func (a *app) checkNetworks(ctx context.Context, body types.ContainerCreate) error {
	names := []string{body.HostConfig.NetworkMode}
	if body.NetworkingConfig != nil {
		names = append(names, sortedKeys(body.NetworkingConfig.EndpointsConfig)...)
	}
	slices.Sort(names)
	out := false // is there a way out for ports?
	for _, name := range slices.Compact(names) {
		if isBuiltinNetwork(name) {
			out = true // or it is the engine that says what becomes of the ports
			continue
		}
		engine, err := a.engineClient()
		if err != nil {
			return err
		}
		raw, err := engine.NetworkInspect(ctx, name)
		if err != nil {
			return err
		}
		var network types.Network
		if err := json.Unmarshal(raw, &network); err != nil {
			return fmt.Errorf("decode network %s: %w", name, err)
		}
		out = out || !network.Internal
	}
	if published := len(body.HostConfig.PortBindings) > 0 || body.HostConfig.PublishAllPorts; published && !out {
		a.printWarnings([]string{"no port is published: an internal network has no way in"})
	}
	return nil
}

// isExclusiveNetwork reports whether a network is all the network that a container can have.
func isExclusiveNetwork(name string) bool {
	return name == "host" || name == "none" || strings.HasPrefix(name, "container:")
}

// isBuiltinNetwork reports whether nobody chooses names and addresses in a network.
func isBuiltinNetwork(name string) bool {
	return name == defaultNetwork || name == "bridge" || isExclusiveNetwork(name)
}

func emptyEndpoint(e *types.EndpointConfig) bool {
	return e.IPAMConfig == nil && len(e.Links)+len(e.Aliases)+len(e.DriverOpts) == 0 && e.MacAddress == "" && e.GwPriority == 0
}
