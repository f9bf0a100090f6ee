package executor

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/api/naming"
	"github.com/moby/swarmkit/v2/template"

	"moss/api/types"
)

// The labels of a task's container, as clients look for them.
const (
	labelTask        = "com.docker.swarm.task"
	labelTaskID      = "com.docker.swarm.task.id"
	labelTaskName    = "com.docker.swarm.task.name"
	labelNodeID      = "com.docker.swarm.node.id"
	labelServiceID   = "com.docker.swarm.service.id"
	labelServiceName = "com.docker.swarm.service.name"
)

// taskNetwork is the network of the node that the container of a task without networks is in.
const taskNetwork = "bridge"

// newCreate returns what the engine is asked to create for a task. hasNetworks: this node can have networks of the swarm. An
// error says what the node cannot give the task; it names the field.
func newCreate(t *api.Task, node *api.NodeDescription, folders hostFolders, hasNetworks bool) (types.ContainerCreate, error) {
	var body types.ContainerCreate
	if err := checkSupported(t, hasNetworks); err != nil {
		return body, err
	}
	c, err := template.ExpandContainerSpec(node, t)
	if err != nil {
		return body, err
	}
	host, err := newHostConfig(t, c, folders)
	if err != nil {
		return body, err
	}
	body.Config = types.Config{
		Image: c.Image, Entrypoint: c.Command, Cmd: c.Args, Env: c.Env, WorkingDir: c.Dir, User: c.User, Hostname: c.Hostname,
		Labels: labelsOf(t, c), Tty: c.TTY, OpenStdin: c.OpenStdin, StopSignal: types.Signal(c.StopSignal),
		StopTimeout: stopTimeout(c), Healthcheck: newHealthcheck(c.Healthcheck),
	}
	body.HostConfig = host
	return body, setNetworks(&body, t)
}

// checkSupported refuses what a task can ask for and this node cannot give: a task never runs with less than it was to have,
// be it protection or data.
func checkSupported(t *api.Task, hasNetworks bool) error {
	c := t.Spec.GetContainer()
	if c == nil || c.Image == "" {
		return errors.New("ContainerSpec.Image: a task needs an image")
	}
	p := c.Privileges
	for _, field := range []struct {
		asked bool
		name  string
	}{
		{len(t.Networks) > 0 && !hasNetworks, "Networks"},
		{t.Endpoint != nil && slices.ContainsFunc(t.Endpoint.Ports, isHostPort), "EndpointSpec.Ports.PublishMode"},
		{len(t.Volumes) > 0, "cluster volumes"},
		{len(t.AssignedGenericResources) > 0, "Resources.Reservations.GenericResources"},
		{len(c.Secrets) > 0, "ContainerSpec.Secrets"},
		{len(c.Configs) > 0, "ContainerSpec.Configs"},
		{c.Isolation != api.ContainerIsolationDefault, "ContainerSpec.Isolation"},
		{p != nil && p.CredentialSpec != nil, "ContainerSpec.Privileges.CredentialSpec"},
		{p != nil && p.SELinuxContext != nil && !p.SELinuxContext.Disable, "ContainerSpec.Privileges.SELinuxContext"},
		{p != nil && p.Seccomp != nil && p.Seccomp.Mode != api.Privileges_SeccompOpts_DEFAULT, "ContainerSpec.Privileges.Seccomp"},
		{p != nil && p.Apparmor != nil && p.Apparmor.Mode != api.Privileges_AppArmorOpts_DEFAULT, "ContainerSpec.Privileges.AppArmor"},
	} {
		if field.asked {
			return fmt.Errorf("%s: moss does not support this for tasks on this node", field.name)
		}
	}
	return nil
}

// isHostPort tells whether a port is one of the task's node alone, and not of all nodes.
func isHostPort(p *api.PortConfig) bool { return p.PublishMode == api.PublishModeHost }

// labelsOf returns the container's labels. Those of the swarm win over those of the same name.
func labelsOf(t *api.Task, c *api.ContainerSpec) map[string]string {
	labels := make(map[string]string, len(c.Labels)+6)
	for _, given := range []map[string]string{c.Labels, t.Annotations.Labels, {
		labelTask: "", labelTaskID: t.ID, labelTaskName: naming.Task(t), labelNodeID: t.NodeID,
		labelServiceID: t.ServiceID, labelServiceName: t.ServiceAnnotations.Name,
	}} {
		maps.Copy(labels, given)
	}
	return labels
}

