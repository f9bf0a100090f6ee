package arg

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"moss/api/types"
)

// Pair reads key=value, for flags such as --sysctl, --log-opt and --filter.
func Pair(flag, text string) (key, value string, err error) {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" {
		return "", "", fmt.Errorf("%s %q: want key=value", flag, text)
	}
	return key, value, nil
}

// Pairs reads any number of key=value, nil for none.
func Pairs(flag string, values []string) (map[string]string, error) {
	var pairs map[string]string
	for _, text := range values {
		key, value, err := Pair(flag, text)
		if err != nil {
			return nil, err
		}
		if pairs == nil {
			pairs = map[string]string{}
		}
		pairs[key] = value
	}
	return pairs, nil
}

// Filters turns --filter values into the API's map of lists.
func Filters(values []string) (map[string][]string, error) {
	if len(values) == 0 {
		return nil, nil
	}
	filters := map[string][]string{}
	for _, text := range values {
		key, value, err := Pair("filter", text)
		if err != nil {
			return nil, err
		}
		key = strings.ToLower(strings.TrimSpace(key))
		filters[key] = append(filters[key], strings.TrimSpace(value))
	}
	return filters, nil
}

// Ulimit reads name=soft[:hard]; -1 is unlimited.
func Ulimit(text string) (types.Ulimit, error) {
	name, value, err := Pair("ulimit", text)
	if err != nil {
		return types.Ulimit{}, err
	}
	softText, hardText, both := strings.Cut(value, ":")
	soft, err := strconv.ParseInt(softText, 10, 64)
	if err != nil {
		return types.Ulimit{}, fmt.Errorf("ulimit %q: want name=soft[:hard]", text)
	}
	hard := soft
	if both {
		if hard, err = strconv.ParseInt(hardText, 10, 64); err != nil {
			return types.Ulimit{}, fmt.Errorf("ulimit %q: want name=soft[:hard]", text)
		}
	}
	if hard != -1 && (soft == -1 || soft > hard) {
		return types.Ulimit{}, fmt.Errorf("ulimit %q: the soft limit is above the hard one", text)
	}
	return types.Ulimit{Name: name, Soft: soft, Hard: hard}, nil
}

// Device reads path[:path in the container][:permissions], where permissions are letters out of rwm.
func Device(text string) (types.Device, error) {
	parts := strings.Split(text, ":")
	device := types.Device{PathOnHost: parts[0], PathInContainer: parts[0], CgroupPermissions: "rwm"}
	switch {
	case len(parts) > 3 || !strings.HasPrefix(parts[0], "/"):
		return types.Device{}, fmt.Errorf("device %q: want /path[:/path in the container][:rwm] or vendor/class=name", text)
	case len(parts) == 2 && validPermissions(parts[1]):
		device.CgroupPermissions = parts[1]
	case len(parts) >= 2:
		device.PathInContainer = parts[1]
	}
	if len(parts) == 3 {
		device.CgroupPermissions = parts[2]
	}
	if !strings.HasPrefix(device.PathInContainer, "/") || !validPermissions(device.CgroupPermissions) {
		return types.Device{}, fmt.Errorf("device %q: want /path[:/path in the container][:rwm]", text)
	}
	return device, nil
}

func validPermissions(text string) bool {
	for i, r := range text {
		if !strings.ContainsRune("rwm", r) || strings.ContainsRune(text[:i], r) {
			return false
		}
	}
	return text != ""
}

// DeviceValue reads /path:value, for the limits of block devices.
func DeviceValue(flag, text string) (path, value string, err error) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 || colon == len(text)-1 || !strings.HasPrefix(text, "/dev/") {
		return "", "", fmt.Errorf("%s %q: want /dev/device:value", flag, text)
	}
	return text[:colon], text[colon+1:], nil
}

// Link reads container[:alias] and writes both parts; the alias of a container is its name.
func Link(text string) (string, error) {
	name, alias, aliased := strings.Cut(text, ":")
	if !aliased {
		alias = name
	}
	name = strings.TrimPrefix(name, "/")
	alias = strings.TrimPrefix(alias, "/")
	if name == "" || alias == "" || strings.Contains(alias, ":") {
		return "", fmt.Errorf("link %q: want container[:alias]", text)
	}
	return name + ":" + alias, nil
}

// Restart reads a restart policy: no, always, unless-stopped or on-failure[:tries].
func Restart(text string) (types.RestartPolicy, error) {
	name, tries, counted := strings.Cut(text, ":")
	policy := types.RestartPolicy{Name: name}
	switch name {
	case "", "no":
		policy.Name = "no"
	case "always", "unless-stopped", "on-failure":
	default:
		return types.RestartPolicy{}, fmt.Errorf("restart policy %q: want no, always, unless-stopped or on-failure[:tries]", text)
	}
	if counted {
		count, err := strconv.Atoi(tries)
		if err != nil || count < 0 || name != "on-failure" {
			return types.RestartPolicy{}, fmt.Errorf("restart policy %q: only on-failure takes a number of tries", text)
		}
		policy.MaximumRetryCount = count
	}
	return policy, nil
}

// hostGateway stands in --add-host for the address by which containers reach the host.
const hostGateway = "host-gateway"

// ExtraHost checks name:ip or name=ip, where ip may be IPv6 or host-gateway, and writes it with a colon.
func ExtraHost(text string) (string, error) {
	at := strings.IndexAny(text, "=:")
	if at <= 0 {
		return "", fmt.Errorf("add-host %q: want name:ip", text)
	}
	name, ip := text[:at], text[at+1:]
	if ip == hostGateway {
		return name + ":" + ip, nil
	}
	bare := ip
	if inner, ok := strings.CutPrefix(ip, "["); ok {
		if bare, ok = strings.CutSuffix(inner, "]"); !ok {
			return "", fmt.Errorf("add-host %q: no ] after the address", text)
		}
	}
	if _, err := netip.ParseAddr(bare); err != nil {
		return "", fmt.Errorf("add-host %q: %q is not an IP address", text, ip)
	}
	return name + ":" + bare, nil
}
