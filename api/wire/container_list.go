package wire

import (
	"slices"
	"strings"
	"time"

	"moss/api/apiver"
	"moss/engine/container"
	"moss/engine/network"
)

// ContainerSummary is one entry of containers/json (document 1, 2.1).
type ContainerSummary struct {
	ID              string `json:"Id"`
	Names           []string
	Image           string
	ImageID         string `api:"1.21-"`
	Command         string
	Created         int64  // Unix seconds
	State           string `api:"1.24-"`
	Status          string
	Ports           []Port
	Labels          map[string]string
	SizeRw          *int64                  `json:",omitempty"` // bytes; when asked for
	SizeRootFs      *int64                  `json:",omitempty"`
	HostConfig      SummaryHostConfig       `api:"1.22-"`
	NetworkSettings *SummaryNetworkSettings `api:"1.22-"`
	Mounts          []MountPoint            `api:"1.24-"`
}

// SummaryHostConfig is what a list entry shows of HostConfig.
type SummaryHostConfig struct {
	NetworkMode string
}

// SummaryNetworkSettings is what a list entry shows of NetworkSettings.
type SummaryNetworkSettings struct {
	Networks map[string]EndpointSettings
}

// Port is one port of a list entry. Without PublicPort it is exposed and not published.
type Port struct {
	IP          string `json:",omitempty"`
	PrivatePort uint16
	PublicPort  uint16 `json:",omitempty"`
	Type        string
}

// MountPoint is one mount of a container (document 1, 2.1).
type MountPoint struct {
	Type        string `json:",omitempty" api:"1.24-"` // documented from 1.25 on; compose speaks 1.24, and keeps volumes by it
	Name        string `json:",omitempty" api:"1.22-"`
	Source      string
	Destination string
	Driver      string `json:",omitempty" api:"1.22-"`
	Mode        string
	RW          bool
	Propagation string `api:"1.22-"`
}

// EndpointSettings is a container's place in a network (document 1, 2.1).
type EndpointSettings struct {
	IPAMConfig          *IPAMConfig
	Links               []string
	Aliases             []string
	NetworkID           string
	EndpointID          string
	Gateway             string
	IPAddress           string
	IPPrefixLen         int
	IPv6Gateway         string
	GlobalIPv6Address   string
	GlobalIPv6PrefixLen int
	MacAddress          string
}

// NewContainerSummary fills a list entry but for the sizes. now is what Status counts from.
func NewContainerSummary(r *container.Record, now time.Time) *ContainerSummary {
	return &ContainerSummary{
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
		HostConfig:      SummaryHostConfig{NetworkMode: networkMode(r)},
		NetworkSettings: &SummaryNetworkSettings{Networks: listNetworks(r)},
		Mounts:          listMounts(r),
	}
}

// Fit shows the container of the record as clients before 1.25 know it: a port has one address where the client gave none.
func (s *ContainerSummary) Fit(version apiver.Version, r *container.Record) {
	if version >= showsAll {
		return
	}
	s.Ports = slices.DeleteFunc(s.Ports, func(p Port) bool {
		other := p
		other.IP = allIPv4
		return p.IP == allIPv6 && slices.Contains(s.Ports, other) &&
			!givesAddress(r, portKey(network.Port{ContainerPort: p.PrivatePort, Proto: p.Type}))
	})
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
func listPorts(r *container.Record) []Port {
	ports := make([]Port, 0, len(r.Network.Ports))
	published := map[string]bool{}
	for _, p := range r.Network.Ports {
		published[portKey(p)] = true
		ports = append(ports, Port{IP: p.HostIP, PrivatePort: p.ContainerPort, PublicPort: p.HostPort, Type: p.Proto})
	}
	if !r.State.Running() {
		return ports
	}
	for _, key := range sortedKeys(r.Config.ExposedPorts) {
		number, proto, ok := parsePort(key)
		if ok && !published[key] {
			ports = append(ports, Port{PrivatePort: number, Type: proto})
		}
	}
	return ports
}

func listMounts(r *container.Record) []MountPoint {
	points := r.MountPoints()
	list := make([]MountPoint, 0, len(points))
	for _, m := range points {
		list = append(list, MountPoint{
			Type: m.Type, Name: m.Name, Source: m.Source, Destination: m.Destination, Driver: m.Driver,
			Mode: m.Mode, RW: m.RW, Propagation: m.Propagation,
		})
	}
	return list
}

// listNetworks shows the places that a container has, and those it will get, without addresses, while it is not running.
func listNetworks(r *container.Record) map[string]EndpointSettings {
	shown := map[string]EndpointSettings{}
	for name, e := range r.Networks() {
		if name == "default" { // in records of before there were others
			name = container.NetworkBridge
		}
		shown[name] = askedEndpoint(e)
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

func askedEndpoint(asked container.EndpointConfig) EndpointSettings {
	s := EndpointSettings{NetworkID: asked.NetworkID, Links: asked.Links, Aliases: asked.Aliases}
	if asked.IPAMConfig != nil {
		ipam := IPAMConfig(*asked.IPAMConfig)
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
