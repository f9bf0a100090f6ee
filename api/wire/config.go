package wire

import (
	"moss/api/apiver"
	"moss/engine/container"
	"moss/engine/image"
)

// Config is a container's configuration (document 1, 2.2). It has the fields of container.Config in their order, so
// that one converts to the other. StopTimeout and Shell are of later versions and read at every one.
type Config struct {
	Hostname        string
	Domainname      string
	User            string
	AttachStdin     bool
	AttachStdout    bool
	AttachStderr    bool
	ExposedPorts    map[string]struct{} `json:",omitempty"`
	PublishService  string              `json:",omitempty"`
	Tty             bool
	OpenStdin       bool
	StdinOnce       bool
	Env             []string
	Cmd             container.Strings
	Healthcheck     *image.Healthcheck `json:",omitempty" api:"1.24-"`
	ArgsEscaped     bool               `json:",omitempty"`
	Image           string
	Volumes         map[string]struct{}
	WorkingDir      string
	Entrypoint      container.Strings
	NetworkDisabled bool
	MacAddress      string
	OnBuild         []string
	Labels          map[string]string
	StopSignal      container.Signal  `json:",omitempty" api:"1.21-"`
	StopTimeout     *int              `json:",omitempty"`
	Shell           container.Strings `json:",omitempty"`
}

// HostConfig is what a container asks of the host (document 1, 2.3). It has the fields of container.HostConfig in their
// order, so that one converts to the other. Fields of later versions that clients send at these as well are read at every
// version: to leave out AutoRemove, a mount or a rule without a word would be worse than to refuse it. later.go has the others.
type HostConfig struct {
	Binds                []string
	ContainerIDFile      string
	LogConfig            container.LogConfig
	NetworkMode          string
	PortBindings         map[string][]container.PortBinding
	RestartPolicy        container.RestartPolicy
	AutoRemove           bool
	VolumeDriver         string `api:"1.21-"`
	VolumesFrom          []string
	CapAdd               container.Strings
	CapDrop              container.Strings
	DNS                  []string `json:"Dns"`
	DNSOptions           []string `json:"DnsOptions" api:"1.21-"`
	DNSSearch            []string `json:"DnsSearch"`
	ExtraHosts           []string
	GroupAdd             []string `api:"1.20-"`
	IpcMode              string
	Cgroup               string
	Links                []string
	LxcConf              container.LxcConf `api:"-1.21"`
	OomScoreAdj          int               `api:"1.22-"`
	PidMode              string
	Privileged           bool
	PublishAllPorts      bool
	ReadonlyRootfs       bool
	SecurityOpt          []string
	StorageOpt           map[string]string `json:",omitempty" api:"1.24-"`
	Tmpfs                map[string]string `json:",omitempty" api:"1.22-"`
	UTSMode              string
	UsernsMode           string                  `api:"1.24-"`
	ShmSize              int64                   `api:"1.22-"`
	Sysctls              map[string]string       `json:",omitempty" api:"1.24-"`
	Runtime              string                  `api:"1.24-"`
	ConsoleSize          [2]uint                 `api:"1.22-"`
	Isolation            string                  `api:"1.22-"`
	Init                 *bool                   `json:",omitempty"`
	MaskedPaths          *[]string               `json:",omitempty"`
	ReadonlyPaths        *[]string               `json:",omitempty"`
	Mounts               []container.MountConfig `json:",omitempty"`
	CPUShares            int64                   `json:"CpuShares"`
	Memory               int64
	NanoCPUs             int64 `json:"NanoCpus,omitempty"`
	CgroupParent         string
	BlkioWeight          uint16                     `api:"1.20-"`
	BlkioWeightDevice    []container.WeightDevice   `api:"1.22-"`
	BlkioDeviceReadBps   []container.ThrottleDevice `api:"1.22-"`
	BlkioDeviceWriteBps  []container.ThrottleDevice `api:"1.22-"`
	BlkioDeviceReadIOps  []container.ThrottleDevice `api:"1.22-"`
	BlkioDeviceWriteIOps []container.ThrottleDevice `api:"1.22-"`
	CPUPeriod            int64                      `json:"CpuPeriod" api:"1.20-"`
	CPUQuota             int64                      `json:"CpuQuota" api:"1.20-"`
	CpusetCpus           string
	CpusetMems           string `api:"1.20-"`
	Devices              []container.Device
	DeviceCgroupRules    []string `json:",omitempty"`
	DiskQuota            int64    `api:"1.24-"`
	KernelMemory         int64    `api:"1.21-"`
	MemoryReservation    int64    `api:"1.21-"`
	MemorySwap           int64
	MemorySwappiness     *int64 `api:"1.20-"`
	OomKillDisable       *bool  `api:"1.20-"`
	PidsLimit            *int64 `api:"1.24-"`
	Ulimits              []container.Ulimit
	CPUCount             int64  `json:"CpuCount" api:"1.24-"`
	CPUPercent           int64  `json:"CpuPercent" api:"1.24-"`
	IOMaximumIOps        uint64 `api:"1.24-"`
	IOMaximumBandwidth   uint64 `api:"1.24-"`
}

