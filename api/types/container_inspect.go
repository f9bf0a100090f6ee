package types

import "time"

// ContainerInspect is the answer to containers/{id}/json (document 1, 2.4).
type ContainerInspect struct {
	ID              string `json:"Id"`
	Created         time.Time
	Path            string
	Args            []string
	State           ContainerState
	Image           string // id
	ResolvConfPath  string
	HostnamePath    string
	HostsPath       string
	LogPath         string
	Name            string
	RestartCount    int
	Driver          string
	Platform        string `api:"1.36-"`
	ExecDriver      string `api:"-1.22"`
	MountLabel      string
	ProcessLabel    string
	AppArmorProfile string
	ExecIDs         []string
	HostConfig      HostConfig
	GraphDriver     GraphDriver
	SizeRw          *int64            `json:",omitempty" api:"1.21-"` // bytes; when asked for
	SizeRootFs      *int64            `json:",omitempty" api:"1.21-"`
	Mounts          []MountPoint      `api:"1.20-"`
	Volumes         map[string]string `api:"-1.19"` // source by destination
	VolumesRW       map[string]bool   `api:"-1.19"`
	Config          InspectConfig
	NetworkSettings NetworkSettings
}

// InspectConfig is Config with what older versions showed in it as well.
type InspectConfig struct {
	Config
	VolumeDriver string   `api:"-1.20"`
	Memory       int64    `api:"-1.19"`
	MemorySwap   int64    `api:"-1.19"`
	CPUShares    int64    `json:"CpuShares" api:"-1.19"`
	Cpuset       string   `api:"-1.19"`
	PortSpecs    []string `api:"-1.18"`

	NoPorts *struct{} `json:"ExposedPorts,omitempty" api:"-1.20"` // in the place of ExposedPorts, which leaves out none at all
}

// ContainerState is the State of an inspected container.
type ContainerState struct {
	Status     string `api:"1.21-"`
	Running    bool
	Paused     bool
	Restarting bool
	OOMKilled  bool
	Dead       bool `api:"1.22-"`
	Pid        int
	ExitCode   int
	Error      string
	StartedAt  time.Time
	FinishedAt time.Time
	Health     *Health `json:",omitempty" api:"1.24-"`
}

// Health is what is known of an inspected container's health.
type Health struct {
	Status        string
	FailingStreak int
	Log           []HealthResult
}

// HealthResult is the outcome of one health check.
type HealthResult struct {
	Start    time.Time
	End      time.Time
	ExitCode int
	Output   string
}

// GraphDriver names the storage driver that holds a filesystem, with its facts.
type GraphDriver struct {
	Name string
	Data map[string]string
}

// NetworkSettings is the network of an inspected container.
type NetworkSettings struct {
	Bridge                 string
	SandboxID              string `api:"1.21-"`
	HairpinMode            bool   `api:"1.21-"`
	LinkLocalIPv6Address   string `api:"1.21-"`
	LinkLocalIPv6PrefixLen int    `api:"1.21-"`
	Ports                  map[string][]PortBinding
	PortMapping            map[string]map[string]string `api:"-1.20"`
	SandboxKey             string                       `api:"1.21-"`
	SecondaryIPAddresses   []string                     `api:"1.21-"`
	SecondaryIPv6Addresses []string                     `api:"1.21-"`
	EndpointID             string                       `api:"1.21-"`
	Gateway                string
	GlobalIPv6Address      string `api:"1.21-"`
	GlobalIPv6PrefixLen    int    `api:"1.21-"`
	IPAddress              string
	IPPrefixLen            int
	IPv6Gateway            string `api:"1.21-"`
	MacAddress             string
	Networks               map[string]EndpointSettings `api:"1.21-"`
}
