package wire

import (
	"moss/api/types"
	"moss/engine/container"
	"moss/engine/image"
)

// The settings of containers have the same fields in the API and in the engine, and differ in the names of their types and in
// tags. Their conversions are written out, since each inspect does one of each. Lists and maps whose types do not differ
// are shared: nobody changes them afterwards. In each literal the fields come last whose types differ.

// newConfig shows a container's configuration.
func newConfig(c *container.Config) types.Config {
	return types.Config{
		Hostname: c.Hostname, Domainname: c.Domainname, User: c.User, AttachStdin: c.AttachStdin,
		AttachStdout: c.AttachStdout, AttachStderr: c.AttachStderr, ExposedPorts: c.ExposedPorts,
		PublishService: c.PublishService, Tty: c.Tty, OpenStdin: c.OpenStdin, StdinOnce: c.StdinOnce, Env: c.Env,
		ArgsEscaped: c.ArgsEscaped, Image: c.Image, Volumes: c.Volumes, WorkingDir: c.WorkingDir,
		NetworkDisabled: c.NetworkDisabled, MacAddress: c.MacAddress, OnBuild: c.OnBuild, Labels: c.Labels,
		StopTimeout: c.StopTimeout,
		Cmd:         types.Strings(c.Cmd), Healthcheck: (*types.Healthcheck)(c.Healthcheck),
		Entrypoint: types.Strings(c.Entrypoint), StopSignal: types.Signal(c.StopSignal), Shell: types.Strings(c.Shell),
	}
}

// newHostConfig shows what a container asks of the host.
func newHostConfig(h *container.HostConfig) types.HostConfig {
	return types.HostConfig{
		Binds: h.Binds, ContainerIDFile: h.ContainerIDFile, NetworkMode: h.NetworkMode, AutoRemove: h.AutoRemove,
		VolumeDriver: h.VolumeDriver, VolumesFrom: h.VolumesFrom, DNS: h.DNS, DNSOptions: h.DNSOptions,
		DNSSearch: h.DNSSearch, ExtraHosts: h.ExtraHosts, GroupAdd: h.GroupAdd, IpcMode: h.IpcMode, Cgroup: h.Cgroup,
		Links: h.Links, OomScoreAdj: h.OomScoreAdj, PidMode: h.PidMode, Privileged: h.Privileged,
		PublishAllPorts: h.PublishAllPorts, ReadonlyRootfs: h.ReadonlyRootfs, SecurityOpt: h.SecurityOpt,
		StorageOpt: h.StorageOpt, Tmpfs: h.Tmpfs, UTSMode: h.UTSMode, UsernsMode: h.UsernsMode, ShmSize: h.ShmSize,
		Sysctls: h.Sysctls, Runtime: h.Runtime, ConsoleSize: h.ConsoleSize, Isolation: h.Isolation, Init: h.Init,
		CgroupnsMode: h.CgroupnsMode, Annotations: h.Annotations,
		MaskedPaths: h.MaskedPaths, ReadonlyPaths: h.ReadonlyPaths, CPUShares: h.CPUShares, Memory: h.Memory,
		NanoCPUs: h.NanoCPUs, CgroupParent: h.CgroupParent, BlkioWeight: h.BlkioWeight, CPUPeriod: h.CPUPeriod,
		CPUQuota: h.CPUQuota, CpusetCpus: h.CpusetCpus, CpusetMems: h.CpusetMems, DeviceCgroupRules: h.DeviceCgroupRules,
		DiskQuota: h.DiskQuota, KernelMemory: h.KernelMemory, MemoryReservation: h.MemoryReservation,
		MemorySwap: h.MemorySwap, MemorySwappiness: h.MemorySwappiness, OomKillDisable: h.OomKillDisable,
		PidsLimit: h.PidsLimit, CPUCount: h.CPUCount, CPUPercent: h.CPUPercent, IOMaximumIOps: h.IOMaximumIOps,
		IOMaximumBandwidth: h.IOMaximumBandwidth,
		LogConfig:          types.LogConfig(h.LogConfig), RestartPolicy: types.RestartPolicy(h.RestartPolicy),
		CapAdd: types.Strings(h.CapAdd), CapDrop: types.Strings(h.CapDrop),
		PortBindings:         convertBindings(h.PortBindings, newPortBinding),
		LxcConf:              convertList(h.LxcConf, newLxcPair),
		Mounts:               convertList(h.Mounts, newMountConfig),
		DeviceRequests:       convertList(h.DeviceRequests, newDeviceRequest),
		BlkioWeightDevice:    convertList(h.BlkioWeightDevice, newWeightDevice),
		BlkioDeviceReadBps:   convertList(h.BlkioDeviceReadBps, newThrottleDevice),
		BlkioDeviceWriteBps:  convertList(h.BlkioDeviceWriteBps, newThrottleDevice),
		BlkioDeviceReadIOps:  convertList(h.BlkioDeviceReadIOps, newThrottleDevice),
		BlkioDeviceWriteIOps: convertList(h.BlkioDeviceWriteIOps, newThrottleDevice),
		Devices:              convertList(h.Devices, newDevice),
		Ulimits:              convertList(h.Ulimits, newUlimit),
	}
}

