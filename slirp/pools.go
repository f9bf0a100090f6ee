package slirp

import (
	"errors"
	"os"
	"path/filepath"

	"moss/engine/network"
	"moss/slirp/ipam"
)

// addressPools opens the pools of networks' addresses. Below dir a file of each keeps its cursor over a restart of the engine.
type addressPools struct{ dir string }

func (a addressPools) openPool(networkID string, p network.Pool) (*ipam.Pool, error) {
	o := poolOptions(p)
	o.Cursor = a.cursorPath(networkID, p.Subnet.Addr().Is6())
	return ipam.Open(o)
}

func poolOptions(p network.Pool) ipam.Options {
	o := ipam.Options{Subnet: p.Subnet, Range: p.Range, Gateway: p.Gateway}
	for _, addr := range p.Aux {
		o.Aux = append(o.Aux, addr)
	}
	return o
}

func (a addressPools) cursorPath(networkID string, v6 bool) string {
	family := "v4"
	if v6 {
		family = "v6"
	}
	return filepath.Join(a.dir, networkID+"."+family)
}

func (a addressPools) forgetCursors(networkID string) error {
	return errors.Join(removeIfThere(a.cursorPath(networkID, false)), removeIfThere(a.cursorPath(networkID, true)))
}

// removeAll removes the cursors of all networks. The engine alone writes there.
func (a addressPools) removeAll() error { return os.RemoveAll(a.dir) }

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
