package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
)

// scopeSwarm is the scope of networks that services can be in; scopeLocal that of networks of one node.
const scopeSwarm, scopeLocal = "swarm", "local"

func (f *serviceFlags) changeEndpoint(spec *types.ServiceSpec, _ surroundings) error {
	if err := f.changeNetworks(spec); err != nil {
		return err
	}
	to := types.EndpointSpec{}
	if spec.EndpointSpec != nil {
		to = *spec.EndpointSpec
	}
	to.Mode = cmp.Or(f.endpointMode, to.Mode)
	for _, text := range f.publish.remove {
		to.Ports = slices.DeleteFunc(to.Ports, func(p types.ServicePort) bool {
			port := strconv.FormatUint(uint64(p.TargetPort), 10)
			return text == port || text == port+"/"+protocolOf(p)
		})
	}
	for _, text := range f.publish.add {
		port, err := arg.ServicePort(text)
		if err != nil {
			return err
		}
		to.Ports = putPort(to.Ports, port)
	}
	if to.Mode != "" || len(to.Ports) > 0 {
		spec.EndpointSpec = &to
	}
	return checkChoice("endpoint-mode", f.endpointMode, []string{"vip", "dnsrr"})
}

func protocolOf(p types.ServicePort) string { return cmp.Or(p.Protocol, "tcp") }

// putPort adds a port in place of the one that has its published port: a port leads to one place.
func putPort(ports []types.ServicePort, port types.ServicePort) []types.ServicePort {
	same := func(p types.ServicePort) bool {
		return p.PublishedPort == port.PublishedPort && protocolOf(p) == protocolOf(port) &&
			(p.PublishedPort != 0 || p.TargetPort == port.TargetPort)
	}
	if i := slices.IndexFunc(ports, same); i >= 0 {
		ports[i] = port
		return ports
	}
	return append(ports, port)
}

func (f *serviceFlags) changeNetworks(spec *types.ServiceSpec) error {
	if len(f.network.add)+len(f.network.remove) == 0 {
		return nil
	}
	networks := spec.TaskTemplate.Networks
	if len(networks) == 0 {
		networks = spec.Networks // where older clients put them; those of the template count alone if there are both
	}
	spec.Networks = nil
	networks = slices.DeleteFunc(networks, func(n types.ServiceNetwork) bool {
		return slices.Contains(f.network.remove, n.Target)
	})
	for _, text := range f.network.add {
		added, err := readServiceNetwork(text)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(networks, func(n types.ServiceNetwork) bool { return n.Target == added.Target }); i >= 0 {
			networks[i] = added
		} else {
			networks = append(networks, added)
		}
	}
	spec.TaskTemplate.Networks = networks
	return nil
}

// readServiceNetwork reads one --network value of a service: a name, or name=NET,alias=NAME,….
func readServiceNetwork(text string) (types.ServiceNetwork, error) {
	name, endpoint, err := arg.Network(text)
	if err != nil {
		return types.ServiceNetwork{}, err
	}
	network := types.ServiceNetwork{Target: name, Aliases: endpoint.Aliases}
	if endpoint.Aliases = nil; !emptyEndpoint(&endpoint) {
		return network, fmt.Errorf("network %q: the swarm chooses the addresses of tasks: want name and alias only", text)
	}
	return network, nil
}

// resolveNetworks puts ids in the place of the names of networks in the flags: a service's record names its networks by id. What
// the swarm does not have stays for the engine to refuse.
func (f *serviceFlags) resolveNetworks(ctx context.Context, engine *client.Client) error {
	if len(f.network.add)+len(f.network.remove) == 0 {
		return nil
	}
	list, err := engine.NetworkList(ctx, nil)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(n types.Network) bool { return n.Scope != scopeSwarm })
	resolve := func(ref string) string {
		for _, n := range list {
			if n.ID == ref || n.Name == ref {
				return n.ID
			}
		}
		return ref
	}
	for i, ref := range f.network.remove {
		f.network.remove[i] = resolve(ref)
	}
	for i, text := range f.network.add {
		network, err := readServiceNetwork(text)
		if err != nil {
			return err
		}
		f.network.add[i] = "name=" + resolve(network.Target)
		for _, alias := range network.Aliases {
			f.network.add[i] += ",alias=" + alias
		}
	}
	return nil
}

// completeServiceNetworks offers names of networks that services can be in.
func (a *app) completeServiceNetworks() completer {
	return a.completeNetworksOf(-1, func(n types.Network) bool { return n.Scope == scopeSwarm && n.Name != ingressNetwork })
}

// ingressNetwork carries published ports. No service names it.
const ingressNetwork = "ingress"

func servicePorts(ports []types.ServicePort) string {
	shown := make([]string, 0, len(ports))
	for _, port := range ports {
		shown = append(shown, fmt.Sprintf("*:%d->%d/%s", port.PublishedPort, port.TargetPort, protocolOf(port)))
	}
	return strings.Join(shown, ", ")
}
