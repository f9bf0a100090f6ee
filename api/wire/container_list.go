package wire

import (
	"slices"
	"strings"
	"time"

	"moss/api/apiver"
	"moss/api/types"
	"moss/engine/container"
	"moss/engine/id"
	"moss/engine/network"
)

// NewContainerSummary fills a list entry but for the sizes. now is what Status counts from.
func NewContainerSummary(r *container.Record, now time.Time) *types.ContainerSummary {
	return &types.ContainerSummary{
		ID:              r.ID,
		Names:           append([]string{"/" + r.Name}, r.LinkedAs...),
		Image:           r.Image,
		ImageID:         r.ImageID,
		Command:         commandLine(r),
		Created:         r.Created.Unix(),
		State:           r.State.String(),
		Status:          container.Status(r, now),
		Ports:           listPorts(r),
		Labels:          orEmpty(r.Config.Labels),
		HostConfig:      types.SummaryHostConfig{NetworkMode: networkMode(r), Annotations: r.Host.Annotations},
		NetworkSettings: &types.SummaryNetworkSettings{Networks: listNetworks(r)},
		Mounts:          listMounts(r),
	}
}

// FitSummary shows the container of the record as clients of a version know it. Before 1.25 a port has one address where the
// client gave none. From 1.45 on the aliases are those that the client gave.
func FitSummary(s *types.ContainerSummary, version apiver.Version, r *container.Record) {
	fitAliases(s.NetworkSettings.Networks, version, r)
	if version >= showsAll {
		return
	}
	s.Ports = slices.DeleteFunc(s.Ports, func(p types.Port) bool {
		other := p
		other.IP = allIPv4
		return p.IP == allIPv6 && slices.Contains(s.Ports, other) &&
			!givesAddress(r, portKey(network.Port{ContainerPort: p.PrivatePort, Proto: p.Type}))
	})
}

// onlyOwnAliases is the version from which on the short id of a container is none of its aliases.
const onlyOwnAliases = apiver.Version(1<<16 | 45)

func fitAliases(networks map[string]types.EndpointSettings, version apiver.Version, r *container.Record) {
	if version < onlyOwnAliases {
		return
	}
	for name, e := range networks {
		own := func(alias string) bool { return alias == id.Short(r.ID) }
		if !slices.ContainsFunc(e.Aliases, own) {
			continue
		}
		e.Aliases = slices.DeleteFunc(slices.Clone(e.Aliases), own) // the list is the record's
		networks[name] = e
	}
}

// commandLine shows the command line as clients know it: what has a space is quoted.
func commandLine(r *container.Record) string {
	words := make([]string, 0, 1+len(r.Args))
	words = append(words, r.Path)
	for _, arg := range r.Args {
		if strings.Contains(arg, " ") {
			arg = "'" + arg + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// listPorts shows the published ports, and of a running container those that are only exposed.
func listPorts(r *container.Record) []types.Port {
	ports := make([]types.Port, 0, len(r.Network.Ports))
	published := map[string]bool{}
	for _, p := range r.Network.Ports {
		published[portKey(p)] = true
		ports = append(ports, types.Port{IP: p.HostIP, PrivatePort: p.ContainerPort, PublicPort: p.HostPort, Type: p.Proto})
	}
	if !r.State.Running() {
		return ports
	}
	for _, key := range sortedKeys(r.Config.ExposedPorts) {
		number, proto, ok := parsePort(key)
		if ok && !published[key] {
			ports = append(ports, types.Port{PrivatePort: number, Type: proto})
		}
	}
	return ports
}

func listMounts(r *container.Record) []types.MountPoint {
	points := r.MountPoints()
	list := make([]types.MountPoint, 0, len(points))
	for _, m := range points {
		list = append(list, types.MountPoint{
			Type: m.Type, Name: m.Name, Source: m.Source, Destination: m.Destination, Driver: m.Driver,
			Mode: m.Mode, RW: m.RW, Propagation: m.Propagation,
		})
	}
	return list
}

// listNetworks shows the places that a container has, and those it will get, with what was asked for, while it is not running.
func listNetworks(r *container.Record) map[string]types.EndpointSettings {
	shown := map[string]types.EndpointSettings{}
	for name, e := range r.Networks() {
		mac := r.AskedMAC(name)
		if name == "default" { // in records of before there were others
			name = container.NetworkBridge
		}
		s := askedEndpoint(e)
		s.MacAddress, s.DNSNames = mac, r.DNSNames(name, e)
		shown[name] = s
	}
	for name, e := range r.Network.Endpoints {
		s := shown[name]
		s.NetworkID, s.EndpointID = e.NetworkID, e.EndpointID
		s.Gateway, s.IPAddress, s.IPPrefixLen = e.Gateway, e.IPAddress, e.IPPrefixLen
		s.IPv6Gateway, s.GlobalIPv6Address, s.GlobalIPv6PrefixLen = e.IPv6Gateway, e.GlobalIPv6Address, e.GlobalIPv6PrefixLen
		s.MacAddress = e.MacAddress
		shown[name] = s
	}
	return shown
}

func askedEndpoint(asked container.EndpointConfig) types.EndpointSettings {
	s := types.EndpointSettings{
		NetworkID: asked.NetworkID, Links: asked.Links, Aliases: asked.Aliases, GwPriority: asked.GwPriority,
		DriverOpts: asked.DriverOpts,
	}
	if asked.IPAMConfig != nil {
		ipam := types.IPAMConfig(*asked.IPAMConfig)
		s.IPAMConfig = &ipam
	}
	return s
}

func networkMode(r *container.Record) string {
	if r.Host.NetworkMode == "" {
		return "default"
	}
	return r.Host.NetworkMode
}
