package member

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"

	"moss/engine/fault"
	"moss/engine/swarm/provider"
)

// Networks returns what gives networks their addresses on a manager, and says which network may be created.
func (m *Member) Networks() *provider.Provider { return m.networks }

// ParsePool reads the setting of a swarm's pool, "CIDR" or "CIDR,bits". Empty is provider's default. What cannot be a pool is
// fault.Invalid.
func ParsePool(text string) (*networkallocator.Config, error) {
	prefix, size, hasSize := strings.Cut(text, ",")
	bits := uint64(provider.DefaultSubnetSize)
	if hasSize {
		var err error
		if bits, err = strconv.ParseUint(strings.TrimSpace(size), 10, 8); err != nil || bits == 0 {
			return nil, fault.Invalid("invalid pool %q: after the comma stands the number of bits of a subnet", text)
		}
	}
	if prefix = strings.TrimSpace(prefix); prefix == "" {
		prefix = provider.DefaultPool
	}
	c := &networkallocator.Config{DefaultAddrPool: []string{prefix}, SubnetSize: uint32(bits)}
	if _, err := provider.ParsePool(c.DefaultAddrPool, c.SubnetSize); err != nil {
		return nil, err
	}
	return c, nil
}

// initPool returns the pool of a swarm that this node makes. It stands in the swarm's record from then on, also the default,
// so that another version of this program goes on with it.
func (m *Member) initPool() (*networkallocator.Config, error) {
	pool, err := ParsePool(m.opt.Pool)
	if err != nil {
		return nil, fmt.Errorf("the setting swarm-pool of this node: %w", err)
	}
	return pool, nil
}

// resolveData reads the address of this host, or the interface, by which networks between nodes are to be carried. Empty is
// none.
func (b addressBook) resolveData(text string) (string, error) {
	p, err := b.resolveText("DataPathAddr", text)
	if err != nil || !p.addr.IsValid() {
		return "", err
	}
	if p.port != 0 {
		return "", fault.Invalid("DataPathAddr %q must be an IP address or a network interface without a port", text)
	}
	if p.addr.IsUnspecified() {
		return "", fault.Invalid("DataPathAddr %q must be a non-zero IP address or a network interface", text)
	}
	return p.addr.String(), nil
}
