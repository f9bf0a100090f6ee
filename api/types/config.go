package types

// Config is a container's configuration (document 1, 2.2). It has the fields of the engine's type of that
// name, in their order. StopTimeout and Shell are of later versions and read at every one.
type Config struct {
	Hostname        string              `json:",omitzero"`
	Domainname      string              `json:",omitzero"`
	User            string              `json:",omitzero"`
	AttachStdin     bool                `json:",omitzero"`
	AttachStdout    bool                `json:",omitzero"`
	AttachStderr    bool                `json:",omitzero"`
	ExposedPorts    map[string]struct{} `json:",omitempty"`
	PublishService  string              `json:",omitempty"`
	Tty             bool                `json:",omitzero"`
	OpenStdin       bool                `json:",omitzero"`
	StdinOnce       bool                `json:",omitzero"`
	Env             []string            `json:",omitzero"`
	Cmd             Strings             `json:",omitzero"`
	Healthcheck     *Healthcheck        `json:",omitempty" api:"1.24-"`
	ArgsEscaped     bool                `json:",omitempty"`
	Image           string              `json:",omitzero"`
	Volumes         map[string]struct{} `json:",omitzero"`
	WorkingDir      string              `json:",omitzero"`
	Entrypoint      Strings             `json:",omitzero"`
	NetworkDisabled bool                `json:",omitzero"`
	MacAddress      string              `json:",omitzero"`
	OnBuild         []string            `json:",omitzero"`
	Labels          map[string]string   `json:",omitzero"`
	StopSignal      Signal              `json:",omitempty" api:"1.21-"`
	StopTimeout     *int                `json:",omitempty"`
	Shell           Strings             `json:",omitempty"`
}

// HostConfig is what a container asks of the host (document 1, 2.3). It has the fields of the engine's type of
// that name, in their order. Fields of later versions that clients send at these as well are read at every
// version: to leave out AutoRemove, a mount or a rule without a word would be worse than to refuse it. Package wire has a
// table of the others. The last two have no value but zero: package wire refuses them with another one.
type HostConfig struct {
	Binds                []string                 `json:",omitzero"`
	ContainerIDFile      string                   `json:",omitzero"`
	LogConfig            LogConfig                `json:",omitzero"`
	NetworkMode          string                   `json:",omitzero"`
	PortBindings         map[string][]PortBinding `json:",omitzero"`
	RestartPolicy        RestartPolicy            `json:",omitzero"`
	AutoRemove           bool                     `json:",omitzero"`
	VolumeDriver         string                   `json:",omitzero" api:"1.21-"`
	VolumesFrom          []string                 `json:",omitzero"`
	CapAdd               Strings                  `json:",omitzero"`
	CapDrop              Strings                  `json:",omitzero"`
	DNS                  []string                 `json:"Dns,omitzero"`
	DNSOptions           []string                 `json:"DnsOptions,omitzero" api:"1.21-"`
	DNSSearch            []string                 `json:"DnsSearch,omitzero"`
	ExtraHosts           []string                 `json:",omitzero"`
	GroupAdd             []string                 `json:",omitzero" api:"1.20-"`
	IpcMode              string                   `json:",omitzero"`
	Cgroup               string                   `json:",omitzero"`
	Links                []string                 `json:",omitzero"`
	LxcConf              LxcConf                  `json:",omitzero" api:"-1.21"`
	OomScoreAdj          int                      `json:",omitzero" api:"1.22-"`
	PidMode              string                   `json:",omitzero"`
	Privileged           bool                     `json:",omitzero"`
	PublishAllPorts      bool                     `json:",omitzero"`
	ReadonlyRootfs       bool                     `json:",omitzero"`
	SecurityOpt          []string                 `json:",omitzero"`
	StorageOpt           map[string]string        `json:",omitempty" api:"1.24-"`
	Tmpfs                map[string]string        `json:",omitempty" api:"1.22-"`
	UTSMode              string                   `json:",omitzero"`
	UsernsMode           string                   `json:",omitzero" api:"1.24-"`
	ShmSize              int64                    `json:",omitzero" api:"1.22-"`
	Sysctls              map[string]string        `json:",omitempty" api:"1.24-"`
	Runtime              string                   `json:",omitzero" api:"1.24-"`
	ConsoleSize          [2]uint16                `json:",omitzero" api:"1.22-"`
	Isolation            string                   `json:",omitzero" api:"1.22-"`
	Init                 *bool                    `json:",omitempty"`
	CgroupnsMode         string                   `json:",omitempty"`
	Annotations          map[string]string        `json:",omitempty"`
	MaskedPaths          *[]string                `json:",omitempty" always:"1.38-"`
	ReadonlyPaths        *[]string                `json:",omitempty" always:"1.38-"`
	Mounts               []MountConfig            `json:",omitempty"`
	CPUShares            int64                    `json:"CpuShares,omitzero"`
	Memory               int64                    `json:",omitzero"`
	NanoCPUs             int64                    `json:"NanoCpus,omitempty" always:"1.25-"`
	CgroupParent         string                   `json:",omitzero"`
	BlkioWeight          uint16                   `json:",omitzero" api:"1.20-"`
	BlkioWeightDevice    []WeightDevice           `json:",omitzero" api:"1.22-"`
	BlkioDeviceReadBps   []ThrottleDevice         `json:",omitzero" api:"1.22-"`
	BlkioDeviceWriteBps  []ThrottleDevice         `json:",omitzero" api:"1.22-"`
	BlkioDeviceReadIOps  []ThrottleDevice         `json:",omitzero" api:"1.22-"`
	BlkioDeviceWriteIOps []ThrottleDevice         `json:",omitzero" api:"1.22-"`
	CPUPeriod            int64                    `json:"CpuPeriod,omitzero" api:"1.20-"`
	CPUQuota             int64                    `json:"CpuQuota,omitzero" api:"1.20-"`
	CpusetCpus           string                   `json:",omitzero"`
	CpusetMems           string                   `json:",omitzero" api:"1.20-"`
	Devices              []Device                 `json:",omitzero"`
	DeviceCgroupRules    []string                 `json:",omitempty" always:"1.28-"`
	DeviceRequests       []DeviceRequest          `json:",omitempty" always:"1.40-"`
	DiskQuota            int64                    `json:",omitzero" api:"1.24-1.39"`
	KernelMemory         int64                    `json:",omitzero" api:"1.21-1.41"`
	MemoryReservation    int64                    `json:",omitzero" api:"1.21-"`
	MemorySwap           int64                    `json:",omitzero"`
	MemorySwappiness     *int64                   `json:",omitzero" api:"1.20-"`
	OomKillDisable       *bool                    `json:",omitzero" api:"1.20-"`
	PidsLimit            *int64                   `json:",omitzero" api:"1.24-"`
	Ulimits              []Ulimit                 `json:",omitzero"`
	CPUCount             int64                    `json:"CpuCount,omitzero" api:"1.24-"`
	CPUPercent           int64                    `json:"CpuPercent,omitzero" api:"1.24-"`
	IOMaximumIOps        uint64                   `json:",omitzero" api:"1.24-"`
	IOMaximumBandwidth   uint64                   `json:",omitzero" api:"1.24-"`
	CPURealtimePeriod    int64                    `json:"CpuRealtimePeriod,omitzero" api:"1.25-"`
	CPURealtimeRuntime   int64                    `json:"CpuRealtimeRuntime,omitzero" api:"1.25-"`
}

