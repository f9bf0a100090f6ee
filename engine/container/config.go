package container

import (
	"encoding/json"
	"math"

	"moss/engine/image"
)

// Config is what a client asks of the container itself (API document 1, 2.2).
type Config struct {
	Hostname        string
	Domainname      string
	User            string
	AttachStdin     bool
	AttachStdout    bool
	AttachStderr    bool
	ExposedPorts    map[string]struct{}
	PublishService  string
	Tty             bool
	OpenStdin       bool
	StdinOnce       bool
	Env             []string
	Cmd             []string
	Healthcheck     *image.Healthcheck
	ArgsEscaped     bool
	Image           string
	Volumes         map[string]struct{}
	WorkingDir      string
	Entrypoint      []string
	NetworkDisabled bool
	MacAddress      string
	OnBuild         []string
	Labels          map[string]string
	StopSignal      string
	StopTimeout     *int // seconds
	Shell           []string
}

// HostConfig is what a client asks of the host for the container (API document 1, 2.3). Sizes are bytes, CpuPeriod and
// CpuQuota microseconds.
type HostConfig struct {
	Binds                []string
	ContainerIDFile      string
	LogConfig            LogConfig
	NetworkMode          string
	PortBindings         map[string][]PortBinding
	RestartPolicy        RestartPolicy
	AutoRemove           bool
	VolumeDriver         string
	VolumesFrom          []string
	CapAdd               []string
	CapDrop              []string
	DNS                  []string
	DNSOptions           []string
	DNSSearch            []string
	ExtraHosts           []string
	GroupAdd             []string
	IpcMode              string
	Cgroup               string
	Links                []string
	LxcConf              []LxcPair
	OomScoreAdj          int
	PidMode              string
	Privileged           bool
	PublishAllPorts      bool
	ReadonlyRootfs       bool
	SecurityOpt          []string
	StorageOpt           map[string]string
	Tmpfs                map[string]string
	UTSMode              string
	UsernsMode           string
	ShmSize              int64
	Sysctls              map[string]string
	Runtime              string
	ConsoleSize          TerminalSize
	Isolation            string
	Init                 *bool
	CgroupnsMode         string
	Annotations          map[string]string
	MaskedPaths          *[]string
	ReadonlyPaths        *[]string
	Mounts               []MountConfig
	CPUShares            int64
	Memory               int64
	NanoCPUs             int64
	CgroupParent         string
	BlkioWeight          uint16
	BlkioWeightDevice    []WeightDevice
	BlkioDeviceReadBps   []ThrottleDevice
	BlkioDeviceWriteBps  []ThrottleDevice
	BlkioDeviceReadIOps  []ThrottleDevice
	BlkioDeviceWriteIOps []ThrottleDevice
	CPUPeriod            int64
	CPUQuota             int64
	CpusetCpus           string
	CpusetMems           string
	Devices              []Device
	DeviceCgroupRules    []string
	DeviceRequests       []DeviceRequest
	DiskQuota            int64
	KernelMemory         int64
	MemoryReservation    int64
	MemorySwap           int64
	MemorySwappiness     *int64
	OomKillDisable       *bool
	PidsLimit            *int64
	Ulimits              []Ulimit
	CPUCount             int64
	CPUPercent           int64
	IOMaximumIOps        uint64
	IOMaximumBandwidth   uint64
}

// TerminalSize is the height and the width of a terminal.
type TerminalSize [2]uint16

// UnmarshalJSON also takes numbers that no terminal has, and caps them: records of older engines may hold them, and a record
// that cannot be read would cost its container.
func (s *TerminalSize) UnmarshalJSON(raw []byte) error {
	var kept [2]uint
	if err := json.Unmarshal(raw, &kept); err != nil {
		return err
	}
	for i, n := range kept {
		s[i] = uint16(min(n, math.MaxUint16))
	}
	return nil
}

// PortBinding is one host side of a published port. HostPort is a string: a port, a range a-b, "0" or empty.
type PortBinding struct {
	HostIP   string `json:"HostIp"`
	HostPort string
}

// RestartPolicy says when an ended container starts again (API document 1, 2.3).
type RestartPolicy struct {
	Name              string
	MaximumRetryCount int
}

// LogConfig names the log driver and its options.
type LogConfig struct {
	Type   string
	Config map[string]string
}

// LxcPair is one setting of LxcConf, which has no effect.
type LxcPair struct{ Key, Value string }

// WeightDevice is a block device's relative weight.
type WeightDevice struct {
	Path   string
	Weight uint16
}

// ThrottleDevice is a block device's rate, in bytes or operations per second.
type ThrottleDevice struct {
	Path string
	Rate uint64
}

// Device is a host device made visible in the container.
type Device struct {
	PathOnHost        string
	PathInContainer   string
	CgroupPermissions string
}

// Ulimit is one resource limit of the container's processes.
type Ulimit struct {
	Name string
	Soft int64
	Hard int64
}

// DeviceRequest asks for devices by what they are called, or by what they can do (API 1.40).
type DeviceRequest struct {
	Driver       string // DriverCDI, nvidia or empty
	Count        int    // of GPUs; -1: all
	DeviceIDs    []string
	Capabilities [][]string // one of these lists must be met whole
	Options      map[string]string
}

// EndpointConfig is what a client asks of one network (API document 1, 2.2: NetworkingConfig).
type EndpointConfig struct {
	NetworkID  string // of the network meant, in a record; empty in a request, and while there is no network of that name
	IPAMConfig *IPAMConfig
	Links      []string // name:alias; in networks that a user has made, the container of that name need not be there
	Aliases    []string
	MacAddress string            // of later clients, which name one for each network
	GwPriority int               // the network with the highest has the default route
	DriverOpts map[string]string // OptSysctls and OptInterface
}

// IPAMConfig asks for addresses.
type IPAMConfig struct {
	IPv4Address  string
	IPv6Address  string
	LinkLocalIPs []string
}

// TaskLabel is the label by which the swarm knows the containers of its tasks; its value is the task's id.
const TaskLabel = "com.docker.swarm.task.id"
