package arg

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"moss/api/types"
)

// Ports is what -p and --expose ask for.
type Ports struct {
	Exposed  map[string]struct{}            // key: port/protocol
	Bindings map[string][]types.PortBinding // key: port/protocol
}

// Publish adds one -p value: [[ip:][hostPort]:]containerPort[/protocol], where both ports may be ranges a-b of equal
// length. A range of host ports with one container port lets the engine choose in the range.
func (p *Ports) Publish(text string) error {
	ip, host, target, err := splitPublish(text)
	if err != nil {
		return err
	}
	first, last, proto, err := portRange(target)
	if err != nil {
		return fmt.Errorf("publish %q: %w", text, err)
	}
	bind, err := hostPorts(host, first, last)
	if err != nil {
		return fmt.Errorf("publish %q: %w", text, err)
	}
	for port := first; port <= last; port++ {
		key := strconv.Itoa(port) + "/" + proto
		p.addExposed(key)
		if p.Bindings == nil {
			p.Bindings = map[string][]types.PortBinding{}
		}
		p.Bindings[key] = append(p.Bindings[key], types.PortBinding{HostIP: ip, HostPort: bind(port - first)})
	}
	return nil
}

// Expose adds one --expose value: port[-port][/protocol].
func (p *Ports) Expose(text string) error {
	first, last, proto, err := portRange(text)
	if err != nil {
		return fmt.Errorf("expose %q: %w", text, err)
	}
	for port := first; port <= last; port++ {
		p.addExposed(strconv.Itoa(port) + "/" + proto)
	}
	return nil
}

func (p *Ports) addExposed(key string) {
	if p.Exposed == nil {
		p.Exposed = map[string]struct{}{}
	}
	p.Exposed[key] = struct{}{}
}

// splitPublish cuts a -p value into its three parts. An IPv6 address stands in brackets.
func splitPublish(text string) (ip, host, target string, err error) {
	rest := text
	bracketed := strings.HasPrefix(text, "[")
	if bracketed {
		end := strings.Index(text, "]:")
		if end < 0 {
			return "", "", "", fmt.Errorf("publish %q: no ]: after the address", text)
		}
		ip, rest = text[1:end], text[end+2:]
	}
	parts := strings.Split(rest, ":")
	switch {
	case len(parts) == 1 && !bracketed:
		target = parts[0]
	case len(parts) == 1:
		return "", "", "", fmt.Errorf("publish %q: want [ip]:hostPort:containerPort", text)
	case len(parts) == 2:
		host, target = parts[0], parts[1]
	case len(parts) == 3 && !bracketed:
		ip, host, target = parts[0], parts[1], parts[2]
	default:
		return "", "", "", fmt.Errorf("publish %q: too many colons; an IPv6 address stands in brackets", text)
	}
	if ip != "" {
		if _, err := netip.ParseAddr(ip); err != nil {
			return "", "", "", fmt.Errorf("publish %q: %q is not an IP address", text, ip)
		}
	}
	return ip, host, target, nil
}

// hostPorts returns the host port for the n-th container port.
func hostPorts(host string, first, last int) (func(n int) string, error) {
	if host == "" {
		return func(int) string { return "" }, nil
	}
	from, to, err := parsePorts(host, 0)
	if err != nil {
		return nil, err
	}
	switch {
	case to-from == last-first && from > 0:
		return func(n int) string { return strconv.Itoa(from + n) }, nil
	case first == last && from == to:
		return func(int) string { return "" }, nil // port 0: any
	case first == last:
		return func(int) string { return strconv.Itoa(from) + "-" + strconv.Itoa(to) }, nil
	default:
		return nil, fmt.Errorf("the ranges %s and %d-%d have different lengths", host, first, last)
	}
}

func portRange(text string) (first, last int, proto string, err error) {
	text, proto, named := strings.Cut(text, "/")
	if !named {
		proto = "tcp"
	}
	proto = strings.ToLower(proto)
	switch proto {
	case "tcp", "udp", "sctp":
	default:
		return 0, 0, "", fmt.Errorf("protocol %q: want tcp, udp or sctp", proto)
	}
	first, last, err = parsePorts(text, 1)
	return first, last, proto, err
}

// parsePorts reads a port or a range of ports from lowest on.
func parsePorts(text string, lowest int) (first, last int, err error) {
	low, high, isRange := strings.Cut(text, "-")
	if first, err = parsePort(low, lowest); err != nil {
		return 0, 0, err
	}
	if !isRange {
		return first, first, nil
	}
	if last, err = parsePort(high, max(lowest, 1)); err != nil {
		return 0, 0, err
	}
	if last < first || first == 0 {
		return 0, 0, fmt.Errorf("port range %q runs backwards", text)
	}
	return first, last, nil
}

func parsePort(text string, lowest int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || int(n) < lowest {
		return 0, fmt.Errorf("port %q: want a number from %d to 65535", text, lowest)
	}
	return int(n), nil
}
