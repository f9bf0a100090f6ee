package client

import "time"

// Create is the body that creates a container (API document 1, 2.2). Fields at their zero value are left out, so that
// the engine's and the image's own values hold.
type Create struct {
	Hostname         string              `json:",omitempty"`
	Domainname       string              `json:",omitempty"`
	User             string              `json:",omitempty"`
	AttachStdin      bool                `json:",omitempty"`
	AttachStdout     bool                `json:",omitempty"`
	AttachStderr     bool                `json:",omitempty"`
	Tty              bool                `json:",omitempty"`
	OpenStdin        bool                `json:",omitempty"`
	StdinOnce        bool                `json:",omitempty"`
	Env              []string            `json:",omitempty"`
	Cmd              []string            `json:",omitempty"`
	Entrypoint       *[]string           `json:",omitempty"` // a list with one empty string clears the image's
	Image            string              `json:",omitempty"`
	Labels           map[string]string   `json:",omitempty"`
	Volumes          map[string]struct{} `json:",omitempty"`
	Healthcheck      *Healthcheck        `json:",omitempty"`
	WorkingDir       string              `json:",omitempty"`
	MacAddress       string              `json:",omitempty"`
	ExposedPorts     map[string]struct{} `json:",omitempty"`
	StopSignal       string              `json:",omitempty"`
	HostConfig       HostConfig
	NetworkingConfig *NetworkingConfig `json:",omitempty"`
}

// HostConfig is what is asked of the host (API document 1, 2.3). Sizes are bytes, CPU period and quota microseconds.
type HostConfig struct {
	Binds             []string                 `json:",omitempty"`
	ContainerIDFile   string                   `json:",omitempty"`
	LogConfig         *LogConfig               `json:",omitempty"`
	NetworkMode       string                   `json:",omitempty"`
	PortBindings      map[string][]PortBinding `json:",omitempty"`
	PublishAllPorts   bool                     `json:",omitempty"`
	RestartPolicy     *RestartPolicy           `json:",omitempty"`
	AutoRemove        bool                     `json:",omitempty"`
	VolumeDriver      string                   `json:",omitempty"`
	VolumesFrom       []string                 `json:",omitempty"`
	CapAdd            []string                 `json:",omitempty"`
	CapDrop           []string                 `json:",omitempty"`
	DNS               []string                 `json:"Dns,omitempty"`
	DNSOptions        []string                 `json:"DnsOptions,omitempty"`
	DNSSearch         []string                 `json:"DnsSearch,omitempty"`
	ExtraHosts        []string                 `json:",omitempty"`
	GroupAdd          []string                 `json:",omitempty"`
	Links             []string                 `json:",omitempty"`
	IpcMode           string                   `json:",omitempty"`
	PidMode           string                   `json:",omitempty"`
	UTSMode           string                   `json:",omitempty"`
	UsernsMode        string                   `json:",omitempty"`
	Privileged        bool                     `json:",omitempty"`
	ReadonlyRootfs    bool                     `json:",omitempty"`
	SecurityOpt       []string                 `json:",omitempty"`
	StorageOpt        map[string]string        `json:",omitempty"`
	Tmpfs             map[string]string        `json:",omitempty"`
	Mounts            []MountConfig            `json:",omitempty"`
	ShmSize           int64                    `json:",omitempty"`
	Sysctls           map[string]string        `json:",omitempty"`
	Runtime           string                   `json:",omitempty"`
	Isolation         string                   `json:",omitempty"`
	ConsoleSize       *[2]int                  `json:",omitempty"` // height, width
	OomScoreAdj       int                      `json:",omitempty"`
	OomKillDisable    *bool                    `json:",omitempty"`
	CPUShares         int64                    `json:"CpuShares,omitempty"`
	CPUPeriod         int64                    `json:"CpuPeriod,omitempty"`
	CPUQuota          int64                    `json:"CpuQuota,omitempty"`
	CpusetCpus        string                   `json:",omitempty"`
	CpusetMems        string                   `json:",omitempty"`
	Memory            int64                    `json:",omitempty"`
	MemoryReservation int64                    `json:",omitempty"`
	MemorySwap        int64                    `json:",omitempty"`
	MemorySwappiness  *int64                   `json:",omitempty"`
	KernelMemory      int64                    `json:",omitempty"`
	BlkioWeight       uint16                   `json:",omitempty"`
	CgroupParent      string                   `json:",omitempty"`
	PidsLimit         *int64                   `json:",omitempty"`
	Devices           []Device                 `json:",omitempty"`
	Ulimits           []Ulimit                 `json:",omitempty"`

	BlkioWeightDevice    []WeightDevice   `json:",omitempty"`
	BlkioDeviceReadBps   []ThrottleDevice `json:",omitempty"`
	BlkioDeviceWriteBps  []ThrottleDevice `json:",omitempty"`
	BlkioDeviceReadIOps  []ThrottleDevice `json:",omitempty"`
	BlkioDeviceWriteIOps []ThrottleDevice `json:",omitempty"`

	// These are for Windows; this engine warns of them.
	CPUPercent         int64  `json:"CpuPercent,omitempty"`
	IOMaximumBandwidth uint64 `json:",omitempty"` // bytes per second
	IOMaximumIOps      uint64 `json:",omitempty"`
}

// Healthcheck says how a container's health is tested. Zero values are the image's (API document 1, 2.2).
type Healthcheck struct {
	Test        []string      `json:",omitempty"` // NONE, CMD and arguments, or CMD-SHELL and a command
	Interval    time.Duration `json:",omitempty"`
	Timeout     time.Duration `json:",omitempty"`
	StartPeriod time.Duration `json:",omitempty"`
	Retries     int           `json:",omitempty"`
}

// WeightDevice is a block device's weight, 10 to 1000.
type WeightDevice struct {
	Path   string
	Weight uint16
}

// ThrottleDevice is a block device's limit, in bytes or operations per second.
type ThrottleDevice struct {
	Path string
	Rate uint64
}

// LogConfig names the log driver and its options.
type LogConfig struct {
	Type   string            `json:",omitempty"`
	Config map[string]string `json:",omitempty"`
}

// PortBinding is one host side of a published port.
type PortBinding struct {
	HostIP   string `json:"HostIp,omitempty"`
	HostPort string // a port, a range a-b or empty for any
}

// RestartPolicy says when an ended container starts again.
type RestartPolicy struct {
	Name              string
	MaximumRetryCount int `json:",omitempty"`
}

// Device is a host device made visible in the container.
type Device struct {
	PathOnHost        string
	PathInContainer   string
	CgroupPermissions string
}

// Ulimit is one resource limit of the container's processes; -1 is unlimited.
type Ulimit struct {
	Name string
	Soft int64
	Hard int64
}

// NetworkingConfig is what is asked of networks, by their name.
type NetworkingConfig struct {
	EndpointsConfig map[string]*EndpointConfig
}

// EndpointConfig is what is asked of one network.
type EndpointConfig struct {
	IPAMConfig *IPAMConfig `json:",omitempty"`
	Links      []string    `json:",omitempty"`
	Aliases    []string    `json:",omitempty"`
	MacAddress string      `json:",omitempty"`
}

// IPAMConfig asks for addresses.
type IPAMConfig struct {
	IPv4Address  string   `json:",omitempty"`
	IPv6Address  string   `json:",omitempty"`
	LinkLocalIPs []string `json:",omitempty"`
}

// Created is the answer to a create.
type Created struct {
	ID       string `json:"Id"`
	Warnings []string
}