// NetworkingConfig asks for places in networks (document 1, 2.2).
type NetworkingConfig struct {
	EndpointsConfig map[string]*EndpointConfig
}

// EndpointConfig asks for a place in one network. MacAddress is of later clients and read at every version, but for settings
// with an EndpointID: those were copied from an inspected container, whose address follows from an IP address that the new
// one need not get.
type EndpointConfig struct {
	IPAMConfig *IPAMConfig `json:",omitzero"`
	Links      []string    `json:",omitzero"`
	Aliases    []string    `json:",omitzero"`
	MacAddress string      `json:",omitempty"`
	EndpointID string      `json:",omitempty"`
	GwPriority int         `json:",omitempty"` // of 1.48, at every version

	DriverOpts map[string]string `json:",omitempty"` // of 1.32, at every version
}

// IPAMConfig asks for addresses in one network.
type IPAMConfig struct {
	IPv4Address  string   `json:",omitempty"`
	IPv6Address  string   `json:",omitempty"`
	LinkLocalIPs []string `json:",omitempty" api:"1.24-"`
}

// ContainerCreate is the body of containers/create. The fields after NetworkingConfig are those of HostConfig that engines of
// these versions read beside it as well; wire.ToCreateHost folds them in.
type ContainerCreate struct {
	Config
	HostConfig       *HostConfig
	NetworkingConfig *NetworkingConfig `json:",omitzero" api:"1.22-"`

	Memory       int64  `json:",omitempty"`
	MemorySwap   int64  `json:",omitempty"`
	CPUShares    int64  `json:"CpuShares,omitempty"`
	CpusetCpus   string `json:",omitempty"`
	Cpuset       string `json:",omitempty"`
	VolumeDriver string `json:",omitempty"`
}

// ContainerCreated is the answer to containers/create.
type ContainerCreated struct {
	ID       string `json:"Id"`
	Warnings []string
}

// ContainerWaited is the answer to containers/{id}/wait.
type ContainerWaited struct {
	StatusCode int        // -1 with an Error
	Error      *WaitError `json:",omitempty"` // why there is no code; nil if there is one. Of 1.30, at every version
}

// WaitError says why a wait did not come to its end: the engine ends before, or a removal has failed.
type WaitError struct{ Message string }
