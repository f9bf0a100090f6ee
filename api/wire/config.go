package wire

import (
	"moss/api/apiver"
	"moss/api/types"
	"moss/engine/container"
)

// ToEndpoint returns what the settings ask of a network; nothing in particular if there are none.
func ToEndpoint(e *types.EndpointConfig) container.EndpointConfig {
	if e == nil {
		return container.EndpointConfig{}
	}
	asked := container.EndpointConfig{Links: e.Links, Aliases: e.Aliases, GwPriority: e.GwPriority, DriverOpts: e.DriverOpts}
	if e.EndpointID == "" {
		asked.MacAddress = e.MacAddress
	}
	if e.IPAMConfig != nil {
		ipam := container.IPAMConfig(*e.IPAMConfig)
		asked.IPAMConfig = &ipam
	}
	return asked
}

// DecodeCreate reads the body of containers/create as DecodeWarn does; nil for null. Without a HostConfig its settings are
// those at the top level, as with engines of these versions.
func DecodeCreate(raw []byte, version apiver.Version) (body *types.ContainerCreate, warnings []string, err error) {
	warnings, err = DecodeWarn(raw, &body, version)
	if err != nil || body == nil || body.HostConfig != nil {
		return body, warnings, err
	}
	body.HostConfig = &types.HostConfig{}
	return body, warnings, Decode(raw, body.HostConfig, version)
}

// ToCreateHost returns the host's part of the body. A setting at the top level counts only where HostConfig leaves it at zero.
func ToCreateHost(c *types.ContainerCreate) container.HostConfig {
	var h container.HostConfig
	if c.HostConfig != nil {
		h = ToHost(c.HostConfig)
	}
	setIfZero(&h.Memory, c.Memory)
	setIfZero(&h.MemorySwap, c.MemorySwap)
	setIfZero(&h.CPUShares, c.CPUShares)
	setIfZero(&h.CpusetCpus, c.CpusetCpus)
	setIfZero(&h.CpusetCpus, c.Cpuset)
	setIfZero(&h.VolumeDriver, c.VolumeDriver)
	return h
}

func setIfZero[T comparable](to *T, from T) {
	var zero T
	if *to == zero {
		*to = from
	}
}

// ToEndpoints returns the networks the body asks for, by name.
func ToEndpoints(c *types.ContainerCreate) map[string]container.EndpointConfig {
	if c.NetworkingConfig == nil || len(c.NetworkingConfig.EndpointsConfig) == 0 {
		return nil
	}
	endpoints := make(map[string]container.EndpointConfig, len(c.NetworkingConfig.EndpointsConfig))
	for name, asked := range c.NetworkingConfig.EndpointsConfig {
		endpoints[name] = ToEndpoint(asked)
	}
	return endpoints
}
