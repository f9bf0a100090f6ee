package wire

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/api/types"
	"moss/engine/container"
	"moss/engine/network"
)

// NewContainerInspect fills an inspect record but for the sizes.
func NewContainerInspect(r *container.Record) *types.ContainerInspect {
	c := &types.ContainerInspect{
		ID:              r.ID,
		Created:         r.Created.UTC(),
		Path:            r.Path,
		Args:            orNone(r.Args),
		State:           newContainerState(r),
		Image:           r.ImageID,
		ResolvConfPath:  r.ResolvConf,
		HostnamePath:    r.HostnamePath,
		HostsPath:       r.HostsPath,
		LogPath:         r.LogPath,
		Name:            "/" + r.Name,
		RestartCount:    r.RestartCount,
		Driver:          r.Driver,
		Platform:        "linux",
		ExecDriver:      compat.ExecDriver,
		MountLabel:      r.MountLabel,
		ProcessLabel:    r.ProcessLabel,
		GraphDriver:     types.GraphDriver{Name: r.Driver, Data: map[string]string{}},
		Mounts:          listMounts(r),
		Volumes:         make(map[string]string, len(r.Mounts)),
		VolumesRW:       make(map[string]bool, len(r.Mounts)),
		NetworkSettings: newNetworkSettings(r),
	}
	fillInspectConfig(&c.Config, r)
	c.HostConfig = newHostConfig(&r.Host)
	c.HostConfig.NetworkMode = networkMode(r)
	if c.HostConfig.LogConfig.Config == nil {
		c.HostConfig.LogConfig.Config = map[string]string{} // clients look for options in it
	}
	if c.HostConfig.LxcConf == nil {
		c.HostConfig.LxcConf = types.LxcConf{}
	}
	for _, m := range r.Mounts {
		c.Volumes[m.Destination], c.VolumesRW[m.Destination] = m.Source, m.RW
	}
	return c
}

func newContainerState(r *container.Record) types.ContainerState {
	return types.ContainerState{
		Status:     r.State.String(),
		Running:    r.State.Running(),
		Paused:     r.State.Paused(),
		Restarting: r.State.Restarting(),
		OOMKilled:  r.OOMKilled,
		Dead:       r.State.Dead(),
		Pid:        r.Pid,
		ExitCode:   r.ExitCode,
		Error:      r.Error,
		StartedAt:  r.StartedAt.UTC(),
		FinishedAt: r.FinishedAt.UTC(),
		Health:     newHealth(r.Health),
	}
}

func newHealth(h *container.Health) *types.Health {
	if h == nil {
		return nil
	}
	shown := &types.Health{Status: h.Status, FailingStreak: h.FailingStreak, Log: make([]types.HealthResult, 0, len(h.Log))}
	for _, result := range h.Log {
		result.Start, result.End = result.Start.UTC(), result.End.UTC()
		shown.Log = append(shown.Log, types.HealthResult(result))
	}
	return shown
}

func fillInspectConfig(c *types.InspectConfig, r *container.Record) {
	c.Config = newConfig(&r.Config)
	c.MacAddress, c.VolumeDriver = r.MainMAC(), r.Host.VolumeDriver
	c.Memory, c.MemorySwap = r.Host.Memory, r.Host.MemorySwap
	c.CPUShares, c.Cpuset = r.Host.CPUShares, r.Host.CpusetCpus
	c.Labels = orEmpty(c.Labels)
	if len(c.ExposedPorts) == 0 {
		c.NoPorts = &struct{}{}
	}
}

// The addresses of all interfaces. A port that the client gave no address for is published at both.
const (
	allIPv4 = "0.0.0.0"
	allIPv6 = "::"
)

// givesAddress reports whether the client gave a port the address of all interfaces of IPv6 itself.
func givesAddress(r *container.Record, key string) bool {
	return slices.ContainsFunc(r.Host.PortBindings[key], func(b container.PortBinding) bool { return b.HostIP == allIPv6 })
}

