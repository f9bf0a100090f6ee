// Package uplink chooses how the containers' network namespace reaches the outside world and how published ports reach
// it: it turns a configuration into the RootlessKit drivers that the outer process (parent) and its child run.
//
// It starts nothing by itself. Every uplink but None uses the same addresses, 10.0.2.100/24 on the device tap0, and
// RootlessKit's builtin port driver: the drivers that come with pasta and gvisor-tap-vsock deliver to the tap's address
// only and never to a container on a bridge behind it, and Debian 12's passt is too old for its own one anyway.
package uplink

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rootless-containers/rootlesskit/v3/pkg/network"
	"github.com/rootless-containers/rootlesskit/v3/pkg/network/gvisortapvsock"
	"github.com/rootless-containers/rootlesskit/v3/pkg/network/pasta"
	"github.com/rootless-containers/rootlesskit/v3/pkg/network/slirp4netns"
	"github.com/rootless-containers/rootlesskit/v3/pkg/port"
	"github.com/rootless-containers/rootlesskit/v3/pkg/port/builtin"

	"moss/engine/fault"
)

// The drivers that Config.Driver may name.
const (
	Slirp4netns = "slirp4netns"
	Pasta       = "pasta"
	Gvisor      = "gvisor-tap-vsock"
	None        = "none"
)

// Device is the name of the uplink's device in the containers' network namespace.
const Device = "tap0"

// DefaultMTU is the packet size in bytes of the uplink and of the bridges behind it. With slirp4netns it carries almost
// four times as much as 1500 does, because the cost is per packet.
const DefaultMTU = 65520

// maxMTU in bytes is the most that slirp4netns and RootlessKit take.
const maxMTU = 65521

// cidr is the uplink's own network: the tap is .100, and with slirp4netns the gateway .2 and the name server .3.
const cidr = "10.0.2.0/24"

// tunDevice makes the tap device; without it no uplink works.
const tunDevice = "/dev/net/tun"

// Config says which uplink to use.
type Config struct {
	Driver       string // empty: Slirp4netns
	StateDir     string // RootlessKit's state directory, absolute; Parent needs it to exist
	MTU          int    // bytes; 0: DefaultMTU
	HostLoopback bool   // containers reach what listens on the host's loopback through the gateway's address
	HideSource   bool   // published TCP ports do not try to keep the client's address
}

// Subnet returns the network that the uplink uses for itself. No bridge may overlap it.
func Subnet() string { return cidr }

// Parent returns the drivers for the outer process. What the network driver needs from the machine is checked here, so
// that what is missing is named before anything starts; that is a fault.Unavailable. An unknown driver or a wrong MTU is
// a fault.Invalid. What a killed predecessor with the same StateDir left running is ended. Both drivers write their
// messages to log.
func Parent(cfg Config, log io.Writer) (network.ParentDriver, port.ParentDriver, error) {
	cfg, err := cfg.resolved()
	if err != nil {
		return nil, nil, err
	}
	nd, err := networkParent(cfg, log)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the %s uplink: %w", cfg.Driver, err)
	}
	pd, err := builtin.NewParentDriver(log, cfg.StateDir, !cfg.HideSource)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the port driver: %w", err)
	}
	return nd, pd, nil
}

// Child returns the drivers for RootlessKit's child, which must get the same Config as the parent.
func Child(cfg Config, log io.Writer) (network.ChildDriver, port.ChildDriver, error) {
	cfg, err := cfg.resolved()
	if err != nil {
		return nil, nil, err
	}
	pd := builtin.NewChildDriver(log)
	switch cfg.Driver {
	case Slirp4netns:
		return slirp4netns.NewChildDriver(), pd, nil
	case Pasta:
		return pasta.NewChildDriver(), pd, nil
	case Gvisor:
		return gvisortapvsock.NewChildDriver(), pd, nil
	default: // None; resolved has refused the rest
		return noneChild{}, pd, nil
	}
}

func (c Config) resolved() (Config, error) {
	if c.Driver == "" {
		c.Driver = Slirp4netns
	}
	switch c.Driver {
	case Slirp4netns, Pasta, Gvisor, None:
	default:
		return c, fault.Invalid("network driver %q is unknown: use %s, %s, %s or %s", c.Driver, Slirp4netns, Pasta, Gvisor, None)
	}
	if c.MTU == 0 {
		c.MTU = DefaultMTU
	}
	if c.MTU < 576 || c.MTU > maxMTU {
		return c, fault.Invalid("network MTU %d is out of range: 576 to %d bytes", c.MTU, maxMTU)
	}
	if !filepath.IsAbs(c.StateDir) {
		return c, fault.Invalid("state directory %q must be absolute", c.StateDir)
	}
	return c, nil
}

func networkParent(cfg Config, log io.Writer) (network.ParentDriver, error) {
	// RootlessKit calls these two by name: ip for every driver, nsenter for those with a tap.
	for _, need := range []struct{ binary, pkg string }{{"ip", "iproute2"}, {"nsenter", "util-linux"}} {
		if _, err := lookup(need.binary, need.pkg); err != nil {
			return nil, err
		}
	}
	if cfg.Driver == None {
		return noneParent{}, nil
	}
	if err := checkTun(tunDevice); err != nil {
		return nil, err
	}
	_, ipnet, err := net.ParseCIDR(cidr)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", cidr, err)
	}
	switch cfg.Driver {
	case Pasta:
		return newPasta(cfg, ipnet, log)
	case Gvisor:
		return gvisortapvsock.NewParentDriver(log, cfg.MTU, ipnet, Device, !cfg.HostLoopback, false)
	default: // Slirp4netns; resolved has refused the rest
		return newSlirp(cfg, ipnet, log)
	}
}

// newSlirp asks for slirp4netns' seccomp filter and does without where the kernel or the program lacks it. Its own
// sandbox must be off with a detached network namespace (slirp4netns issue 317).
func newSlirp(cfg Config, ipnet *net.IPNet, log io.Writer) (network.ParentDriver, error) {
	binary, err := lookup("slirp4netns", "slirp4netns")
	if err != nil {
		return nil, err
	}
	driver := func(seccomp bool) (network.ParentDriver, error) {
		const socket, sandbox, ipv6 = "", false, false
		return slirp4netns.NewParentDriver(log, binary, cfg.MTU, ipnet, Device, !cfg.HostLoopback, socket, sandbox, seccomp, ipv6)
	}
	nd, err := driver(true)
	if err != nil {
		nd, err = driver(false)
	}
	if err != nil {
		return nil, fault.Unavailable("examine %s: %w", binary, err)
	}
	return nd, nil
}

func lookup(binary, pkg string) (string, error) {
	path, err := exec.LookPath(binary)
	if err != nil {
		return "", fault.Unavailable("%s is not installed: install the package %s: %w", binary, pkg, err)
	}
	return path, nil
}

// checkTun opens the tun device and lets it go again, which makes nothing.
func checkTun(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fault.Unavailable("the tap device cannot be made: %w (as root: modprobe tun; chmod 0666 %s)", err, path)
	}
	return f.Close()
}
