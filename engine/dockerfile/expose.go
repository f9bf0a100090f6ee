package dockerfile

import (
	"net/netip"
	"strconv"
	"strings"

	"moss/engine/fault"
	"moss/engine/image"
)

// maxPorts bounds one EXPOSE: all there are.
const maxPorts = 3 * 65535

// addPorts adds the ports that EXPOSE names.
func addPorts(c *image.Config, words []string) error {
	if c.ExposedPorts == nil {
		c.ExposedPorts = map[string]struct{}{}
	}
	total := 0
	for _, word := range words {
		ports, err := portRange(word)
		if err != nil {
			return err
		}
		if total += len(ports); total > maxPorts {
			return fault.Invalid("EXPOSE: more than %d ports", maxPorts)
		}
		for _, port := range ports {
			c.ExposedPorts[port] = struct{}{}
		}
	}
	return nil
}

// portRange reads [[ip:]port[-port]:]port[-port][/proto]. Only what a container listens on counts; the rest must be well
// formed, as in Docker.
func portRange(s string) ([]string, error) {
	numbers, proto, _ := strings.Cut(s, "/")
	if proto == "" {
		proto = "tcp"
	}
	proto = strings.ToLower(proto)
	if proto != "tcp" && proto != "udp" && proto != "sctp" {
		return nil, fault.Invalid("EXPOSE: invalid proto: %q in %q", proto, s)
	}
	container := numbers
	if at := strings.LastIndexByte(numbers, ':'); at >= 0 {
		if err := checkHostSide(numbers[:at]); err != nil {
			return nil, err
		}
		container = numbers[at+1:]
	}
	first, last, ok := portNumbers(container)
	if !ok {
		return nil, fault.Invalid("EXPOSE: invalid containerPort: %s", s)
	}
	ports := make([]string, 0, last-first+1)
	for port := first; port <= last; port++ {
		ports = append(ports, strconv.FormatUint(port, 10)+"/"+proto)
	}
	return ports, nil
}

// checkHostSide reads [ip:][port[-port]].
func checkHostSide(s string) error {
	port := s
	if at := strings.LastIndexByte(s, ':'); at >= 0 {
		port = s[at+1:]
		ip := strings.TrimSuffix(strings.TrimPrefix(s[:at], "["), "]")
		if _, err := netip.ParseAddr(ip); ip != "" && err != nil {
			return fault.Invalid("EXPOSE: invalid IP address: %s", ip)
		}
	}
	if _, _, ok := portNumbers(port); port != "" && !ok {
		return fault.Invalid("EXPOSE: invalid hostPort: %s", port)
	}
	return nil
}

// portNumbers reads port[-port].
func portNumbers(s string) (first, last uint64, ok bool) {
	low, high, isRange := strings.Cut(s, "-")
	if !isRange {
		high = low
	}
	first, err1 := strconv.ParseUint(low, 10, 16)
	last, err2 := strconv.ParseUint(high, 10, 16)
	return first, last, err1 == nil && err2 == nil && first > 0 && last >= first
}