// stopTimeout is the grace period in seconds, rounded up; nil: the engine's.
func stopTimeout(c *api.ContainerSpec) *int {
	if c.StopGracePeriod == nil {
		return nil
	}
	seconds := int(math.Ceil(max(0, durationOf(c.StopGracePeriod)).Seconds()))
	return &seconds
}

// protoDuration is a duration of SwarmKit's; nil is 0.
type protoDuration interface {
	GetSeconds() int64
	GetNanos() int32
}

// durationOf converts a duration. One that no time.Duration can hold is the longest of those.
func durationOf(d protoDuration) time.Duration {
	const most = int64(math.MaxInt64/time.Second) - 1
	seconds := min(max(d.GetSeconds(), -most), most)
	return time.Duration(seconds)*time.Second + time.Duration(d.GetNanos())
}

func newHealthcheck(h *api.HealthConfig) *types.Healthcheck {
	if h == nil {
		return nil
	}
	return &types.Healthcheck{
		Test: h.Test, Interval: durationOf(h.Interval), Timeout: durationOf(h.Timeout), StartPeriod: durationOf(h.StartPeriod),
		StartInterval: durationOf(h.StartInterval),
		Retries:       int(h.Retries),
	}
}

func newHostConfig(t *api.Task, c *api.ContainerSpec, folders hostFolders) (*types.HostConfig, error) {
	mounts, err := newMounts(c.Mounts, folders)
	if err != nil {
		return nil, err
	}
	host := &types.HostConfig{
		RestartPolicy: types.RestartPolicy{Name: "no"}, LogConfig: newLogConfig(t),
		Mounts: mounts, GroupAdd: c.Groups, ReadonlyRootfs: c.ReadOnly, ExtraHosts: newExtraHosts(c.Hosts),
		CapAdd: c.CapabilityAdd, CapDrop: c.CapabilityDrop, Sysctls: c.Sysctls, OomScoreAdj: int(c.OomScoreAdj),
	}
	if c.DNSConfig != nil {
		host.DNS, host.DNSSearch, host.DNSOptions = c.DNSConfig.Nameservers, c.DNSConfig.Search, c.DNSConfig.Options
	}
	if c.Init != nil {
		host.Init = &c.Init.Value
	}
	if c.PidsLimit != 0 {
		host.PidsLimit = &c.PidsLimit
	}
	for _, u := range c.Ulimits {
		host.Ulimits = append(host.Ulimits, types.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	if c.Privileges != nil && c.Privileges.NoNewPrivileges {
		host.SecurityOpt = append(host.SecurityOpt, "no-new-privileges")
	}
	limitResources(host, t.Spec.Resources)
	return host, nil
}

// newLogConfig returns the log driver of the task, which SwarmKit may have chosen, otherwise that of its spec; empty: the node's.
func newLogConfig(t *api.Task) types.LogConfig {
	driver := t.LogDriver
	if driver == nil {
		driver = t.Spec.LogDriver
	}
	if driver == nil {
		return types.LogConfig{}
	}
	return types.LogConfig{Type: driver.Name, Config: driver.Options}
}

// newExtraHosts turns lines of /etc/hosts into the engine's form, one entry for each name.
func newExtraHosts(lines []string) []string {
	var hosts []string
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		for _, name := range fields[1:] {
			hosts = append(hosts, name+":"+fields[0])
		}
	}
	return hosts
}

const (
	usualPeriod   = 100_000   // microseconds
	longestPeriod = 1_000_000 // microseconds; the kernel's bound
	leastQuota    = 1_000     // microseconds; the kernel's bound
)

// limitResources sets the limits. Reservations are the scheduler's account and no setting of a container.
func limitResources(host *types.HostConfig, r *api.ResourceRequirements) {
	if r == nil {
		return
	}
	if limits := r.Limits; limits != nil {
		host.Memory = limits.MemoryBytes
		if cpus := limits.NanoCPUs; cpus > 0 {
			host.CPUPeriod = usualPeriod
			if cpus/(1e9/usualPeriod) < leastQuota {
				host.CPUPeriod = longestPeriod
			}
			host.CPUQuota = max(leastQuota, cpus/(1e9/host.CPUPeriod))
		}
	}
	if r.SwapBytes != nil && host.Memory > 0 {
		host.MemorySwap = r.SwapBytes.Value
		if host.MemorySwap >= 0 {
			host.MemorySwap += host.Memory // the engine counts both
		}
	}
	if r.MemorySwappiness != nil {
		host.MemorySwappiness = &r.MemorySwappiness.Value
	}
}
