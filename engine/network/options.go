package network

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
)

// The bounds of an MTU, in bytes: what IPv4 (RFC 791) and IPv6 (RFC 8200) ask of every link, and the longest packet.
const (
	LeastMTU  = 68
	LeastMTU6 = 1280
	MostMTU   = 65535
)

// longestDevice is what the kernel takes as a device's name, in bytes. Inside a container a number comes behind a prefix.
const (
	longestDevice = 15
	longestPrefix = 11
)

// settings is the part of a network's options that this package looks at itself.
type settings struct {
	mtu int // 0: not given
}

// parseOptions checks the options of a new network. Those of another namespace are nobody's here.
func parseOptions(options map[string]string) (s settings, err error) {
	for _, key := range slices.Sorted(maps.Keys(options)) {
		value := options[key]
		ok, want := true, ""
		switch key {
		case OptionName:
			ok, want = isDevice(value, longestDevice), "a name of 1 to 15 bytes that a network device can have"
		case OptionPrefix:
			ok, want = isDevice(value, longestPrefix), "1 to 11 bytes that the name of a network device can begin with"
		case OptionMTU:
			s.mtu, err = strconv.Atoi(value)
			ok, want = err == nil && LeastMTU <= s.mtu && s.mtu <= MostMTU, "a number of bytes from 68 to 65535"
		case OptionICC, OptionMasq:
			_, err := strconv.ParseBool(value)
			ok, want = err == nil, "true or false"
		case OptionDefault:
			on, err := strconv.ParseBool(value)
			ok, want = err == nil && !on, "false: the default network is there already"
		case OptionHostIPv4:
			addr, err := netip.ParseAddr(value)
			ok, want = err == nil && addr.Is4() && !addr.IsMulticast(), "an IPv4 address of this host"
		default:
			if strings.HasPrefix(key, OptionNamespace) {
				return settings{}, fault.Invalid("the driver bridge has no option %s", key)
			}
		}
		if !ok {
			return settings{}, fault.Invalid("invalid value for %s: %q: want %s", key, value, want)
		}
	}
	return s, nil
}

// foreignKeys returns the keys outside of OptionNamespace, sorted.
func foreignKeys(options map[string]string) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(options)) {
		if !strings.HasPrefix(key, OptionNamespace) {
			list = append(list, key)
		}
	}
	return list
}

// IsDevice reports whether a network device can have this name.
func IsDevice(name string) bool { return isDevice(name, longestDevice) }

// isDevice reports whether the kernel takes a device's name, and nothing else stumbles over it.
func isDevice(name string, longest int) bool {
	if name == "" || len(name) > longest || name == "." || name == ".." || name == "lo" || name == "all" || name == "default" {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`/:%\"'`, c) >= 0 {
			return false
		}
	}
	return true
}
