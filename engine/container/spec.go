package container

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/network"
)

// Spec is the checked form of what a client asked for: every string is parsed, every bound kept, and whatever the engine
// cannot do has been refused or answered with a warning. Readers need not check again.
type Spec struct {
	Config    Config                    // merged with the image's, normalised
	Host      HostConfig                // normalised; sizes and limits are within their bounds
	Endpoints map[string]EndpointConfig // the networks it is in, by name; none with NetworkContainer

	Args        []string      // the command line; never empty
	Env         []string      // NAME=value, every name once; a NAME alone takes a default away
	User        User          // who runs it, not yet looked up
	StopSignal  int           // number
	StopTimeout time.Duration // between the stop signal and SIGKILL; negative waits for ever

	Network string // NetworkHost, NetworkNone, NetworkContainer, or the first of the networks in Endpoints
	Join    Join   // whose namespaces it enters
	Links   []Link // of the default network, in the order of the request; those of others are in Endpoints
	PidHost bool   // shares the engine's process ids
	UTSHost bool   // shares the host name
	Ipc     Ipc    // whose shared memory

	Binds   []Bind  // in the order of the request
	Tmpfs   []Tmpfs // sorted by destination
	Images  []ImageMount
	Publish []Publish      // published ports, sorted
	Exposed []network.Port // exposed ports, published or not, sorted; the host side is empty
	Hosts   []HostIP       // extra lines of /etc/hosts

	Volumes     []VolumeMount
	VolumesFrom []VolumesFrom // whose mounts are to be added with TakeOver, in the order of the request

	Restart  Restart
	Log      Log
	Ulimits  []Ulimit // lower-case names, each once
	Devices  []Device // absolute paths, permissions filled in
	Caps     Caps
	Security Security
	Runtime  string // empty (the configured one), crun or runc
}

// DefaultStopTimeout is what a stop waits before it kills.
const DefaultStopTimeout = 10 * time.Second

// DefaultShmSize is the size of /dev/shm in bytes (API document 3, section 8).
const DefaultShmSize = 64 << 20

// draft is a Spec in the making.
type draft struct {
	Spec
	img      image.Config
	warnings []string
	exposes  bool // the client itself asks for exposed ports
	settled  bool // Endpoints are those of a record: the networks that the container is in, whatever its NetworkMode says
}

