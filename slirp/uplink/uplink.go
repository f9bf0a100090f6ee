// Package uplink chooses how the containers' network namespace reaches the outside world and how published ports reach
// it: it turns a configuration into the RootlessKit drivers that the outer process (parent) and its child run.
//
// What runs as a process of its own, slirp4netns or pasta, is kept running: its death is noticed at once and a new one
// takes its place on the same device. Addresses, routes, rules and published ports know nothing of it, since they are
// not the program's; connections that went through it are lost. A file in the state directory tells the engine (Watch).
//
// Every uplink but None uses the same addresses, 10.0.2.100/24 on the device tap0, and
// the port driver of slirp/forward: those that come with pasta and gvisor-tap-vsock deliver to the tap's address
// only and never to a container on a bridge behind it, and Debian 12's passt is too old for its own one anyway.
package uplink

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rootless-containers/rootlesskit/v3/pkg/network"
	"github.com/rootless-containers/rootlesskit/v3/pkg/network/gvisortapvsock"
	"github.com/rootless-containers/rootlesskit/v3/pkg/port"

	"moss/engine/config"
	"moss/engine/fault"
	"moss/slirp/forward"
)

// The drivers that Config.Driver may name.
const (
	Slirp4netns = config.NetworkSlirp4netns
	Pasta       = config.NetworkPasta
	Gvisor      = config.NetworkGvisor
	None        = config.NetworkNone
	Auto        = config.NetworkAuto
)

// Device is the name of the uplink's device in the containers' network namespace.
const Device = "tap0"

// DefaultMTU is the packet size in bytes of the uplink and of the bridges behind it. With slirp4netns it carries almost
// four times as much as 1500 does, because the cost is per packet.
const DefaultMTU = 65520

// maxMTU in bytes is the most that slirp4netns and RootlessKit take.
const maxMTU = 65521

// The uplink's own network.
const (
	cidr    = "10.0.2.0/24"
	bits    = 24
	address = "10.0.2.100" // of the tap device
	gateway = "10.0.2.2"
	nameDNS = "10.0.2.3" // the name server

	gvisorGateway = "10.0.2.1" // and name server, with Gvisor
)

// tunDevice makes the tap device; without it no uplink works.
const tunDevice = "/dev/net/tun"

// Config says which uplink to use.
type Config struct {
	Driver       string // empty: Slirp4netns, or None where no tap device can be made
	StateDir     string // RootlessKit's state directory, absolute; Parent needs it to exist
	MTU          int    // bytes; 0: DefaultMTU
	HostLoopback bool   // containers reach what listens on the host's loopback through the gateway's address
	HideSource   bool   // published TCP ports do not try to keep the client's address

	optional bool   // no driver was named: None will do
	tun      string // the device that makes tap devices; empty: tunDevice

	ipv6 bool // carried too, but not by Gvisor; Parent finds out whether the host has any
}

// HostAddr is the address by which containers reach the host, whatever the uplink.
func HostAddr() netip.Addr { return netip.MustParseAddr(gateway) }

// HostTarget says what has to be done so that HostAddr leads to the host: nothing (lead is false), since the uplink's own
// gateway does it or there is no uplink; leading it to the address to; or, if that is invalid, to the host's outward address.
func (c Config) HostTarget() (to netip.Addr, lead bool) {
	switch {
	case c.Driver == None:
		return to, false
	case !c.HostLoopback:
		return to, true
	case c.Driver == Gvisor:
		return netip.MustParseAddr(gvisorGateway), true
	}
	return to, false
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
	cfg.ipv6 = hostHasIPv6()
	nd, err := networkParent(cfg, log)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the %s uplink: %w", cfg.Driver, err)
	}
	pd, err := forward.NewParent(log, cfg.StateDir, cfg.HideSource)
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
	pd := forward.NewChild(log)
	if cfg.optional {
		return &chosenChild{}, pd, nil
	}
	switch cfg.Driver {
	case Slirp4netns, Pasta:
		return tapChild{}, pd, nil
	case Gvisor:
		return gvisortapvsock.NewChildDriver(), pd, nil
	default: // None; resolved has refused the rest
		return noneChild{}, pd, nil
	}
}

func (c Config) resolved() (Config, error) {
	c.optional = c.Driver == "" || c.Driver == Auto
	if c.Driver == "" {
		c.Driver = Slirp4netns
	}
	switch c.Driver {
	case Slirp4netns, Pasta, Gvisor, None, Auto:
	default:
		return c, fault.Invalid("network driver %q is unknown: use %s, %s, %s, %s or %s", c.Driver, Slirp4netns, Pasta, Gvisor, None,
			Auto)
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
		if _, err := findProgram(need.binary, need.pkg); err != nil {
			return nil, err
		}
	}
	if cfg.Driver == None {
		return noted{noneParent{}, cfg.StateDir, Status{Driver: None}}, nil
	}
	err := checkTun(cmp.Or(cfg.tun, tunDevice))
	if err != nil && cfg.optional {
		return noted{noneParent{}, cfg.StateDir, Status{Driver: None, Reason: err.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	switch cfg.Driver {
	case Pasta:
		p, err := newPasta(cfg)
		return newSupervisor(cfg, "", log, p), err
	case Gvisor:
		return newGvisor(cfg, "", log)
	case Auto:
		return newAuto(cfg, log)
	default: // Slirp4netns; resolved has refused the rest
		p, err := newSlirp(cfg)
		return newSupervisor(cfg, "", log, p), err
	}
}

func findProgram(binary, pkg string) (string, error) {
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
