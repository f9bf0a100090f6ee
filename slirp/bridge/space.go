package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/vishvananda/netlink"
)

// Space is a container's new network namespace, bound to its file. It has lo up and nothing else before Furnish.
type Space struct {
	f    *Fabric
	id   string // of the container
	path string
	n    *namespace
}

// Make makes the container's namespace. What an earlier engine left for the same container is dropped first. The caller
// closes the Space; the namespace stays until Detach.
func (f *Fabric) Make(ctx context.Context, containerID string) (*Space, error) {
	path, err := f.Path(containerID)
	if err != nil {
		return nil, err
	}
	if _, err := f.ensureLive(ctx); err != nil { // which makes the folder
		return nil, err
	}
	n, err := f.spare.take()
	if err != nil {
		return nil, err
	}
	err = n.bind(path)
	if errors.Is(err, fs.ErrExist) {
		if err = unbindNamespace(path); err == nil {
			err = n.bind(path)
		}
	}
	if err != nil {
		n.close()
		return nil, fmt.Errorf("make the network namespace of %s: %w", containerID, err)
	}
	return &Space{f: f, id: containerID, path: path, n: n}, nil
}

// Path is where the namespace is bound.
func (s *Space) Path() string { return s.path }

// File is the namespace itself, until Close.
func (s *Space) File() *os.File { return s.n.file }

// Furnish gives the namespace its devices and its ways out. After an error something may be left, which Detach clears.
func (s *Space) Furnish(ctx context.Context, all []Endpoint, gateways []Gateway) error {
	l, err := s.f.ensureLive(ctx)
	if err != nil {
		return err
	}
	devices := make(map[string]int, len(all))
	for _, e := range all {
		if devices[e.Device], err = s.f.connectEndpoint(l, s.n, e); err != nil {
			return fmt.Errorf("connect %s to %s: %w", s.id, e.Net.Device, err)
		}
	}
	for _, g := range gateways {
		if err := s.n.handle.RouteAdd(&netlink.Route{LinkIndex: devices[g.Device], Gw: g.Addr.AsSlice()}); err != nil {
			return fmt.Errorf("connect %s: set the default route by %s: %w", s.id, g.Addr, err)
		}
	}
	return nil
}

// Close lets the namespace go and makes the next one ready, which must not compete with this one.
func (s *Space) Close() {
	s.n.close()
	s.f.spare.refill()
}
