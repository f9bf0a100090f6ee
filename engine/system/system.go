// Package system gathers what the engine says about itself and its machine (API document 1, 2.11). It reads /proc and the
// release file of the host; everything that other parts of the engine know is handed in. It changes nothing.
package system

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/swarm/status"
)

// Counts says how many containers there are.
type Counts struct {
	Running, Paused, Stopped int
}

// Total is the number of containers in any state.
func (c Counts) Total() int { return c.Running + c.Paused + c.Stopped }

// Runtime is an OCI runtime that containers can ask for.
type Runtime struct {
	Path    string
	Args    []string
	Version string // as it tells itself, with a note when it is a bad one
}

// Cgroup is what the engine may do with cgroups.
type Cgroup struct {
	Driver  string // cgroupfs, or none without delegation
	Version string // 1, 2 or empty
	// The limits that containers can have.
	Memory, Swap, KernelMemory, OOMKillDisable, CPUPeriod, CPUQuota, CPUShares, CPUSet, Pids bool
}

// Registry is what the engine knows of one registry.
type Registry struct {
	Name             string
	Mirrors          []string
	Secure, Official bool
}

// Plugins names what implements volumes, networks and logs.
type Plugins struct {
	Volume, Network, Log []string
}

// AddressPool is a range of addresses that the subnets of new networks are taken from.
type AddressPool struct {
	Base string // a CIDR
	Size int    // of the subnets' prefixes, bits
}

// Counters asks the rest of the engine how much there is of everything. A nil function counts nothing.
type Counters struct {
	Containers func(ctx context.Context) (Counts, error)
	Images     func(ctx context.Context) (int, error)
	Listeners  func() int      // clients that listen to events
	Damaged    func() []string // files that are not what they should be, one line each
	Devices    func() []string // devices of the host, by their names
	Registries func() []Registry
	Swarm      func(ctx context.Context) status.Node
	// InNetwork runs f in the network namespace of the containers. Without it the engine's own is looked at.
	InNetwork func(f func() error) error
}

// Facts is what does not change while the engine runs.
type Facts struct {
	ID              string // stable for one data root
	Version         string // of moss
	GitCommit       string
	BuildTime       string
	DataRoot        string
	StorageDriver   string
	StorageStatus   [][2]string // label and value, in the order of showing
	Cgroup          Cgroup
	Runtimes        map[string]Runtime
	DefaultRuntime  string
	LogDriver       string // default for containers
	Uplink          string // what connects containers to the outside
	SingleID        bool   // the user has no sub-ids: all ids in containers are one on the host
	SecurityOptions []string
	Plugins         Plugins
	InsecureCIDRs   []string // networks whose registries may be reached without TLS
	IndexServer     string   // the default registry's index
	Labels          []string
	HTTPProxy       string
	HTTPSProxy      string
	NoProxy         string
	InitPath        string
	DeviceDirs      []string // whose files name devices of the host
	InitBinary      string   // runs as the first process of containers that ask for one
	AddressPools    []AddressPool
	Warnings        []string // what a user should know: what does not work here and why
	Debug           bool
	Experimental    bool
}

// Info is what the engine says about itself.
type Info struct {
	Facts
	Counts          Counts
	Images          int
	Listeners       int
	Devices         []string // of the host, by their names
	Registries      []Registry
	Swarm           status.Node
	Name            string // of the host
	KernelVersion   string
	OperatingSystem string
	OSVersion       string // of the distribution; empty when it does not tell
	OSType          string
	Architecture    string
	CPUs            int
	MemTotal        int64 // bytes
	Files           int   // open file descriptors
	Goroutines      int
	Time            time.Time
	IPv4Forwarding  bool
	BridgeNF        bool
	BridgeNFIPv6    bool
}

// Version is what the engine says about its build.
type Version struct {
	Version       string
	GitCommit     string
	BuildTime     string
	GoVersion     string
	OS            string
	Arch          string
	KernelVersion string
	Experimental  bool
}

