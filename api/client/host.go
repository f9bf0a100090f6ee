package client

import (
	"fmt"
	"net"
	"strings"
)

// Host is where an engine listens.
type Host struct {
	Network string // unix or tcp
	Address string // absolute path or host:port
}

// String returns the host as a URL.
func (h Host) String() string { return h.Network + "://" + h.Address }

// hostHeader is the Host header: the engine refuses names that are not its own on TCP, and does not look on a unix socket.
func (h Host) hostHeader() string {
	if h.Network == "tcp" {
		return h.Address
	}
	return "moss"
}

// ParseHost reads unix:///path, tcp://host:port, http://host:port or an absolute path. A missing port is 2375.
func ParseHost(text string) (Host, error) { return ParseHostPort(text, "2375") }

// ParseHostPort is ParseHost with another port for hosts that name none.
func ParseHostPort(text, port string) (Host, error) {
	network, address, found := strings.Cut(text, "://")
	if !found {
		network, address = "unix", text
	}
	switch network {
	case "unix":
		if !strings.HasPrefix(address, "/") {
			return Host{}, fmt.Errorf("host %q: the socket's path must be absolute", text)
		}
		return Host{Network: "unix", Address: address}, nil
	case "tcp", "http":
		address = strings.TrimSuffix(address, "/")
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), port)
		}
		name, port, err := net.SplitHostPort(address)
		if err != nil || port == "" || strings.ContainsAny(address, "/?#@ \t\r\n") {
			return Host{}, fmt.Errorf("host %q: want tcp://host:port", text)
		}
		if name == "" {
			address = "127.0.0.1:" + port
		}
		return Host{Network: "tcp", Address: address}, nil
	default:
		return Host{}, fmt.Errorf("host %q: moss speaks unix:// and tcp://", text)
	}
}
