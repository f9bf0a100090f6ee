package types

// Info is the answer to info (document 1, 2.11). The data root is there under the name of the documents and under the
// one that clients know.
type Info struct {
	ID                 string
	Containers         int
	ContainersRunning  int
	ContainersPaused   int
	ContainersStopped  int
	Images             int
	Driver             string
	DriverStatus       [][2]string
	SystemStatus       [][2]string `api:"-1.40"`
	Plugins            InfoPlugins
	MemoryLimit        bool
	SwapLimit          bool
	KernelMemory       bool `api:"1.24-1.41"`
	CPUCfsPeriod       bool `json:"CpuCfsPeriod"`
	CPUCfsQuota        bool `json:"CpuCfsQuota"`
	CPUShares          bool `json:"CPUShares" api:"1.19-"`
	CPUSet             bool `json:"CPUSet" api:"1.19-"`
	PidsLimit          bool `api:"1.40-"`
	IPv4Forwarding     bool
	BridgeNfIptables   bool `api:"1.19-1.49"`
	BridgeNfIP6tables  bool `json:"BridgeNfIp6tables" api:"1.19-1.49"`
	Debug              bool
	NFd                int
	OomKillDisable     bool
	NGoroutines        int
	SystemTime         string
	ExecutionDriver    string `api:"-1.22"`
	LoggingDriver      string `api:"1.20-"`
	CgroupDriver       string `api:"1.24-"`
	CgroupVersion      string `json:",omitempty" api:"1.41-"`
	NEventsListener    int
	KernelVersion      string
	OperatingSystem    string
	OSType             string
	Architecture       string
	IndexServerAddress string
	RegistryConfig     RegistryConfig
	InitPath           string
	InitSha1           string
	NCPU               int
	MemTotal           int64 // bytes
	DockerRootDir      string
	EngineRootDir      string
	HTTPProxy          string `json:"HttpProxy"`
	HTTPSProxy         string `json:"HttpsProxy"`
	NoProxy            string
	Name               string
	Labels             []string
	ExperimentalBuild  bool
	ServerVersion      string
	ClusterStore       string                 `api:"-1.40"`
	ClusterAdvertise   string                 `api:"1.21-1.40"`
	SecurityOptions    []string               `api:"1.24-"`
	Runtimes           map[string]InfoRuntime `api:"1.24-"`
	DefaultRuntime     string                 `api:"1.24-"`
	LiveRestoreEnabled bool                   `api:"1.24-"`
	Swarm              InfoSwarm              `api:"1.24-"`
	Warnings           []string
	LaterInfo
}

// LaterInfo is what versions after 1.24 add to Info (docs/fields-later.tsv).
type LaterInfo struct {
	Isolation           string         `api:"1.25-"` // of Windows
	ContainerdCommit    InfoCommit     `api:"1.25-"` // no program of that kind is needed
	RuncCommit          InfoCommit     `api:"1.25-"`
	InitBinary          string         `api:"1.25-"` // runs as the first process of containers that ask for one
	InitCommit          InfoCommit     `api:"1.25-"` // it is a program of the engine's own
	GenericResources    []InfoResource `api:"1.32-"`
	ProductLicense      string         `api:"1.39-"`
	KernelMemoryTCP     bool           `api:"1.40-1.51"`
	DefaultAddressPools []InfoPool     `api:"1.41-"`
	OSVersion           string         `api:"1.41-"`
	CDISpecDirs         []string       `api:"1.44-"` // whose files name devices
	DiscoveredDevices   []InfoDevice   `json:",omitempty" api:"1.50-"`
	FirewallBackend     InfoFirewall   `api:"1.49-"`
}

// InfoCommit says what a program beside the engine is built from. Expected was shown until 1.48.
type InfoCommit struct {
	ID       string
	Expected string `json:",omitempty" api:"-1.48"`
}

// InfoResource is something of a machine that services can reserve by its name.
type InfoResource struct{}

// InfoDevice is a device of the host that containers can ask for by its name.
type InfoDevice struct {
	Source string // cdi
	ID     string
}

// InfoPool is a range of addresses that the subnets of new networks are taken from.
type InfoPool struct {
	Base string // a CIDR
	Size int    // the length of the subnets' prefixes, bits
}

// InfoFirewall is what keeps networks apart.
type InfoFirewall struct {
	Driver string
}

// InfoPlugins names what implements volumes, networks, authorization and logs.
type InfoPlugins struct {
	Volume        []string
	Network       []string
	Authorization []string
	Log           []string `json:",omitempty" api:"1.30-"`
}

// RegistryConfig is what the engine knows of registries.
type RegistryConfig struct {
	InsecureRegistryCIDRs []string
	IndexConfigs          map[string]IndexConfig
	Mirrors               []string
}

// IndexConfig is what the engine knows of one registry.
type IndexConfig struct {
	Name     string
	Mirrors  []string
	Secure   bool
	Official bool
}

// InfoRuntime is an OCI runtime that containers can ask for.
type InfoRuntime struct {
	Path string   `json:"path"`
	Args []string `json:"runtimeArgs,omitempty"`
}

// InfoSwarm is the engine's part in a swarm.
type InfoSwarm struct {
	NodeID           string
	NodeAddr         string
	LocalNodeState   string // inactive, pending, active, error, locked
	ControlAvailable bool
	Error            string
	RemoteManagers   []InfoManager
	Nodes            int          `json:",omitempty"` // this and the next ones on managers
	Managers         int          `json:",omitempty"`
	Cluster          *InfoCluster `json:",omitempty"`
}

// InfoCluster is the swarm of a manager. Its record is the answer to swarm.
type InfoCluster struct {
	ID string
}

// InfoManager is a manager of the swarm.
type InfoManager struct {
	NodeID string
	Addr   string
}

// Version is the answer to version (document 1, 2.11).
type Version struct {
	Version       string
	APIVersion    string `json:"ApiVersion"`
	MinAPIVersion string
	GitCommit     string
	GoVersion     string
	Os            string
	Arch          string
	KernelVersion string
	Experimental  bool
	BuildTime     string
	Platform      VersionPlatform    `api:"1.35-"`
	Components    []VersionComponent `api:"1.35-"`
}

// VersionPlatform is the name of the product.
type VersionPlatform struct{ Name string }

// VersionComponent is a program that the engine consists of. The first one is the engine, whose details are the fields of
// Version.
type VersionComponent struct {
	Name    string
	Version string
	Details map[string]string
}
