package arg

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"moss/api/types"
)

// Network reads one --network value: a network's name, or name=NET with what is asked of it, separated by commas:
// alias, ip, ip6, mac-address, link-local-ip, gw-priority and driver-opt. Aliases, link-local
// addresses and options may occur several times.
func Network(text string) (name string, endpoint types.EndpointConfig, err error) {
	if !strings.Contains(text, "=") {
		if text == "" || strings.Contains(text, ",") {
			return "", endpoint, fmt.Errorf("network %q: want one name, or name=NET,alias=NAME,ip=IP,…", text)
		}
		return text, endpoint, nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(part, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		value = strings.TrimSpace(value)
		if !found || value == "" {
			return "", endpoint, fmt.Errorf("network %q: %q: want OPTION=VALUE", text, part)
		}
		if seen[key] && key != "alias" && key != "link-local-ip" && key != "driver-opt" {
			return "", endpoint, fmt.Errorf("network %q: %s stands there twice", text, key)
		}
		seen[key] = true
		if key == "name" {
			name = value
		} else if err := askNetwork(&endpoint, key, value); err != nil {
			return "", endpoint, fmt.Errorf("network %q: %w", text, err)
		}
	}
	if name == "" {
		return "", endpoint, fmt.Errorf("network %q: no name=NET", text)
	}
	return name, endpoint, nil
}

func askNetwork(endpoint *types.EndpointConfig, key, value string) error {
	switch key {
	case "alias":
		endpoint.Aliases = append(endpoint.Aliases, value)
		return nil
	case "mac-address":
		endpoint.MacAddress = value
		return MAC(key, value)
	case "driver-opt":
		option, text, found := strings.Cut(value, "=")
		if !found {
			return fmt.Errorf("driver-opt %q: want KEY=VALUE", value)
		}
		if endpoint.DriverOpts == nil {
			endpoint.DriverOpts = map[string]string{}
		}
		endpoint.DriverOpts[option] = text
		return nil
	case "gw-priority":
		priority, err := strconv.Atoi(value)
		endpoint.GwPriority = priority
		return err
	case "ip", "ip6", "link-local-ip":
		if endpoint.IPAMConfig == nil {
			endpoint.IPAMConfig = &types.IPAMConfig{}
		}
		return askAddress(endpoint.IPAMConfig, key, value)
	default:
		return fmt.Errorf("unknown option %q; want name, alias, ip, ip6, mac-address, link-local-ip, gw-priority or driver-opt", key)
	}
}

func askAddress(ipam *types.IPAMConfig, key, value string) error {
	switch key {
	case "ip":
		ipam.IPv4Address = value
		return IPv4(key, value)
	case "ip6":
		ipam.IPv6Address = value
		return IPv6(key, value)
	default:
		ipam.LinkLocalIPs = append(ipam.LinkLocalIPs, value)
		return Address(key, value)
	}
}

// Address checks an IP address, for --dns and --link-local-ip.
func Address(flag, text string) error {
	if _, err := netip.ParseAddr(text); err != nil {
		return fmt.Errorf("%s %q is not an IP address", flag, text)
	}
	return nil
}

// IPv4 checks an IPv4 address.
func IPv4(flag, text string) error {
	if ip, err := netip.ParseAddr(text); err != nil || !ip.Is4() {
		return fmt.Errorf("%s %q is not an IPv4 address", flag, text)
	}
	return nil
}

// IPv6 checks an IPv6 address.
func IPv6(flag, text string) error {
	if ip, err := netip.ParseAddr(text); err != nil || !ip.Is6() || ip.Is4In6() || ip.Zone() != "" {
		return fmt.Errorf("%s %q is not an IPv6 address", flag, text)
	}
	return nil
}

// MAC checks the hardware address of one network device.
func MAC(flag, text string) error {
	if mac, err := net.ParseMAC(text); err != nil || len(mac) != 6 || mac[0]&1 != 0 {
		return fmt.Errorf("%s %q is not the address of one Ethernet device", flag, text)
	}
	return nil
}