// ToConfig returns a container's configuration as the engine takes it.
func ToConfig(c *types.Config) container.Config {
	return container.Config{
		Hostname: c.Hostname, Domainname: c.Domainname, User: c.User, AttachStdin: c.AttachStdin,
		AttachStdout: c.AttachStdout, AttachStderr: c.AttachStderr, ExposedPorts: c.ExposedPorts,
		PublishService: c.PublishService, Tty: c.Tty, OpenStdin: c.OpenStdin, StdinOnce: c.StdinOnce, Env: c.Env,
		ArgsEscaped: c.ArgsEscaped, Image: c.Image, Volumes: c.Volumes, WorkingDir: c.WorkingDir,
		NetworkDisabled: c.NetworkDisabled, MacAddress: c.MacAddress, OnBuild: c.OnBuild, Labels: c.Labels,
		StopTimeout: c.StopTimeout,
		Cmd:         c.Cmd, Healthcheck: (*image.Healthcheck)(c.Healthcheck),
		Entrypoint: c.Entrypoint, StopSignal: string(c.StopSignal),
		Shell: c.Shell,
	}
}

// ToHost returns what is asked of the host as the engine takes it.
func ToHost(h *types.HostConfig) container.HostConfig {
	return container.HostConfig{
		Binds: h.Binds, ContainerIDFile: h.ContainerIDFile, NetworkMode: h.NetworkMode, AutoRemove: h.AutoRemove,
		VolumeDriver: h.VolumeDriver, VolumesFrom: h.VolumesFrom, DNS: h.DNS, DNSOptions: h.DNSOptions,
		DNSSearch: h.DNSSearch, ExtraHosts: h.ExtraHosts, GroupAdd: h.GroupAdd, IpcMode: h.IpcMode, Cgroup: h.Cgroup,
		Links: h.Links, OomScoreAdj: h.OomScoreAdj, PidMode: h.PidMode, Privileged: h.Privileged,
		PublishAllPorts: h.PublishAllPorts, ReadonlyRootfs: h.ReadonlyRootfs, SecurityOpt: h.SecurityOpt,
		StorageOpt: h.StorageOpt, Tmpfs: h.Tmpfs, UTSMode: h.UTSMode, UsernsMode: h.UsernsMode, ShmSize: h.ShmSize,
		Sysctls: h.Sysctls, Runtime: h.Runtime, ConsoleSize: h.ConsoleSize, Isolation: h.Isolation, Init: h.Init,
		CgroupnsMode: h.CgroupnsMode, Annotations: h.Annotations,
		MaskedPaths: h.MaskedPaths, ReadonlyPaths: h.ReadonlyPaths, CPUShares: h.CPUShares, Memory: h.Memory,
		NanoCPUs: h.NanoCPUs, CgroupParent: h.CgroupParent, BlkioWeight: h.BlkioWeight, CPUPeriod: h.CPUPeriod,
		CPUQuota: h.CPUQuota, CpusetCpus: h.CpusetCpus, CpusetMems: h.CpusetMems, DeviceCgroupRules: h.DeviceCgroupRules,
		DiskQuota: h.DiskQuota, KernelMemory: h.KernelMemory, MemoryReservation: h.MemoryReservation,
		MemorySwap: h.MemorySwap, MemorySwappiness: h.MemorySwappiness, OomKillDisable: h.OomKillDisable,
		PidsLimit: h.PidsLimit, CPUCount: h.CPUCount, CPUPercent: h.CPUPercent, IOMaximumIOps: h.IOMaximumIOps,
		IOMaximumBandwidth: h.IOMaximumBandwidth,
		LogConfig:          container.LogConfig(h.LogConfig), RestartPolicy: container.RestartPolicy(h.RestartPolicy),
		CapAdd: h.CapAdd, CapDrop: h.CapDrop,
		PortBindings:         convertBindings(h.PortBindings, toPortBinding),
		LxcConf:              convertList(h.LxcConf, toLxcPair),
		Mounts:               convertList(h.Mounts, toMountConfig),
		DeviceRequests:       convertList(h.DeviceRequests, toDeviceRequest),
		BlkioWeightDevice:    convertList(h.BlkioWeightDevice, toWeightDevice),
		BlkioDeviceReadBps:   convertList(h.BlkioDeviceReadBps, toThrottleDevice),
		BlkioDeviceWriteBps:  convertList(h.BlkioDeviceWriteBps, toThrottleDevice),
		BlkioDeviceReadIOps:  convertList(h.BlkioDeviceReadIOps, toThrottleDevice),
		BlkioDeviceWriteIOps: convertList(h.BlkioDeviceWriteIOps, toThrottleDevice),
		Devices:              convertList(h.Devices, toDevice),
		Ulimits:              convertList(h.Ulimits, toUlimit),
	}
}

