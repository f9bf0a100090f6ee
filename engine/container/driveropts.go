package container

import (
	"maps"
	"slices"
	"strings"

	"moss/engine/fault"
	"moss/engine/network"
)

// The options that a container's place in a network can have (EndpointConfig.DriverOpts, API 1.32 and later).
const (
	// OptSysctls has kernel parameters of the interface, as net.ipv4.conf.IFNAME.NAME=VALUE with commas between them.
	OptSysctls = "com.docker.network.endpoint.sysctls"
	// OptInterface is the interface's name in the container.
	OptInterface = "com.docker.network.endpoint.ifname"
)

// maxInterface is the longest name that the kernel takes for an interface, in bytes.
const maxInterface = 15

// checkDriverOpts refuses options that there are not, and all of them where there is no interface. fault.Invalid.
func (e *EndpointConfig) checkDriverOpts(network string) error {
	if len(e.DriverOpts) > 0 && (network == NetworkHost || network == NetworkNone) {
		return fault.Invalid("network %s: DriverOpts are for interfaces, and it has none", network)
	}
	for _, key := range slices.Sorted(maps.Keys(e.DriverOpts)) {
		switch key {
		case OptSysctls:
			if _, err := e.InterfaceSysctls(); err != nil {
				return fault.Invalid("network %s: DriverOpts: %w", network, err)
			}
		case OptInterface:
			if name := e.DriverOpts[key]; !isInterface(name) {
				return fault.Invalid("network %s: DriverOpts: %q is no name for an interface", network, name)
			}
		default:
			return fault.Invalid("network %s: DriverOpts: unknown option %q, want %s or %s", network, key, OptSysctls, OptInterface)
		}
	}
	return nil
}

// isInterface reports whether the kernel takes a name for a new interface of a container.
func isInterface(name string) bool {
	if name == "" || len(name) > maxInterface || slices.Contains([]string{".", "..", "lo", "all", "default"}, name) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/:%", r) })
}

// InterfaceSysctls returns the kernel parameters that OptSysctls asks for. fault.Invalid for what is none of an interface. The
// stand-in for its name comes in small letters, too: docker's command line makes them of all that follows --network.
func (e *EndpointConfig) InterfaceSysctls() ([]network.Sysctl, error) {
	text := e.DriverOpts[OptSysctls]
	if text == "" {
		return nil, nil
	}
	var all []network.Sysctl
	for setting := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(setting, "=")
		parts := strings.Split(key, ".")
		good := found && value != "" && len(parts) == 5 && parts[0] == "net" &&
			slices.Contains([]string{"ipv4", "ipv6", "mpls"}, parts[1]) &&
			strings.EqualFold(parts[3], "IFNAME") && isParameter(parts[2]) && isParameter(parts[4])
		if !good || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fault.Invalid("%q is no parameter of an interface: want net.ipv4.conf.IFNAME.NAME=VALUE or the like", setting)
		}
		all = append(all, network.Sysctl{Family: parts[1], Kind: parts[2], Name: parts[4], Value: value})
	}
	return all, nil
}

// isParameter reports whether a word can be part of the name of a kernel parameter.
func isParameter(word string) bool {
	return word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