// The first versions that have the paths of /proc and /sys, and the word for an IPC namespace that others may join.
const (
	hasSystemPaths = apiver.Version(1<<16 | 38)
	hasShareable   = apiver.Version(1<<16 | 32)
)

// showsAll is the first version in which limits that are not set are null, and a port has all its addresses.
const showsAll = apiver.Version(1<<16 | 25)

// FitInspect shows the container of the record as clients of a version know it. Before 1.25 a port has one address where the
// client gave none. From 1.45 on the aliases are those that the client gave.
func FitInspect(c *types.ContainerInspect, version apiver.Version, r *container.Record) {
	fitAliases(c.NetworkSettings.Networks, version, r)
	fitHost(&c.HostConfig, version, r)
	if version >= showsAll {
		return
	}
	for key, bindings := range c.NetworkSettings.Ports {
		c.NetworkSettings.Ports[key] = slices.DeleteFunc(bindings, func(b types.PortBinding) bool {
			return b.HostIP == allIPv6 && !givesAddress(r, key) &&
				slices.Contains(bindings, types.PortBinding{HostIP: allIPv4, HostPort: b.HostPort})
		})
	}
}

// fitHost shows what stands for settings that the client left open: before 1.25 the numbers of limits, later what the
// container has.
func fitHost(h *types.HostConfig, version apiver.Version, r *container.Record) {
	if version >= hasShareable && h.IpcMode == "" {
		h.IpcMode = "shareable"
	}
	if version >= hasSystemPaths && !h.Privileged {
		masked, readonly := r.Host.SystemPaths()
		h.MaskedPaths, h.ReadonlyPaths = &masked, &readonly
	}
	if version >= showsAll {
		return
	}
	if h.MemorySwappiness == nil {
		h.MemorySwappiness = new(int64(-1))
	}
	if h.PidsLimit == nil {
		h.PidsLimit = new(int64)
	}
}

func newNetworkSettings(r *container.Record) types.NetworkSettings {
	n := types.NetworkSettings{
		SandboxID:  r.Network.ID,
		SandboxKey: r.Network.Path,
		Ports:      inspectPorts(r),
		Networks:   listNetworks(r),
	}
	// The fields outside Networks show the default network only, as they did before there were others.
	e := r.Network.Endpoints["bridge"]
	n.EndpointID, n.Gateway, n.IPAddress, n.IPPrefixLen = e.EndpointID, e.Gateway, e.IPAddress, e.IPPrefixLen
	n.IPv6Gateway, n.GlobalIPv6Address, n.GlobalIPv6PrefixLen = e.IPv6Gateway, e.GlobalIPv6Address, e.GlobalIPv6PrefixLen
	n.MacAddress = n.Networks["bridge"].MacAddress
	return n
}

// inspectPorts shows of a running container every exposed port, with null for one that is not published.
func inspectPorts(r *container.Record) map[string][]types.PortBinding {
	ports := map[string][]types.PortBinding{}
	if r.State.Running() {
		for key := range r.Config.ExposedPorts {
			ports[key] = nil
		}
	}
	for _, p := range r.Network.Ports {
		ports[portKey(p)] = append(ports[portKey(p)], types.PortBinding{HostIP: p.HostIP, HostPort: strconv.Itoa(int(p.HostPort))})
	}
	return ports
}

// portKey is the form of a port that is a key: 80/tcp.
func portKey(p network.Port) string { return strconv.Itoa(int(p.ContainerPort)) + "/" + p.Proto }

// parsePort is the reverse of portKey.
func parsePort(key string) (number uint16, proto string, ok bool) {
	digits, proto, found := strings.Cut(key, "/")
	if !found {
		proto = "tcp"
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return uint16(n), proto, err == nil
}

// orEmpty returns an empty map for nil: clients look into Labels without asking.
func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// orNone returns an empty list for nil.
func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
