package wire

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/engine/container"
	"moss/engine/network"
)

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
	Ports                  map[string][]container.PortBinding
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

// NewContainerInspect fills an inspect record but for the sizes.
func NewContainerInspect(r *container.Record) *ContainerInspect {
	c := &ContainerInspect{
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
		ExecDriver:      compat.ExecDriver,
		MountLabel:      r.MountLabel,
		ProcessLabel:    r.ProcessLabel,
		HostConfig:      HostConfig(r.Host),
		GraphDriver:     GraphDriver{Name: r.Driver, Data: map[string]string{}},
		Mounts:          listMounts(r),
		Volumes:         make(map[string]string, len(r.Mounts)),
		VolumesRW:       make(map[string]bool, len(r.Mounts)),
		Config:          newInspectConfig(r),
		NetworkSettings: newNetworkSettings(r),
	}
	c.HostConfig.NetworkMode = networkMode(r)
	if c.HostConfig.LogConfig.Config == nil {
		c.HostConfig.LogConfig.Config = map[string]string{} // clients look for options in it
	}
	if c.HostConfig.LxcConf == nil {
		c.HostConfig.LxcConf = container.LxcConf{}
	}
	for _, m := range r.Mounts {
		c.Volumes[m.Destination], c.VolumesRW[m.Destination] = m.Source, m.RW
	}
	return c
}

func newContainerState(r *container.Record) ContainerState {
	return ContainerState{
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

func newHealth(h *container.Health) *Health {
	if h == nil {
		return nil
	}
	shown := &Health{Status: h.Status, FailingStreak: h.FailingStreak, Log: make([]HealthResult, 0, len(h.Log))}
	for _, result := range h.Log {
		result.Start, result.End = result.Start.UTC(), result.End.UTC()
		shown.Log = append(shown.Log, HealthResult(result))
	}
	return shown
}

func newInspectConfig(r *container.Record) InspectConfig {
	c := InspectConfig{
		Config:       Config(r.Config),
		VolumeDriver: r.Host.VolumeDriver,
		Memory:       r.Host.Memory,
		MemorySwap:   r.Host.MemorySwap,
		CPUShares:    r.Host.CPUShares,
		Cpuset:       r.Host.CpusetCpus,
	}
	c.Labels = orEmpty(c.Labels)
	if len(c.ExposedPorts) == 0 {
		c.NoPorts = &struct{}{}
	}
	return c
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

// showsAll is the first version in which limits that are not set are null, and a port has all its addresses.
const showsAll = apiver.Version(1<<16 | 25)

// Fit shows the container of the record as clients before 1.25 know it: limits that are not set have the numbers that stand
// for it, and a port has one address where the client gave none.
func (c *ContainerInspect) Fit(version apiver.Version, r *container.Record) {
	if version >= showsAll {
		return
	}
	for key, bindings := range c.NetworkSettings.Ports {
		c.NetworkSettings.Ports[key] = slices.DeleteFunc(bindings, func(b container.PortBinding) bool {
			return b.HostIP == allIPv6 && !givesAddress(r, key) &&
				slices.Contains(bindings, container.PortBinding{HostIP: allIPv4, HostPort: b.HostPort})
		})
	}
	if c.HostConfig.MemorySwappiness == nil {
		c.HostConfig.MemorySwappiness = new(int64(-1))
	}
	if c.HostConfig.PidsLimit == nil {
		c.HostConfig.PidsLimit = new(int64)
	}
}

func newNetworkSettings(r *container.Record) NetworkSettings {
	n := NetworkSettings{
		SandboxID:  r.Network.ID,
		SandboxKey: r.Network.Path,
		Ports:      inspectPorts(r),
		Networks:   listNetworks(r),
	}
	// The fields outside Networks show the default network only, as they did before there were others.
	e := r.Network.Endpoints["bridge"]
	n.EndpointID, n.Gateway, n.IPAddress, n.IPPrefixLen = e.EndpointID, e.Gateway, e.IPAddress, e.IPPrefixLen
	n.IPv6Gateway, n.GlobalIPv6Address, n.GlobalIPv6PrefixLen = e.IPv6Gateway, e.GlobalIPv6Address, e.GlobalIPv6PrefixLen
	n.MacAddress = e.MacAddress
	return n
}

// inspectPorts shows of a running container every exposed port, with null for one that is not published.
func inspectPorts(r *container.Record) map[string][]container.PortBinding {
	ports := map[string][]container.PortBinding{}
	if r.State.Running() {
		for key := range r.Config.ExposedPorts {
			ports[key] = nil
		}
	}
	for _, p := range r.Network.Ports {
		ports[portKey(p)] = append(ports[portKey(p)], container.PortBinding{HostIP: p.HostIP, HostPort: strconv.Itoa(int(p.HostPort))})
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