func (d *draft) addWarning(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

// NewSpec checks what a client asks for, merges it with the image's configuration and returns the result with the
// warnings that the answer to create shows. Its arguments are left as they are.
//
// A value out of bounds gives fault.Invalid, something that moss does not do fault.Unsupported; both name the field.
func NewSpec(cfg Config, host HostConfig, endpoints map[string]EndpointConfig, img image.Config) (Spec, []string, error) {
	return buildSpec(&draft{Spec: Spec{Config: cfg, Host: host, Endpoints: endpoints}, img: img})
}

// buildSpec merges the image's configuration into the draft, runs all checks and returns the Spec with its warnings.
func buildSpec(d *draft) (Spec, []string, error) {
	d.exposes = len(d.Config.ExposedPorts) > 0
	d.mergeImage()
	steps := []func(*draft) error{
		checkUnsupported, checkHealth, checkNames, checkCommand, checkEnv, checkStop,
		checkNamespaces, checkNetwork, checkEndpoints, withFieldName("Links", checkLinks), checkPorts, checkResolver, checkHosts,
		checkMounts, checkMemory, checkShm, checkCPU, checkBlkio, checkPids,
		withFieldName("Ulimits", checkUlimits), withFieldName("Devices", checkDevices),
		withFieldName("DeviceRequests", checkDeviceRequests), checkCaps, checkSecurity,
		withFieldName("Sysctls", checkSysctls),
		withFieldName("RestartPolicy", checkRestart), withFieldName("LogConfig", checkLog), checkCgroupParent, checkStorageOpt,
	}
	for _, step := range steps {
		if err := step(d); err != nil {
			return Spec{}, nil, err
		}
	}
	d.warnIgnored()
	return d.Spec, d.warnings, nil
}

// withFieldName returns a check whose errors begin with the name of the field that they are about: the words that clients
// know do not always hold it.
func withFieldName(field string, check func(*draft) error) func(*draft) error {
	return func(d *draft) error { return prefixField(field, check(d)) }
}

// prefixField puts the name of a field before an error; nil stays nil.
func prefixField(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}

// SpecOf makes the Spec of a container that was created before; its binds and volumes are those of the record. The error
// kinds are those of NewSpec: a record of an older engine may ask for what this one refuses.
func SpecOf(r *Record) (Spec, error) {
	spec, err := SpecWith(r, r.Host)
	if err != nil {
		return Spec{}, err
	}
	spec.Binds, spec.Volumes, spec.Images = nil, nil, nil
	for _, m := range r.Mounts {
		spec.addMount(m)
	}
	return spec, nil
}

// SpecWith makes the Spec that a container would have with another HostConfig. As after NewSpec, its volumes are still to
// be made and those of VolumesFrom to be taken over. Another NetworkMode takes it out of all networks that it is in.
func SpecWith(r *Record, host HostConfig) (Spec, error) {
	cfg := r.Config
	if r.Host.UTSMode == utsHost { // the record shows the host's name, which nobody asked for
		cfg.Hostname = ""
	}
	if strings.HasPrefix(r.Host.NetworkMode, joinPrefix) || strings.HasPrefix(host.NetworkMode, joinPrefix) {
		cfg.Hostname, cfg.Domainname, cfg.ExposedPorts = "", "", nil // likewise, the other container's and the image's
	}
	d := &draft{Spec: Spec{Config: cfg, Host: host, Endpoints: r.Endpoints}, settled: r.Endpoints != nil}
	if networkOf(r.Host.NetworkMode) != networkOf(host.NetworkMode) {
		d.Endpoints, d.settled = nil, false
	}
	spec, _, err := buildSpec(d)
	if err != nil {
		return Spec{}, fmt.Errorf("settings of container %s: %w", r.ID, err)
	}
	return spec, nil
}

// Hostname is the host name of a container that has the given id on a host of the given name.
func (s *Spec) Hostname(id, hostName string) string {
	switch {
	case s.UTSHost:
		return hostName
	case s.Config.Hostname != "":
		return s.Config.Hostname
	case s.Network == NetworkHost && hostName != "":
		return hostName
	case len(id) > 12:
		return id[:12]
	default:
		return id
	}
}

// checkUnsupported refuses what moss does not do today.
func checkUnsupported(d *draft) error {
	h := &d.Host
	isolation := strings.ToLower(h.Isolation)
	refused := []struct {
		asked bool
		field string
		value any
	}{
		{h.Cgroup != "", "Cgroup", h.Cgroup},
		{len(h.DeviceCgroupRules) > 0, "DeviceCgroupRules", h.DeviceCgroupRules},
		{isolation == "process" || isolation == "hyperv", "Isolation", h.Isolation},
		{d.Config.PublishService != "", "PublishService", d.Config.PublishService},
	}
	for _, r := range refused {
		if r.asked {
			return unsupportedSetting(r.field, r.value)
		}
	}
	d.Runtime = h.Runtime
	userns := h.UsernsMode
	if h.KeepsID() {
		if _, err := h.KeptIDs(UserIDs{}); err != nil {
			return err
		}
		userns = usernsKeepID
	}
	for _, choice := range []struct {
		field, value string
		known        []string
	}{
		{"UsernsMode", userns, []string{"host", usernsKeepID}},
		{"Isolation", isolation, []string{"default"}},
		{"Runtime", h.Runtime, []string{"crun", "runc"}},
	} {
		if choice.value != "" && !slices.Contains(choice.known, choice.value) {
			return fault.Invalid("invalid %s %q: expected %s", choice.field, choice.value, strings.Join(choice.known, " or "))
		}
	}
	return nil
}

// unsupportedSetting returns the error for a setting that moss does not serve.
func unsupportedSetting(field string, value any) error {
	return fault.Unsupported("%s %v is not supported by this engine", field, value)
}

// warnIgnored warns of settings that have no effect here.
func (d *draft) warnIgnored() {
	h := &d.Host
	settings := []struct {
		asked bool
		field string
		why   string
	}{
		{len(h.LxcConf) > 0, "LxcConf", "there is no lxc execution driver"},
		{h.Init != nil && *h.Init && h.PidMode != "", "Init", "the container has no process ids of its own"},
		{h.KernelMemory != 0, "KernelMemory", "kernels no longer have that limit"},
		{h.CPUPercent != 0, "CpuPercent", "it is for Windows only"},
		{h.CPUCount != 0, "CpuCount", "it is for Windows only"},
		{h.IOMaximumIOps != 0, "IOMaximumIOps", "it is for Windows only"},
		{h.IOMaximumBandwidth != 0, "IOMaximumBandwidth", "it is for Windows only"},
		{h.DiskQuota != 0, "DiskQuota", "it is for Windows only"},
	}
	for _, s := range settings {
		if s.asked {
			d.addWarning("%s has no effect: %s.", s.field, s.why)
		}
	}
}