// Service answers questions about the engine. It is safe for use by many.
type Service struct {
	facts    Facts
	counters Counters
	kernel   string
	release  distribution
}

// New reads what never changes. An empty ID or Version is fault.Invalid.
func New(facts Facts, counters Counters) (*Service, error) {
	if facts.ID == "" || facts.Version == "" {
		return nil, fault.Invalid("the engine needs an id and a version")
	}
	kernel, err := kernelVersion()
	if err != nil {
		return nil, err
	}
	return &Service{facts: facts, counters: counters, kernel: kernel, release: osRelease()}, nil
}

// Version returns what the engine is built from.
func (s *Service) Version() Version {
	return Version{
		Version:       s.facts.Version,
		GitCommit:     s.facts.GitCommit,
		BuildTime:     s.facts.BuildTime,
		GoVersion:     runtime.Version(),
		OS:            runtime.GOOS,
		Arch:          runtime.GOARCH,
		KernelVersion: s.kernel,
		Experimental:  s.facts.Experimental,
	}
}

// Info returns the facts, the counts and the machine's state of now.
func (s *Service) Info(ctx context.Context) (Info, error) {
	info := Info{
		Facts:           s.facts,
		KernelVersion:   s.kernel,
		OperatingSystem: s.release.name,
		OSVersion:       s.release.version,
		OSType:          runtime.GOOS,
		Architecture:    kernelArch(runtime.GOARCH),
		CPUs:            runtime.NumCPU(),
		Goroutines:      runtime.NumGoroutine(),
		Time:            time.Now(),
	}
	if err := s.lookAtNetwork(&info); err != nil {
		return Info{}, fmt.Errorf("look at the containers' network: %w", err)
	}
	var err error
	if s.counters.Containers != nil {
		if info.Counts, err = s.counters.Containers(ctx); err != nil {
			return Info{}, fmt.Errorf("count containers: %w", err)
		}
	}
	if s.counters.Images != nil {
		if info.Images, err = s.counters.Images(ctx); err != nil {
			return Info{}, fmt.Errorf("count images: %w", err)
		}
	}
	if s.counters.Listeners != nil {
		info.Listeners = s.counters.Listeners()
	}
	if s.counters.Registries != nil {
		info.Registries = s.counters.Registries()
	}
	info.Swarm = status.Node{State: status.Inactive}
	if s.counters.Swarm != nil {
		info.Swarm = s.counters.Swarm(ctx)
	}
	if info.Name, err = os.Hostname(); err != nil {
		return Info{}, fmt.Errorf("read the host's name: %w", err)
	}
	if info.MemTotal, err = memTotal(); err != nil {
		return Info{}, err
	}
	if s.counters.Devices != nil {
		info.Devices = s.counters.Devices()
	}
	if s.counters.Damaged != nil {
		info.Warnings = slices.Concat(info.Warnings, s.counters.Damaged())
	}
	info.Files = openFiles()
	return info, nil
}

// lookAtNetwork reads the kernel's switches where they are those of the containers' packets.
func (s *Service) lookAtNetwork(info *Info) error {
	look := func() error {
		info.IPv4Forwarding = isOn("/proc/sys/net/ipv4/ip_forward")
		info.BridgeNF = isOn("/proc/sys/net/bridge/bridge-nf-call-iptables")
		info.BridgeNFIPv6 = isOn("/proc/sys/net/bridge/bridge-nf-call-ip6tables")
		return nil
	}
	if s.counters.InNetwork == nil {
		return look()
	}
	return s.counters.InNetwork(look)
}

func kernelVersion() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("read the kernel's version: %w", err)
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// kernelArch returns the kernel's word for an architecture, which is what clients show.
func kernelArch(arch string) string {
	switch arch {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	case "386":
		return "i686"
	case "arm":
		return "armv7l"
	default:
		return arch
	}
}
