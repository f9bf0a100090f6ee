package uplink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/rootless-containers/rootlesskit/v3/pkg/api"
	"github.com/rootless-containers/rootlesskit/v3/pkg/messages"
	"github.com/rootless-containers/rootlesskit/v3/pkg/network"
	"github.com/rootless-containers/rootlesskit/v3/pkg/network/gvisortapvsock"
)

// newAuto takes the programs that are there, the fastest first; the first start finds out which of them works, and the
// status says which. Without any of them it is the driver that needs none.
func newAuto(cfg Config, log io.Writer) (network.ParentDriver, error) {
	quick, noPasta := newPasta(cfg)
	slirp, noSlirp := newSlirp(cfg)
	switch {
	case noPasta == nil && noSlirp == nil:
		return newSupervisor(cfg, "", log, quick, slirp), nil
	case noPasta == nil:
		return newSupervisor(cfg, "", log, quick), nil
	case noSlirp == nil:
		return newSupervisor(cfg, noPasta.Error(), log, slirp), nil
	}
	return newGvisor(cfg, errors.Join(noPasta, noSlirp).Error(), log)
}

// newGvisor is RootlessKit's driver in the outer process and its child: what can die is not the uplink alone.
func newGvisor(cfg Config, reason string, log io.Writer) (network.ParentDriver, error) {
	_, ipnet, err := net.ParseCIDR(cidr)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", cidr, err)
	}
	nd, err := gvisortapvsock.NewParentDriver(log, cfg.MTU, ipnet, Device, !cfg.HostLoopback, false)
	if err != nil {
		return nil, err
	}
	return noted{nd, cfg.StateDir, Status{Driver: Gvisor, PID: os.Getpid(), Reason: reason}}, nil
}

// noted is a driver that needs no supervision: its status is written once.
type noted struct {
	network.ParentDriver
	stateDir string
	status   Status
}

// ConfigureNetwork is the driver's own.
func (n noted) ConfigureNetwork(
	childPID int, stateDir, netns string,
) (*messages.ParentInitNetworkDriverCompleted, func() error, error) {
	if err := n.status.writeTo(n.stateDir); err != nil {
		return nil, nil, err
	}
	return n.ParentDriver.ConfigureNetwork(childPID, stateDir, netns)
}

// Info is the driver's own.
func (n noted) Info(ctx context.Context) (*api.NetworkDriverInfo, error) {
	return n.ParentDriver.Info(ctx)
}

// String names the driver in RootlessKit's messages.
func (n noted) String() string { return n.status.Driver }

// chosenChild learns from the parent's message which driver that has chosen.
type chosenChild struct{ chosen network.ChildDriver }

// ConfigureNetworkChild is the chosen driver's; gvisor-tap-vsock is the one that tells its child of a
// socket, and none the one that has no device.
func (c *chosenChild) ConfigureNetworkChild(msg *messages.ParentInitNetworkDriverCompleted, netns string) (string, error) {
	switch {
	case msg.NetworkDriverOpaque["socketPath"] != "":
		c.chosen = gvisortapvsock.NewChildDriver()
	case msg.Dev == "":
		c.chosen = noneChild{}
	default:
		c.chosen = tapChild{}
	}
	return c.chosen.ConfigureNetworkChild(msg, netns)
}

// ChildDriverInfo is the chosen driver's; RootlessKit asks after ConfigureNetworkChild.
func (c *chosenChild) ChildDriverInfo() (*network.ChildDriverInfo, error) {
	if c.chosen == nil {
		return nil, errors.New("no uplink has been chosen yet")
	}
	return c.chosen.ChildDriverInfo()
}
