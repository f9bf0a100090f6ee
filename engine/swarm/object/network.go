package object

import (
	"strconv"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
	"moss/engine/container"
	"moss/engine/fault"
)

var resolutionModes = []option[api.EndpointSpec_ResolutionMode]{ //nolint:gochecknoglobals // a constant
	{"vip", api.ResolutionModeVirtualIP},
	{"dnsrr", api.ResolutionModeDNSRoundRobin},
}

var protocols = []option[api.PortConfig_Protocol]{ //nolint:gochecknoglobals // a constant
	{"tcp", api.ProtocolTCP},
	{"udp", api.ProtocolUDP},
	{"sctp", api.ProtocolSCTP},
}

var publishModes = []option[api.PortConfig_PublishMode]{ //nolint:gochecknoglobals // a constant
	{"ingress", api.PublishModeIngress},
	{"host", api.PublishModeHost},
}

const maxPort = 65535

func toNetworks(field string, networks []types.ServiceNetwork) ([]*api.NetworkAttachmentConfig, error) {
	configs := make([]*api.NetworkAttachmentConfig, 0, len(networks))
	for i := range networks {
		if networks[i].Target == "" {
			return nil, refuseField(indexField(field, i)+".Target", "want the name or the id of a network")
		}
		for _, alias := range networks[i].Aliases {
			if err := container.CheckAlias(alias); err != nil {
				return nil, refuseField(indexField(field, i)+".Aliases", "%v", err)
			}
		}
		configs = append(configs, &api.NetworkAttachmentConfig{Target: networks[i].Target, Aliases: networks[i].Aliases})
	}
	if len(configs) == 0 {
		return nil, nil
	}
	return configs, nil
}

func newNetworks(configs []*api.NetworkAttachmentConfig) []types.ServiceNetwork {
	return convertList(configs, func(c **api.NetworkAttachmentConfig) types.ServiceNetwork {
		return types.ServiceNetwork{Target: (*c).Target, Aliases: (*c).Aliases}
	})
}

// indexField names an element of a list.
func indexField(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

func toEndpoint(e *types.EndpointSpec) (*api.EndpointSpec, error) {
	if e == nil {
		return nil, nil
	}
	mode, err := toOption("EndpointSpec.Mode", e.Mode, resolutionModes)
	if err != nil {
		return nil, err
	}
	if mode == api.ResolutionModeDNSRoundRobin && len(e.Ports) > 0 {
		return nil, refuseField("EndpointSpec.Ports", "ports are published in mode vip only")
	}
	spec := &api.EndpointSpec{Mode: mode}
	type hostPort struct {
		port     uint32
		protocol api.PortConfig_Protocol
	}
	taken := map[hostPort]bool{}
	for i := range e.Ports {
		field := indexField("EndpointSpec.Ports", i)
		port, err := toPort(field, &e.Ports[i])
		if err != nil {
			return nil, err
		}
		at := hostPort{port.PublishedPort, port.Protocol}
		if at.port != 0 && taken[at] {
			return nil, refuseField(field+".PublishedPort", "%d is published twice", at.port)
		}
		taken[at] = true
		spec.Ports = append(spec.Ports, port)
	}
	return spec, nil
}

func toPort(field string, p *types.ServicePort) (*api.PortConfig, error) {
	protocol, err := toOption(field+".Protocol", p.Protocol, protocols[:2])
	if err != nil {
		return nil, err
	}
	if p.TargetPort == 0 || p.TargetPort > maxPort {
		return nil, refuseField(field+".TargetPort", "%d is not from 1 to %d", p.TargetPort, maxPort)
	}
	if p.PublishedPort > maxPort {
		return nil, refuseField(field+".PublishedPort", "%d is not from 0 to %d", p.PublishedPort, maxPort)
	}
	mode, err := toOption(field+".PublishMode", p.PublishMode, publishModes)
	if err != nil {
		return nil, err
	}
	if mode == api.PublishModeHost {
		return nil, fault.Unsupported("%s.PublishMode: ports of the node of a task are not supported: want ingress", field)
	}
	return &api.PortConfig{
		Name: p.Name, Protocol: protocol, TargetPort: p.TargetPort, PublishedPort: p.PublishedPort,
	}, nil
}

func newEndpointSpec(e *api.EndpointSpec) *types.EndpointSpec {
	if e == nil {
		return nil
	}
	return &types.EndpointSpec{Mode: newOption(e.Mode, resolutionModes), Ports: newPorts(e.Ports)}
}

func newPorts(ports []*api.PortConfig) []types.ServicePort {
	return convertList(ports, func(p **api.PortConfig) types.ServicePort {
		return types.ServicePort{
			Name: (*p).Name, Protocol: newOption((*p).Protocol, protocols),
			TargetPort: (*p).TargetPort, PublishedPort: (*p).PublishedPort, PublishMode: newOption((*p).PublishMode, publishModes),
		}
	})
}

// newEndpoint shows how a service is reached. SwarmKit notes nothing of a service that has neither addresses nor ports: its
// specification says it all.
func newEndpoint(s *api.Service) types.ServiceEndpoint {
	e := s.Endpoint
	if e == nil {
		e = &api.Endpoint{Spec: s.Spec.Endpoint}
	}
	endpoint := types.ServiceEndpoint{
		Ports: newPorts(e.Ports),
		VirtualIPs: convertList(e.VirtualIPs, func(v **api.Endpoint_VirtualIP) types.ServiceVirtualIP {
			return types.ServiceVirtualIP{NetworkID: (*v).NetworkID, Addr: (*v).Addr}
		}),
	}
	if spec := newEndpointSpec(e.Spec); spec != nil {
		endpoint.Spec = *spec
	}
	return endpoint
}

func newAttachment(a *api.NetworkAttachment) types.NetworkAttachment {
	attachment := types.NetworkAttachment{Addresses: a.Addresses}
	if n := a.Network; n != nil {
		attachment.Network = types.SwarmNetwork{
			ID: n.ID, ObjectMeta: newMeta(&n.Meta), Spec: newNetworkSpec(&n.Spec), IPAMOptions: newIPAM(n.IPAM),
		}
		if state := newNetworkDriver(n.DriverState); state != nil {
			attachment.Network.DriverState = *state
		}
	}
	return attachment
}

func newNetworkSpec(s *api.NetworkSpec) types.SwarmNetworkSpec {
	return types.SwarmNetworkSpec{
		Annotations: newAnnotations(&s.Annotations), DriverConfiguration: newNetworkDriver(s.DriverConfig),
		IPv6Enabled: s.Ipv6Enabled, Internal: s.Internal, IPAMOptions: newIPAM(s.IPAM),
	}
}

func newNetworkDriver(d *api.Driver) *types.SwarmNetworkDriver {
	if d == nil {
		return nil
	}
	return &types.SwarmNetworkDriver{Name: d.Name, Options: d.Options}
}

func newIPAM(o *api.IPAMOptions) *types.SwarmNetworkIPAMSet {
	if o == nil {
		return nil
	}
	set := &types.SwarmNetworkIPAMSet{
		Configs: convertList(o.Configs, func(c **api.IPAMConfig) types.SwarmNetworkPool {
			return types.SwarmNetworkPool{Subnet: (*c).Subnet, Range: (*c).Range, Gateway: (*c).Gateway}
		}),
	}
	if driver := newNetworkDriver(o.Driver); driver != nil {
		set.Driver = *driver
	}
	return set
}
