package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"moss/api/types"
	"moss/cmd/moss/arg"
)

// surroundings is what flags refer to beyond themselves.
type surroundings struct {
	given  func(flag string) bool // whether a flag was written at all
	lookup arg.Lookup
	dir    string // relative sources of volumes start here
}

// buildBody turns flags and the arguments IMAGE [COMMAND…] into the body that creates the container.
func (f *createFlags) buildBody(args []string, around surroundings) (types.ContainerCreate, error) {
	body := types.ContainerCreate{
		Config: types.Config{
			Image: args[0], Hostname: f.hostname, Domainname: f.domainName, User: f.user, WorkingDir: f.workDir,
			Tty: f.tty, OpenStdin: f.interactive, StopSignal: types.Signal(f.stopSignal),
		},
		HostConfig: &types.HostConfig{
			ContainerIDFile: f.cidFile, PublishAllPorts: f.publishAll, VolumesFrom: f.volumesFrom,
			CapAdd: f.capAdd, CapDrop: f.capDrop, DNSOptions: f.dnsOptions, DNSSearch: f.dnsSearch, GroupAdd: f.groupAdd,
			IpcMode: f.ipc, CgroupnsMode: f.cgroupns, PidMode: f.pid, UTSMode: f.uts, UsernsMode: f.userns,
			Privileged: f.privileged, ReadonlyRootfs: f.readOnly, OomScoreAdj: f.oomScoreAdj, CPUShares: f.cpuShares,
			CPUPeriod: f.cpuPeriod, CPUQuota: f.cpuQuota, CpusetCpus: f.cpusetCPUs, CpusetMems: f.cpusetMems,
			BlkioWeight: f.blkioWeight, CgroupParent: f.cgroupParent, VolumeDriver: f.volumeDriver, Runtime: f.runtime,
			Isolation: f.isolation, CPUCount: f.cpuCount, CPUPercent: f.cpuPercent, IOMaximumIOps: f.ioOperations,
		},
	}
	if len(args) > 1 {
		body.Cmd = args[1:]
	}
	if around.given("entrypoint") {
		body.Entrypoint = types.Strings{f.entrypoint}
	}
	for _, part := range []func(*types.ContainerCreate, surroundings) error{
		f.buildStreams, f.buildVariables, f.buildLabels, f.buildFiles, f.buildDevices, f.buildPorts, f.buildNames, f.buildNetworks,
		f.buildLinks, f.buildMemory, f.buildCPUs, f.buildBlockIO, f.buildLimits, f.buildSecurity, f.buildSystemPaths,
		f.buildPolicies, f.health.buildHealthcheck,
	} {
		if err := part(&body, around); err != nil {
			return types.ContainerCreate{}, err
		}
	}
	return body, nil
}

// buildStreams sets what is attached: what -a names, or output always and stdin with -i.
func (f *createFlags) buildStreams(body *types.ContainerCreate, _ surroundings) error {
	body.AttachStdin, body.AttachStdout, body.AttachStderr = f.interactive, true, true
	if len(f.attach) > 0 {
		body.AttachStdin, body.AttachStdout, body.AttachStderr = false, false, false
	}
	for _, stream := range f.attach {
		switch strings.ToLower(stream) {
		case "stdin":
			body.AttachStdin = true
			body.OpenStdin = true
		case "stdout":
			body.AttachStdout = true
		case "stderr":
			body.AttachStderr = true
		default:
			return fmt.Errorf("attach %q: want stdin, stdout or stderr", stream)
		}
	}
	body.StdinOnce = body.AttachStdin
	return nil
}

func (f *createFlags) buildVariables(body *types.ContainerCreate, around surroundings) error {
	given, err := readVariables(f.envFiles, f.env, around.lookup)
	if err != nil {
		return err
	}
	if f.httpProxy {
		body.Env = arg.Proxies(around.lookup, append(given, f.env...))
	}
	if f.hostCA {
		body.Env = append(body.Env, arg.CAVariables()...)
	}
	body.Env = append(body.Env, given...) // of two with one name the last counts
	return nil
}

// readVariables reads those of files, and then those that the flag env names. One of these that is not set here is left out.
func readVariables(files, flags []string, lookup arg.Lookup) (all []string, err error) {
	for _, path := range files {
		entries, err := arg.EnvFile(path, lookup)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	for _, text := range flags {
		entry, ok, err := arg.Env(text, lookup)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, entry)
		}
	}
	return all, nil
}

func (f *createFlags) buildLabels(body *types.ContainerCreate, _ surroundings) error {
	labels := map[string]string{}
	for _, path := range f.labelFiles {
		if err := arg.LabelFile(labels, path); err != nil {
			return err
		}
	}
	for _, text := range f.labels {
		if err := arg.Labels(labels, text); err != nil {
			return err
		}
	}
	if len(labels) > 0 {
		body.Labels = labels
	}
	return nil
}

func (f *createFlags) buildFiles(body *types.ContainerCreate, around surroundings) error {
	var volumes arg.Volumes
	for _, text := range f.volumes {
		if err := volumes.Volume(text, around.dir); err != nil {
			return err
		}
	}
	for _, text := range f.tmpfs {
		if err := volumes.Tmp(text); err != nil {
			return err
		}
	}
	for _, text := range f.mounts {
		mount, err := arg.Mount(text, around.dir)
		if err != nil {
			return err
		}
		body.HostConfig.Mounts = append(body.HostConfig.Mounts, mount)
	}
	if f.hostCA {
		path, err := arg.HostCA(around.lookup)
		if err != nil {
			return fmt.Errorf("--host-ca: %w", err)
		}
		body.HostConfig.Mounts = append(body.HostConfig.Mounts, types.MountConfig{Type: "bind", Source: path, Target: arg.CAInside, ReadOnly: true})
	}
	body.Volumes, body.HostConfig.Binds, body.HostConfig.Tmpfs = volumes.Anonymous, volumes.Binds, volumes.Tmpfs
	var err error
	if body.HostConfig.StorageOpt, err = arg.Pairs("storage-opt", f.storageOpts); err != nil {
		return err
	}
	return setSize(&body.HostConfig.ShmSize, "shm-size", f.shmSize, arg.Bytes)
}

