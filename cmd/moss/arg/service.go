package arg

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strconv"
	"strings"

	"moss/api/types"
)

// NanoCPUs reads a number of CPUs, such as 1.5, in units of 1e-9 of one.
func NanoCPUs(text string) (int64, error) {
	value, ok := new(big.Rat).SetString(text)
	if !ok || strings.ContainsAny(text, "/eE_xXpP") || value.Sign() < 0 {
		return 0, fmt.Errorf("cpus %q: want a number such as 1.5", text)
	}
	value.Mul(value, big.NewRat(1e9, 1))
	if !value.IsInt() || !value.Num().IsInt64() {
		return 0, fmt.Errorf("cpus %q: want a number with at most nine digits behind the point", text)
	}
	return value.Num().Int64(), nil
}

// HostLine reads name:address and writes a line of /etc/hosts.
func HostLine(text string) (string, error) {
	name, addr, _ := strings.Cut(text, ":")
	ip, err := netip.ParseAddr(strings.Trim(addr, "[]"))
	if name == "" || strings.ContainsAny(name, " \t") || err != nil {
		return "", fmt.Errorf("host %q: want NAME:IP", text)
	}
	return ip.String() + " " + name, nil
}

// ServicePort reads one --publish value of a service: [PUBLISHED:]TARGET[/PROTOCOL], or published=…,target=…,protocol=… with
// commas between them.
func ServicePort(text string) (types.ServicePort, error) {
	port, err := readServicePort(text)
	if err == nil && port.TargetPort == 0 {
		err = errors.New("the port in the container is missing")
	}
	if err != nil {
		return types.ServicePort{}, fmt.Errorf("publish %q: %w", text, err)
	}
	return port, nil
}

func readServicePort(text string) (port types.ServicePort, err error) {
	if !strings.Contains(text, "=") {
		ports, protocol, _ := strings.Cut(text, "/")
		published, target, both := strings.Cut(ports, ":")
		if !both {
			published, target = "", ports
		}
		port.Protocol = protocol
		if published != "" {
			if port.PublishedPort, err = portNumber(published); err != nil {
				return port, err
			}
		}
		port.TargetPort, err = portNumber(target)
		return port, err
	}
	for field := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(field, "=")
		switch strings.ToLower(key) {
		case "published":
			port.PublishedPort, err = portNumber(value)
		case "target":
			port.TargetPort, err = portNumber(value)
		case "protocol":
			port.Protocol = strings.ToLower(value)
		case "name":
			port.Name = value
		case "mode":
			if port.PublishMode = strings.ToLower(value); port.PublishMode != "ingress" {
				err = fmt.Errorf("mode %q: a port leads to the tasks from all nodes: want ingress", value)
			}
		default:
			err = fmt.Errorf("unknown key %q: want published, target, protocol, name or mode", key)
		}
		if err != nil {
			return port, err
		}
	}
	return port, nil
}

func portNumber(text string) (uint32, error) {
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 {
		return 0, fmt.Errorf("%q is no port: want a number from 1 to %d", text, math.MaxUint16)
	}
	return uint32(number), nil
}

// Words splits a command line as a shell does: at blanks, but for those in quotes and behind a backslash. Nothing else of a
// shell is in it.
func Words(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune // 0: none
	begun, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			begun, quote = true, r
		case strings.ContainsRune(" \t\n", r):
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("command %q: it ends inside quotes or behind a backslash", text)
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
