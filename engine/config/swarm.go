package config

import (
	"net/netip"
	"strconv"
	"strings"
)

// swarmSettings are about this node's part in a swarm.
func swarmSettings() []setting {
	return []setting{
		{
			"swarm-dir", "MOSS_SWARM_DIR", "folder of this node's part in a swarm, on a local disk; default: swarm in root",
			allowedPath, false,
			func(c *Config, v []string, env func(string) string) error { return setPath(&c.SwarmDir, v[0], env) },
		},
		{
			"swarm-host-folder", "MOSS_SWARM_HOST_FOLDERS",
			"folder of this host that services of a swarm may mount, with all below it; default: none; may be given several times",
			allowedPath, true,
			func(c *Config, v []string, env func(string) string) error {
				return setPaths(&c.SwarmHostFolders, v, env)
			},
		},
		{
			"swarm-data-addr", "MOSS_SWARM_DATA_ADDR",
			"where other nodes call this one for the networks of a swarm; none: they cannot; default: as managers know it",
			"an IP address, a network interface, none, or empty for the default", false,
			func(c *Config, v []string, _ func(string) string) error { return setDataAddr(&c.SwarmDataAddr, v[0]) },
		},
		{
			"swarm-data-port", "MOSS_SWARM_DATA_PORT", "UDP port of this node for the networks of a swarm; 0: 4789",
			"0 to 65535", false,
			func(c *Config, v []string, _ func(string) string) error { return setPort(&c.SwarmDataPort, v[0]) },
		},
		{
			"swarm-pool", "MOSS_SWARM_POOL",
			"where a swarm that this node makes takes the subnets of its networks, and their bits; default: 10.208.0.0/12,24",
			"an IPv4 network, with or without a comma and a number of bits from 12 to 29, or empty for the default", false,
			func(c *Config, v []string, _ func(string) string) error { return setPool(&c.SwarmPool, v[0]) },
		},
	}
}

func setPaths(to *[]string, values []string, env func(string) string) error {
	list := make([]string, len(values))
	for i, v := range values {
		if err := setPath(&list[i], v, env); err != nil {
			return err
		}
	}
	*to = list
	return nil
}

// isInterface reports whether the kernel takes a text as a device's name, but for what would be an address with a port.
func isInterface(text string) bool {
	const longest = 15 // bytes
	return text != "" && len(text) <= longest && !strings.ContainsAny(text, "/: \t\n\v\f\r")
}

func setDataAddr(to *string, value string) error {
	addr, err := netip.ParseAddr(value)
	if value != "" && (err != nil && !isInterface(value) || err == nil && addr.IsUnspecified()) {
		return errNotAllowed
	}
	*to = value
	return nil
}

func setPort(to *uint16, value string) error {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return errNotAllowed
	}
	*to = uint16(n)
	return nil
}

// The bits of subnets: what moss-swarm checks again, with what else a pool must not be.
const minSubnetBits, maxSubnetBits = 12, 29

func setPool(to *string, value string) error {
	if value == "" {
		*to = ""
		return nil
	}
	text, size, sized := strings.Cut(value, ",")
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !prefix.Addr().Is4() || prefix != prefix.Masked() {
		return errNotAllowed
	}
	if sized {
		bits, err := strconv.Atoi(size)
		if err != nil || bits < max(minSubnetBits, prefix.Bits()) || bits > maxSubnetBits {
			return errNotAllowed
		}
	}
	*to = value
	return nil
}