// NetworkingConfig asks for places in networks (document 1, 2.2).
type NetworkingConfig struct {
	EndpointsConfig map[string]*EndpointConfig
}

// EndpointConfig asks for a place in one network. MacAddress is of later clients and read at every version, but for settings
// with an EndpointID: those were copied from an inspected container, whose address follows from an IP address that the new
// one need not get.
type EndpointConfig struct {
	IPAMConfig *IPAMConfig
	Links      []string
	Aliases    []string
	MacAddress string `json:",omitempty"`
	EndpointID string `json:",omitempty"`
}

// Asked returns what the settings ask for; nothing in particular if there are none.
func (e *EndpointConfig) Asked() container.EndpointConfig {
	if e == nil {
		return container.EndpointConfig{}
	}
	asked := container.EndpointConfig{Links: e.Links, Aliases: e.Aliases}
	if e.EndpointID == "" {
		asked.MacAddress = e.MacAddress
	}
	if e.IPAMConfig != nil {
		ipam := container.IPAMConfig(*e.IPAMConfig)
		asked.IPAMConfig = &ipam
	}
	return asked
}

// IPAMConfig asks for addresses in one network.
type IPAMConfig struct {
	IPv4Address  string   `json:",omitempty"`
	IPv6Address  string   `json:",omitempty"`
	LinkLocalIPs []string `json:",omitempty" api:"1.24-"`
}

// ContainerCreate is the body of containers/create. The fields after NetworkingConfig are those of HostConfig that engines of
// these versions read beside it as well; Host folds them in.
type ContainerCreate struct {
	Config
	HostConfig       *HostConfig
	NetworkingConfig *NetworkingConfig `api:"1.22-"`

	Memory       int64  `json:",omitempty"`
	MemorySwap   int64  `json:",omitempty"`
	CPUShares    int64  `json:"CpuShares,omitempty"`
	CpusetCpus   string `json:",omitempty"`
	Cpuset       string `json:",omitempty"`
	VolumeDriver string `json:",omitempty"`
}

// DecodeCreate reads the body of containers/create as DecodeWarn does; nil for null. Without a HostConfig its settings are
// those at the top level, as with engines of these versions.
func DecodeCreate(raw []byte, version apiver.Version) (body *ContainerCreate, warnings []string, err error) {
	warnings, err = DecodeWarn(raw, &body, version)
	if err != nil || body == nil || body.HostConfig != nil {
		return body, warnings, err
	}
	body.HostConfig = &HostConfig{}
	return body, warnings, Decode(raw, body.HostConfig, version)
}

// ContainerConfig returns the container's part of the body.
func (c *ContainerCreate) ContainerConfig() container.Config { return container.Config(c.Config) }

// Host returns the host's part of the body. A setting at the top level counts only where HostConfig leaves it at zero.
func (c *ContainerCreate) Host() container.HostConfig {
	var h container.HostConfig
	if c.HostConfig != nil {
		h = container.HostConfig(*c.HostConfig)
	}
	setIfZero(&h.Memory, c.Memory)
	setIfZero(&h.MemorySwap, c.MemorySwap)
	setIfZero(&h.CPUShares, c.CPUShares)
	setIfZero(&h.CpusetCpus, c.CpusetCpus)
	setIfZero(&h.CpusetCpus, c.Cpuset)
	setIfZero(&h.VolumeDriver, c.VolumeDriver)
	return h
}

func setIfZero[T comparable](to *T, from T) {
	var zero T
	if *to == zero {
		*to = from
	}
}

// Endpoints returns the networks the body asks for, by name.
func (c *ContainerCreate) Endpoints() map[string]container.EndpointConfig {
	if c.NetworkingConfig == nil || len(c.NetworkingConfig.EndpointsConfig) == 0 {
		return nil
	}
	endpoints := make(map[string]container.EndpointConfig, len(c.NetworkingConfig.EndpointsConfig))
	for name, asked := range c.NetworkingConfig.EndpointsConfig {
		endpoints[name] = asked.Asked()
	}
	return endpoints
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
