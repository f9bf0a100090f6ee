package wire

import (
	"strings"
	"time"

	"moss/api/apiver"
	"moss/engine/system"
)

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
	LocalNodeState   string // inactive, pending, active, error
	ControlAvailable bool
	Error            string
	RemoteManagers   []InfoManager
}

// InfoManager is a manager of the swarm.
type InfoManager struct {
	NodeID string
	Addr   string
}

// NewInfo fills the info record.
func NewInfo(i *system.Info) *Info {
	return &Info{
		ID:                 i.ID,
		Containers:         i.Counts.Total(),
		ContainersRunning:  i.Counts.Running,
		ContainersPaused:   i.Counts.Paused,
		ContainersStopped:  i.Counts.Stopped,
		Images:             i.Images,
		Driver:             i.StorageDriver,
		DriverStatus:       i.StorageStatus,
		SystemStatus:       systemStatus(i),
		Plugins:            InfoPlugins{Volume: orNone(i.Plugins.Volume), Network: orNone(i.Plugins.Network), Log: i.Plugins.Log},
		MemoryLimit:        i.Cgroup.Memory,
		SwapLimit:          i.Cgroup.Swap,
		KernelMemory:       i.Cgroup.KernelMemory,
		CPUCfsPeriod:       i.Cgroup.CPUPeriod,
		CPUCfsQuota:        i.Cgroup.CPUQuota,
		CPUShares:          i.Cgroup.CPUShares,
		CPUSet:             i.Cgroup.CPUSet,
		PidsLimit:          i.Cgroup.Pids,
		IPv4Forwarding:     i.IPv4Forwarding,
		BridgeNfIptables:   i.BridgeNF,
		BridgeNfIP6tables:  i.BridgeNFIPv6,
		Debug:              i.Debug,
		NFd:                i.Files,
		OomKillDisable:     i.Cgroup.OOMKillDisable,
		NGoroutines:        i.Goroutines,
		SystemTime:         i.Time.Format(time.RFC3339Nano),
		ExecutionDriver:    strings.TrimSpace(i.DefaultRuntime + " " + i.Runtimes[i.DefaultRuntime].Version),
		LoggingDriver:      i.LogDriver,
		CgroupDriver:       i.Cgroup.Driver,
		CgroupVersion:      i.Cgroup.Version,
		NEventsListener:    i.Listeners,
		KernelVersion:      i.KernelVersion,
		OperatingSystem:    i.OperatingSystem,
		OSType:             i.OSType,
		Architecture:       i.Architecture,
		IndexServerAddress: i.IndexServer,
		RegistryConfig:     newRegistryConfig(i),
		InitPath:           i.InitPath,
		NCPU:               i.CPUs,
		MemTotal:           i.MemTotal,
		DockerRootDir:      i.DataRoot,
		EngineRootDir:      i.DataRoot,
		HTTPProxy:          i.HTTPProxy,
		HTTPSProxy:         i.HTTPSProxy,
		NoProxy:            i.NoProxy,
		Name:               i.Name,
		Labels:             orNone(i.Labels),
		ExperimentalBuild:  i.Experimental,
		ServerVersion:      i.Version,
		SecurityOptions:    orNone(i.SecurityOptions),
		Runtimes:           newRuntimes(i),
		DefaultRuntime:     i.DefaultRuntime,
		LiveRestoreEnabled: true, // containers outlive the engine: their shims hold them
		Swarm:              InfoSwarm{LocalNodeState: "inactive"},
		Warnings:           orNone(i.Warnings),
	}
}

// systemStatus shows what is particular to an engine without root. Clients print it as they get it.
func systemStatus(i *system.Info) [][2]string {
	ids := "sub-ids"
	if i.SingleID {
		ids = "single id: the user has no sub-ids"
	}
	status := make([][2]string, 0, len(i.Runtimes)+2)
	status = append(status, [2]string{"Rootless", ids}, [2]string{"Uplink", i.Uplink})
	for _, name := range sortedKeys(i.Runtimes) {
		status = append(status, [2]string{"Runtime " + name, i.Runtimes[name].Version})
	}
	return status
}

func newRegistryConfig(i *system.Info) RegistryConfig {
	c := RegistryConfig{
		InsecureRegistryCIDRs: orNone(i.InsecureCIDRs), Mirrors: []string{},
		IndexConfigs: make(map[string]IndexConfig, len(i.Registries)),
	}
	for _, r := range i.Registries {
		c.IndexConfigs[r.Name] = IndexConfig{Name: r.Name, Mirrors: orNone(r.Mirrors), Secure: r.Secure, Official: r.Official}
		if r.Official {
			c.Mirrors = orNone(r.Mirrors)
		}
	}
	return c
}

func newRuntimes(i *system.Info) map[string]InfoRuntime {
	runtimes := make(map[string]InfoRuntime, len(i.Runtimes))
	for name, r := range i.Runtimes {
		runtimes[name] = InfoRuntime{Path: r.Path, Args: r.Args}
	}
	return runtimes
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

// NewVersion fills the version record. It names the versions that the engine serves, whichever the request has.
func NewVersion(v system.Version, served apiver.Range) *Version {
	return &Version{
		Version:       v.Version,
		APIVersion:    served.Until.String(),
		MinAPIVersion: served.Since.String(),
		GitCommit:     v.GitCommit,
		GoVersion:     v.GoVersion,
		Os:            v.OS,
		Arch:          v.Arch,
		KernelVersion: v.KernelVersion,
		Experimental:  v.Experimental,
		BuildTime:     v.BuildTime,
	}
}