func (f *createFlags) buildPorts(body *types.ContainerCreate, _ surroundings) error {
	var ports arg.Ports
	for _, text := range f.publish {
		if err := ports.Publish(text); err != nil {
			return err
		}
	}
	for _, text := range f.expose {
		if err := ports.Expose(text); err != nil {
			return err
		}
	}
	body.ExposedPorts, body.HostConfig.PortBindings = ports.Exposed, ports.Bindings
	return nil
}

func (f *createFlags) buildNames(body *types.ContainerCreate, _ surroundings) error {
	for _, text := range f.addHosts {
		host, err := arg.ExtraHost(text)
		if err != nil {
			return err
		}
		body.HostConfig.ExtraHosts = append(body.HostConfig.ExtraHosts, host)
	}
	for _, text := range f.dns {
		if err := arg.Address("dns", text); err != nil {
			return err
		}
	}
	body.HostConfig.DNS = f.dns
	return nil
}

func (f *createFlags) buildMemory(body *types.ContainerCreate, around surroundings) error {
	host := body.HostConfig
	if around.given("memory-swappiness") {
		host.MemorySwappiness = &f.memorySwappiness
	}
	if around.given("oom-kill-disable") {
		host.OomKillDisable = &f.oomKillDisable
	}
	return errors.Join(
		setSize(&host.Memory, "memory", f.memory, arg.Bytes),
		setSize(&host.MemoryReservation, "memory-reservation", f.memoryReservation, arg.Bytes),
		setSize(&host.MemorySwap, "memory-swap", f.memorySwap, arg.Swap),
		setSize(&host.KernelMemory, "kernel-memory", f.kernelMemory, arg.Bytes),
	)
}

func (f *createFlags) buildCPUs(body *types.ContainerCreate, _ surroundings) error {
	if f.cpus == "" {
		return nil
	}
	if f.cpuPeriod != 0 || f.cpuQuota != 0 {
		return errors.New("--cpus cannot be combined with --cpu-period and --cpu-quota")
	}
	var err error
	body.HostConfig.NanoCPUs, err = arg.CPUs(f.cpus)
	return err
}

func (f *createFlags) buildLimits(body *types.ContainerCreate, around surroundings) error {
	if around.given("pids-limit") {
		body.HostConfig.PidsLimit = &f.pidsLimit
	}
	for _, text := range f.ulimits {
		limit, err := arg.Ulimit(text)
		if err != nil {
			return err
		}
		body.HostConfig.Ulimits = append(body.HostConfig.Ulimits, limit)
	}
	var err error
	if body.HostConfig.Sysctls, err = arg.Pairs("sysctl", f.sysctls); err != nil {
		return err
	}
	body.HostConfig.Annotations, err = arg.Pairs("annotation", f.annotations)
	return err
}

// buildSecurity hands the options on, and the content of a seccomp profile in place of its path: the engine may be
// unable to see the file.
func (f *createFlags) buildSecurity(body *types.ContainerCreate, around surroundings) error {
	if around.given("init") {
		body.HostConfig.Init = &f.init
	}
	for _, option := range f.securityOpts {
		key, path, found := strings.Cut(option, "=")
		if !found {
			key, path, found = strings.Cut(option, ":")
		}
		if found && key == "seccomp" && path != "unconfined" && path != "builtin" {
			raw, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("seccomp profile: %w", err)
			}
			var profile bytes.Buffer
			if err := json.Compact(&profile, raw); err != nil {
				return fmt.Errorf("seccomp profile %s: %w", path, err)
			}
			option = "seccomp=" + profile.String()
		}
		body.HostConfig.SecurityOpt = append(body.HostConfig.SecurityOpt, option)
	}
	return nil
}

// buildSystemPaths takes systempaths=unconfined out of the options: of a container the API has two lists, which it empties.
func (f *createFlags) buildSystemPaths(body *types.ContainerCreate, _ surroundings) error {
	left := slices.DeleteFunc(body.HostConfig.SecurityOpt, func(option string) bool { return option == "systempaths=unconfined" })
	if len(left) < len(f.securityOpts) {
		body.HostConfig.MaskedPaths, body.HostConfig.ReadonlyPaths = &[]string{}, &[]string{}
	}
	body.HostConfig.SecurityOpt = left
	return nil
}

func (f *createFlags) buildPolicies(body *types.ContainerCreate, around surroundings) error {
	if around.given("stop-timeout") {
		body.StopTimeout = &f.stopTimeout // 0 kills at once
	}
	policy, err := arg.Restart(f.restart)
	if err != nil {
		return err
	}
	body.HostConfig.RestartPolicy = policy
	if f.logDriver == "" && len(f.logOpts) == 0 {
		return nil
	}
	log := types.LogConfig{Type: f.logDriver}
	if len(f.logOpts) > 0 {
		log.Config = map[string]string{}
	}
	for _, text := range f.logOpts {
		key, value, err := arg.Pair("log-opt", text)
		if err != nil {
			return err
		}
		log.Config[key] = value
	}
	body.HostConfig.LogConfig = log
	return nil
}

func setSize(target *int64, flag, text string, parse func(string) (int64, error)) error {
	if text == "" {
		return nil
	}
	size, err := parse(text)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	*target = size
	return nil
}