// convertList converts each entry of a list. No list stays none, and an empty one stays empty.
func convertList[To, From any](list []From, convert func(From) To) []To {
	if list == nil {
		return nil
	}
	converted := make([]To, len(list))
	for i := range list {
		converted[i] = convert(list[i])
	}
	return converted
}

// convertBindings converts the bindings of each port, as convertList does.
func convertBindings[To, From any](bindings map[string][]From, convert func(From) To) map[string][]To {
	if bindings == nil {
		return nil
	}
	converted := make(map[string][]To, len(bindings))
	for port, list := range bindings {
		converted[port] = convertList(list, convert)
	}
	return converted
}

func newPortBinding(b container.PortBinding) types.PortBinding { return types.PortBinding(b) }

func newLxcPair(p container.LxcPair) types.LxcPair { return types.LxcPair(p) }

func newWeightDevice(d container.WeightDevice) types.WeightDevice { return types.WeightDevice(d) }

func newThrottleDevice(d container.ThrottleDevice) types.ThrottleDevice {
	return types.ThrottleDevice(d)
}

func newDevice(d container.Device) types.Device { return types.Device(d) }

func newUlimit(u container.Ulimit) types.Ulimit { return types.Ulimit(u) }

func newMountConfig(m container.MountConfig) types.MountConfig {
	return types.MountConfig{
		Type: m.Type, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly, Consistency: m.Consistency,
		ClusterOptions: m.ClusterOptions, BindOptions: (*types.BindOptions)(m.BindOptions),
		VolumeOptions: newVolumeOptions(m.VolumeOptions), TmpfsOptions: (*types.TmpfsOptions)(m.TmpfsOptions),
		ImageOptions: (*types.ImageMountOptions)(m.ImageOptions),
	}
}

func newVolumeOptions(o *container.VolumeOptions) *types.VolumeOptions {
	if o == nil {
		return nil
	}
	return &types.VolumeOptions{
		NoCopy: o.NoCopy, Labels: o.Labels, Subpath: o.Subpath, DriverConfig: (*types.DriverConfig)(o.DriverConfig),
	}
}

func toPortBinding(b types.PortBinding) container.PortBinding { return container.PortBinding(b) }

func toLxcPair(p types.LxcPair) container.LxcPair { return container.LxcPair(p) }

func toWeightDevice(d types.WeightDevice) container.WeightDevice { return container.WeightDevice(d) }

func toThrottleDevice(d types.ThrottleDevice) container.ThrottleDevice {
	return container.ThrottleDevice(d)
}

func toDevice(d types.Device) container.Device { return container.Device(d) }

func toUlimit(u types.Ulimit) container.Ulimit { return container.Ulimit(u) }

func toMountConfig(m types.MountConfig) container.MountConfig {
	return container.MountConfig{
		Type: m.Type, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly, Consistency: m.Consistency,
		ClusterOptions: m.ClusterOptions, BindOptions: (*container.BindOptions)(m.BindOptions),
		VolumeOptions: toVolumeOptions(m.VolumeOptions), TmpfsOptions: (*container.TmpfsOptions)(m.TmpfsOptions),
		ImageOptions: (*container.ImageMountOptions)(m.ImageOptions),
	}
}

func toVolumeOptions(o *types.VolumeOptions) *container.VolumeOptions {
	if o == nil {
		return nil
	}
	return &container.VolumeOptions{
		NoCopy: o.NoCopy, Labels: o.Labels, Subpath: o.Subpath, DriverConfig: (*container.DriverConfig)(o.DriverConfig),
	}
}

func newDeviceRequest(r container.DeviceRequest) types.DeviceRequest { return types.DeviceRequest(r) }

func toDeviceRequest(r types.DeviceRequest) container.DeviceRequest {
	return container.DeviceRequest(r)
}
