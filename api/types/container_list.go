package types

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
	Annotations map[string]string `json:",omitempty" api:"1.46-"`
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
	DNSNames            []string          `api:"1.44-"` // that it answers to in the network; null in a built-in one
	GwPriority          int               `api:"1.48-"`
	DriverOpts          map[string]string `api:"1.32-"`
}
