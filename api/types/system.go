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
	SystemStatus       [][2]string
	Plugins            InfoPlugins
	MemoryLimit        bool
	SwapLimit          bool
	KernelMemory       bool `api:"1.24-"`
	CPUCfsPeriod       bool `json:"CpuCfsPeriod"`
	CPUCfsQuota        bool `json:"CpuCfsQuota"`
	CPUShares          bool `json:"CPUShares" api:"1.19-"`
	CPUSet             bool `json:"CPUSet" api:"1.19-"`
	PidsLimit          bool `api:"1.40-"`
	IPv4Forwarding     bool
	BridgeNfIptables   bool `api:"1.19-"`
	BridgeNfIP6tables  bool `json:"BridgeNfIp6tables" api:"1.19-"`
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
	ClusterStore       string
	ClusterAdvertise   string                 `api:"1.21-"`
	SecurityOptions    []string               `api:"1.24-"`
	Runtimes           map[string]InfoRuntime `api:"1.24-"`
	DefaultRuntime     string                 `api:"1.24-"`
	LiveRestoreEnabled bool                   `api:"1.24-"`
	Swarm              InfoSwarm              `api:"1.24-"`
	Warnings           []string
}

// InfoPlugins names what implements volumes, networks, authorization and logs.
type InfoPlugins struct {
	Volume        []string
	Network       []string
	Authorization []string
	Log           []string `json:",omitempty" api:"1.27-"`
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
}
