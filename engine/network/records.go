package network

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/record"
)

// recordSuffix ends the name of a network's record, which begins with its id.
const recordSuffix = ".json"

func (s *Service) recordPath(networkID string) string {
	return filepath.Join(s.opt.Dir, networkID+recordSuffix)
}

// saveNetwork writes a network's record and publishes it.
func (s *Service) saveNetwork(n *Network) error {
	if err := record.Put(s.recordPath(n.ID), n); err != nil {
		return err
	}
	s.addNetwork(n)
	return nil
}

// loadNetworks reads all records.
func (s *Service) loadNetworks() error {
	files, err := os.ReadDir(s.opt.Dir)
	if err != nil {
		return err
	}
	defaults := 0
	for _, file := range files {
		networkID, ok := strings.CutSuffix(file.Name(), recordSuffix)
		if !ok || !id.Is(networkID) && !IsSwarmID(networkID) {
			continue
		}
		n := &Network{}
		if err := s.readRecord(networkID, n); err != nil {
			if err := s.opt.Damage.SetAside(s.recordPath(networkID), err); err != nil {
				return err
			}
			continue
		}
		if n.Name == Bridge {
			if defaults++; defaults > 1 {
				s.opt.Log.Error().Str("network", networkID).Msg("a second default network left out")
				continue
			}
		}
		s.addNetwork(n)
	}
	return nil
}

// readRecord reads one record, and refuses what no version of this package has written: the driver would stumble over it.
func (s *Service) readRecord(networkID string, n *Network) error {
	if err := record.Get(s.recordPath(networkID), n); err != nil {
		return err
	}
	switch {
	case n.ID != networkID:
	case IsSwarmID(networkID) && n.Driver == DriverOverlay:
		return checkOverlay(n)
	case id.Is(networkID) && n.Driver == DriverNull && n.ConfigOnly:
		return checkSettings(n)
	case id.Is(networkID) && n.Driver == DriverBridge && !n.ConfigOnly:
		return checkBridge(n)
	}
	return fault.Internal("not the record of network %s: id %q, name %q, driver %q", networkID, n.ID, n.Name, n.Driver)
}

// checkBridge refuses what no version of this package has written of a network of the driver bridge.
func checkBridge(n *Network) error {
	if n.Overlay != nil || checkName(n.Name) != nil || n.Name == Host || n.Name == None {
		return fault.Internal("not the record of network %s: name %q", n.ID, n.Name)
	}
	for _, p := range n.IPAM.Pools {
		if err := checkSubnet(p.Subnet); err != nil || !p.Subnet.Contains(p.Gateway) {
			return fault.Internal("record of network %s: subnet %s with the gateway %s", n.ID, p.Subnet, p.Gateway)
		}
	}
	if n.Name == Bridge {
		return nil
	}
	if _, ok := n.Pool(false); !ok {
		return fault.Internal("record of network %s: no IPv4 subnet", n.ID)
	}
	_, err := parseOptions(n.Options)
	return err
}

// ensureBuiltin makes the networks that every host has. The default one has a record, since its subnet is to stay the same;
// of the others there is nothing to keep.
func (s *Service) ensureBuiltin() error {
	old := s.oldDefault()
	n, err := s.Find(Bridge)
	if err != nil {
		n = &Network{
			ID: id.New(), Name: Bridge, Driver: DriverBridge, Created: time.Now().UTC(), IPAM: IPAM{Driver: ipamDefault},
			Options: map[string]string{OptionDefault: "true", OptionICC: "true", OptionMasq: "true"},
		}
		if old.ID != "" {
			n.ID = old.ID
		}
		if old.Subnet.IsValid() {
			n.IPAM.Pools = []Pool{{Subnet: old.Subnet, Gateway: old.Subnet.Addr().Next()}}
		}
		if err := s.saveNetwork(n); err != nil {
			return err
		}
	}
	for _, other := range []*Network{
		{Name: Host, Driver: DriverHost}, {Name: None, Driver: DriverNull},
	} {
		other.ID, other.Created, other.IPAM.Driver = FixedID(other.Name), n.Created, ipamDefault
		s.addNetwork(other)
	}
	return record.Remove(filepath.Join(s.opt.Dir, oldName))
}

// FixedID is the id of host or none: the same everywhere and at any time.
func FixedID(name string) string {
	sum := sha256.Sum256([]byte("moss network " + name))
	return hex.EncodeToString(sum[:])
}

// oldName is where engines that had but one network kept it.
const oldName = "bridge.json"

// oldRecord is what such engines wrote.
type oldRecord struct {
	ID     string       `json:"id"`
	Subnet netip.Prefix `json:"subnet"`
}

// oldDefault returns what an older engine has left. What is missing or cannot be used is zero: then the network gets a new
// id or subnet, on which nothing depends over a start.
func (s *Service) oldDefault() oldRecord {
	var old oldRecord
	if err := record.Get(filepath.Join(s.opt.Dir, oldName), &old); err != nil || !id.Is(old.ID) {
		return oldRecord{}
	}
	if !old.Subnet.IsValid() || !old.Subnet.Addr().Is4() || checkSubnet(old.Subnet) != nil {
		old.Subnet = netip.Prefix{}
	}
	return old
}
