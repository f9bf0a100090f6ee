package uplink

import (
	"context"

	"github.com/rootless-containers/rootlesskit/v3/pkg/api"
	"github.com/rootless-containers/rootlesskit/v3/pkg/messages"
	"github.com/rootless-containers/rootlesskit/v3/pkg/network"
)

// noneParent gives the detached namespace no uplink. RootlessKit's own driver of that name starts a sleep that it never
// ends, to bring up a loopback that the child brings up anyway.
type noneParent struct{}

// Info names the driver.
func (noneParent) Info(context.Context) (*api.NetworkDriverInfo, error) {
	return &api.NetworkDriverInfo{Driver: None}, nil
}

// MTU is 0: there is no device.
func (noneParent) MTU() int { return 0 }

// ConfigureNetwork has nothing to start.
func (noneParent) ConfigureNetwork(int, string, string) (*messages.ParentInitNetworkDriverCompleted, func() error, error) {
	return &messages.ParentInitNetworkDriverCompleted{}, nil, nil
}

// noneChild leaves the detached namespace with its loopback only. RootlessKit itself passes no child driver for "none",
// and then takes the network to be the host's and writes no resolv.conf.
type noneChild struct{}

// ConfigureNetworkChild has nothing to set up.
func (noneChild) ConfigureNetworkChild(*messages.ParentInitNetworkDriverCompleted, string) (string, error) {
	return "", nil
}

// ChildDriverInfo keeps RootlessKit from configuring a device that does not exist.
func (noneChild) ChildDriverInfo() (*network.ChildDriverInfo, error) {
	return &network.ChildDriverInfo{ConfiguresInterface: true}, nil
}
