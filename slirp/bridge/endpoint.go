package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"moss/engine/fault"
)

// Endpoint asks for a container's place in a network that is up.
type Endpoint struct {
	ID       string // 64 hexadecimal digits, unique: the outer device's name comes from it, so that no two ever collide
	Net      Net
	Device   string // inside the container
	MAC      net.HardwareAddr
	Addrs    []netip.Prefix // an address and its subnet's length each
	Sysctls  []Sysctl       // of the device, which are set before it is up
	Announce bool           // neighbours may know one of the addresses with another MAC address
	Answers  netip.Addr     // the gateway of what is sent from its IPv4 addresses to elsewhere; invalid: the container's way out
}

// Gateway is the way out of a container: one for each family at most.
type Gateway struct {
	Device string
	Addr   netip.Addr
}

// Plug connects a container that runs to one more network and sets its ways out. On error nothing is left.
func (f *Fabric) Plug(ctx context.Context, containerID string, e Endpoint, gateways []Gateway) error {
	l, n, err := f.openContainer(ctx, containerID)
	if err != nil {
		return err
	}
	defer n.close()
	_, err = f.connectEndpoint(l, n, e)
	if err == nil {
		err = n.setDefaultRoutes(gateways)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("connect %s to %s: %w", containerID, e.Net.Device, err), l.removeLink(outerName(e.ID)))
	}
	return nil
}

// Unplug sets the ways out that a running container has without an endpoint, and takes that away, by its id. An endpoint
// that is gone is no error.
func (f *Fabric) Unplug(ctx context.Context, containerID, endpointID string, gateways []Gateway) error {
	if err := f.Route(ctx, containerID, gateways); err != nil {
		return err
	}
	l, err := f.ensureLive(ctx)
	if err != nil {
		return err
	}
	return l.removeLink(outerName(endpointID))
}

// Route sets a running container's ways out.
func (f *Fabric) Route(ctx context.Context, containerID string, gateways []Gateway) error {
	_, n, err := f.openContainer(ctx, containerID)
	if err != nil {
		return err
	}
	defer n.close()
	if err := n.setDefaultRoutes(gateways); err != nil {
		return fmt.Errorf("route %s: %w", containerID, err)
	}
	return nil
}

// Plugged reports whether the endpoint's cable is there.
func (f *Fabric) Plugged(ctx context.Context, endpointID string) (bool, error) {
	return f.Taken(ctx, outerName(endpointID))
}

// Detach drops the container's namespace and with it its devices, which the kernel takes away in its own time after the
// last process in there has ended. Detaching what is not attached is no error.
func (f *Fabric) Detach(containerID string) error {
	path, err := f.Path(containerID)
	if err != nil {
		return err
	}
	if err := unbindNamespace(path); err != nil {
		return fmt.Errorf("detach %s from its networks: %w", containerID, err)
	}
	return nil
}

// Attached lists the containers that have a namespace bound.
func (f *Fabric) Attached() ([]string, error) {
	entries, err := os.ReadDir(f.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		if !e.IsDir() {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// Path is where the container's namespace is bound.
func (f *Fabric) Path(containerID string) (string, error) {
	if containerID == "" || containerID[0] == '.' || filepath.Base(containerID) != containerID {
		return "", fault.Internal("%q is no container id", containerID)
	}
	return filepath.Join(f.opts.Dir, containerID), nil
}

func (f *Fabric) openContainer(ctx context.Context, containerID string) (*live, *namespace, error) {
	path, err := f.Path(containerID)
	if err != nil {
		return nil, nil, err
	}
	l, err := f.ensureLive(ctx)
	if err != nil {
		return nil, nil, err
	}
	n, err := openNamespace(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open the network namespace of %s: %w", containerID, err)
	}
	return l, n, nil
}
