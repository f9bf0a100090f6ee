package wire

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"moss/api/apiver"
	"moss/api/types"
	"moss/engine/swarm/status"
	"moss/engine/system"
)

// oneStatus is the version from which on SystemStatus is not there.
const oneStatus = apiver.Version(1<<16 | 41)

// namedSecurity is the version from which on SecurityOptions are lists of names and values; before, each is one word.
const namedSecurity = apiver.Version(1<<16 | 25)

// FitInfo shows the engine as clients of a version know it: from 1.41 on what SystemStatus told stands behind DriverStatus,
// and before 1.25 a security option is a word.
func FitInfo(i *types.Info, version apiver.Version) {
	if version >= oneStatus {
		i.DriverStatus = slices.Concat(i.DriverStatus, i.SystemStatus)
	}
	if version < namedSecurity {
		plain := make([]string, len(i.SecurityOptions))
		for n, option := range i.SecurityOptions {
			option, _, _ = strings.Cut(option, ",")
			plain[n] = strings.TrimPrefix(option, "name=")
		}
		i.SecurityOptions = plain
	}
}

// NewInfo fills the info record.
func NewInfo(i *system.Info) *types.Info {
	return &types.Info{
		ID:                 i.ID,
		Containers:         i.Counts.Total(),
		ContainersRunning:  i.Counts.Running,
		ContainersPaused:   i.Counts.Paused,
		ContainersStopped:  i.Counts.Stopped,
		Images:             i.Images,
		Driver:             i.StorageDriver,
		DriverStatus:       i.StorageStatus,
		SystemStatus:       systemStatus(i),
		Plugins:            types.InfoPlugins{Volume: orNone(i.Plugins.Volume), Network: orNone(i.Plugins.Network), Log: i.Plugins.Log},
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
		Swarm:              newInfoSwarm(i.Swarm),
		Warnings:           orNone(i.Warnings),
		LaterInfo:          newLaterInfo(i),
	}
}

func newLaterInfo(i *system.Info) types.LaterInfo {
	runtime := i.Runtimes[i.DefaultRuntime].Version
	return types.LaterInfo{
		RuncCommit:          types.InfoCommit{ID: runtime, Expected: runtime},
		InitBinary:          i.InitBinary,
		InitCommit:          types.InfoCommit{ID: i.GitCommit, Expected: i.GitCommit},
		GenericResources:    []types.InfoResource{},
		CDISpecDirs:         orNone(i.DeviceDirs),
		DiscoveredDevices:   newDiscovered(i.Devices),
		DefaultAddressPools: newAddressPools(i.AddressPools),
		OSVersion:           i.OSVersion,
		FirewallBackend:     types.InfoFirewall{Driver: "nftables"},
	}
}

func newDiscovered(names []string) []types.InfoDevice {
	shown := make([]types.InfoDevice, 0, len(names))
	for _, name := range names {
		shown = append(shown, types.InfoDevice{Source: "cdi", ID: name})
	}
	return shown
}

func newAddressPools(pools []system.AddressPool) []types.InfoPool {
	shown := make([]types.InfoPool, 0, len(pools))
	for _, p := range pools {
		shown = append(shown, types.InfoPool(p))
	}
	return shown
}

// SwarmState is this node's part in a swarm in one word, as clients read it from a header.
func SwarmState(node status.Node) string {
	switch {
	case node.State == status.Active && node.ControlAvailable:
		return status.Active + "/manager"
	case node.State == status.Active:
		return status.Active + "/worker"
	default:
		return cmp.Or(node.State, status.Inactive)
	}
}

// newInfoSwarm shows this node's part in a swarm.
func newInfoSwarm(node status.Node) types.InfoSwarm {
	s := types.InfoSwarm{
		NodeID: node.ID, NodeAddr: node.Addr, LocalNodeState: cmp.Or(node.State, status.Inactive),
		ControlAvailable: node.ControlAvailable, Error: node.Error,
	}
	for _, m := range node.Managers {
		s.RemoteManagers = append(s.RemoteManagers, types.InfoManager{NodeID: m.NodeID, Addr: m.Addr})
	}
	if c := node.Cluster; c != nil {
		s.Nodes, s.Managers, s.Cluster = c.Nodes, c.Managers, &types.InfoCluster{ID: c.ID}
	}
	return s
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

func newRegistryConfig(i *system.Info) types.RegistryConfig {
	c := types.RegistryConfig{
		InsecureRegistryCIDRs: orNone(i.InsecureCIDRs), Mirrors: []string{},
		IndexConfigs: make(map[string]types.IndexConfig, len(i.Registries)),
	}
	for _, r := range i.Registries {
		c.IndexConfigs[r.Name] = types.IndexConfig{Name: r.Name, Mirrors: orNone(r.Mirrors), Secure: r.Secure, Official: r.Official}
		if r.Official {
			c.Mirrors = orNone(r.Mirrors)
		}
	}
	return c
}

func newRuntimes(i *system.Info) map[string]types.InfoRuntime {
	runtimes := make(map[string]types.InfoRuntime, len(i.Runtimes))
	for name, r := range i.Runtimes {
		runtimes[name] = types.InfoRuntime{Path: r.Path, Args: r.Args}
	}
	return runtimes
}

// NewVersion fills the version record. It names the versions that the engine serves, whichever the request has.
func NewVersion(v system.Version, served apiver.Range) *types.Version {
	shown := &types.Version{
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
		Platform:      types.VersionPlatform{Name: "moss"},
	}
	shown.Components = []types.VersionComponent{newEngineComponent(shown)}
	return shown
}

// newEngineComponent is the engine as a part of itself, which clients show in place of the fields of Version.
func newEngineComponent(v *types.Version) types.VersionComponent {
	return types.VersionComponent{
		Name: "Engine", Version: v.Version,
		Details: map[string]string{
			"ApiVersion":    v.APIVersion,
			"MinAPIVersion": v.MinAPIVersion,
			"GitCommit":     v.GitCommit,
			"GoVersion":     v.GoVersion,
			"Os":            v.Os,
			"Arch":          v.Arch,
			"KernelVersion": v.KernelVersion,
			"Experimental":  strconv.FormatBool(v.Experimental),
			"BuildTime":     v.BuildTime,
		},
	}
}
