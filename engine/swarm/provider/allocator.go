package provider

import (
	"net/netip"
	"slices"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"

	"moss/engine/fault"
)

// Allocator implements SwarmKit's networkallocator.NetworkAllocator. SwarmKit uses it from one goroutine, and so must
// others.
type Allocator struct {
	pool   Pool
	taken  func() []Taken
	spaces map[string]*space // by the network's id
}

var _ networkallocator.NetworkAllocator = (*Allocator)(nil)

// IsAllocated says whether the network has its subnet, in this allocator and in its record.
func (a *Allocator) IsAllocated(n *api.Network) bool {
	s := a.spaces[n.ID]
	r, err := parseRanges(n.IPAM)
	return s != nil && n.DriverState != nil && err == nil && r.subnet == s.subnet
}

// Allocate gives the network the subnet of its record, or the one that its spec asks for, or one of the pool, and writes
// it into the record. A subnet that overlaps is fault.Conflict with the holder's name.
func (a *Allocator) Allocate(n *api.Network) error {
	if s := a.spaces[n.ID]; s != nil {
		writeRecord(n, ranges{subnet: s.subnet, within: s.within, gateway: s.gateway})
		return nil
	}
	ingress := networkallocator.IsIngressNetwork(n)
	for _, s := range a.spaces {
		if ingress && s.ingress {
			return fault.Conflict("ingress network %s is already present", s.id)
		}
	}
	r, err := a.decideRanges(n)
	if err != nil {
		return err
	}
	a.spaces[n.ID] = newSpace(n.ID, n.Spec.Annotations.Name, ingress, r)
	writeRecord(n, r)
	return nil
}

func (a *Allocator) decideRanges(n *api.Network) (ranges, error) {
	others := make([]Taken, 0, len(a.spaces))
	for _, s := range a.spaces {
		others = append(others, Taken{Prefix: s.subnet, Holder: "network " + s.name})
	}
	// What stands in the record was given: a node that came later with a route to it changes nothing.
	r, err := parseRanges(n.IPAM)
	if err != nil {
		return ranges{}, err
	}
	if r.subnet.IsValid() {
		return r, checkOverlap(r.subnet, others)
	}
	if r, err = parseRanges(n.Spec.IPAM); err != nil {
		return ranges{}, err
	}
	if r.subnet.IsValid() {
		return r, checkOverlap(r.subnet, append(others, a.taken()...))
	}
	subnet, err := a.pool.chooseSubnet(append(others, a.taken()...))
	return ranges{subnet: subnet, within: subnet, gateway: subnet.Addr().Next()}, err
}

func writeRecord(n *api.Network, r ranges) {
	c := &api.IPAMConfig{Family: api.IPAMConfig_IPV4, Subnet: r.subnet.String(), Gateway: r.gateway.String()}
	if r.within != r.subnet {
		c.Range = r.within.String()
	}
	n.IPAM = &api.IPAMOptions{Driver: &api.Driver{Name: ipamDriver}, Configs: []*api.IPAMConfig{c}}
	n.DriverState = &api.Driver{Name: Driver}
}

// Deallocate takes the network's subnet back, and all addresses of it.
func (a *Allocator) Deallocate(n *api.Network) error {
	delete(a.spaces, n.ID)
	return nil
}

// IsServiceAllocated says whether the service has an address in each of its networks and in no other.
func (a *Allocator) IsServiceAllocated(s *api.Service, _ ...func(*networkallocator.ServiceAllocationOpts)) bool {
	wanted := a.serviceNetworks(s)
	var vips []*api.Endpoint_VirtualIP
	if s.Endpoint != nil {
		vips = s.Endpoint.VirtualIPs
	}
	for _, v := range vips {
		if !slices.Contains(wanted, v.NetworkID) || !a.isHeldBy(v.NetworkID, v.Addr, serviceHolder(s)) {
			return false
		}
	}
	return len(vips) == len(wanted)
}

// AllocateService gives the service an address in each of its networks, those of its record where it has them, and takes
// back what it has beyond.
func (a *Allocator) AllocateService(s *api.Service) (err error) {
	wanted, holder := a.serviceNetworks(s), serviceHolder(s)
	if len(wanted) == 0 && s.Endpoint == nil {
		return nil
	}
	if s.Endpoint == nil {
		s.Endpoint = &api.Endpoint{}
	}
	old := map[string]string{}
	for _, v := range s.Endpoint.VirtualIPs {
		old[v.NetworkID] = v.Addr
	}
	var g given
	defer func() { g.undoOn(err) }()
	vips := make([]*api.Endpoint_VirtualIP, 0, len(wanted))
	for _, id := range wanted {
		addr, err := a.allocateAddr(id, old[id], holder, &g)
		if err != nil {
			return err
		}
		vips = append(vips, &api.Endpoint_VirtualIP{NetworkID: id, Addr: addr})
	}
	for id, addr := range old {
		if !slices.Contains(wanted, id) {
			a.releaseAddr(id, addr, holder)
		}
	}
	s.Endpoint.VirtualIPs = vips
	s.Endpoint.Spec = s.Spec.Endpoint.Copy()
	return nil
}

// DeallocateService takes all addresses of the service back.
func (a *Allocator) DeallocateService(s *api.Service) error {
	if s.Endpoint == nil {
		return nil
	}
	for _, v := range s.Endpoint.VirtualIPs {
		a.releaseAddr(v.NetworkID, v.Addr, serviceHolder(s))
	}
	s.Endpoint.VirtualIPs = nil // the rest of the record names ports that SwarmKit takes back
	return nil
}

// serviceNetworks returns the ids of the networks in which the service has an address, each once: those of its spec
// unless its names lead to the tasks themselves, and the ingress network for published ports.
func (a *Allocator) serviceNetworks(s *api.Service) []string {
	var ids []string
	if e := s.Spec.Endpoint; e == nil || e.Mode == api.ResolutionModeVirtualIP {
		configs := s.Spec.Task.Networks
		if len(configs) == 0 {
			configs = s.Spec.Networks // as older clients send them
		}
		for _, c := range configs {
			if !slices.Contains(ids, c.Target) {
				ids = append(ids, c.Target)
			}
		}
	}
	if networkallocator.IsIngressNetworkNeeded(s) {
		for id, space := range a.spaces {
			if space.ingress && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// IsTaskAllocated says whether the task has an address in each of its networks.
func (a *Allocator) IsTaskAllocated(t *api.Task) bool {
	for _, n := range t.Networks {
		if !a.isAttached(n, taskHolder(t)) {
			return false
		}
	}
	return len(t.Networks) > 0
}

// AllocateTask gives the task an address in each of its networks, all or none.
func (a *Allocator) AllocateTask(t *api.Task) (err error) {
	var g given
	defer func() { g.undoOn(err) }()
	for _, n := range t.Networks {
		if err := a.attachNetwork(n, taskHolder(t), &g); err != nil {
			return err
		}
	}
	return nil
}

// DeallocateTask takes the addresses of the task back.
func (a *Allocator) DeallocateTask(t *api.Task) error {
	for _, n := range t.Networks {
		a.detachNetwork(n, taskHolder(t))
	}
	return nil
}

// IsAttachmentAllocated says whether the node has its address in the network.
func (a *Allocator) IsAttachmentAllocated(node *api.Node, n *api.NetworkAttachment) bool {
	return a.isAttached(n, nodeHolder(node))
}

// AllocateAttachment gives the node an address in the network.
func (a *Allocator) AllocateAttachment(node *api.Node, n *api.NetworkAttachment) (err error) {
	var g given
	defer func() { g.undoOn(err) }()
	return a.attachNetwork(n, nodeHolder(node), &g)
}

// DeallocateAttachment takes the node's address in the network back.
func (a *Allocator) DeallocateAttachment(node *api.Node, n *api.NetworkAttachment) error {
	a.detachNetwork(n, nodeHolder(node))
	return nil
}

// Holders are told apart by their kind as well: ids of SwarmKit differ, but nothing promises it.
func serviceHolder(s *api.Service) string { return "service " + s.ID }
func taskHolder(t *api.Task) string       { return "task " + t.ID }
func nodeHolder(n *api.Node) string       { return "node " + n.ID }

func (a *Allocator) isAttached(n *api.NetworkAttachment, holder string) bool {
	return n.Network != nil && len(n.Addresses) == 1 && a.isHeldBy(n.Network.ID, n.Addresses[0], holder)
}

func (a *Allocator) attachNetwork(n *api.NetworkAttachment, holder string, g *given) error {
	if n.Network == nil {
		return fault.Invalid("an attachment of %s names no network", holder)
	}
	if len(n.Addresses) > 1 {
		return fault.Invalid("%d addresses are asked for in network %s: it gives one", len(n.Addresses),
			n.Network.Spec.Annotations.Name)
	}
	wish := ""
	if len(n.Addresses) == 1 {
		wish = n.Addresses[0]
	}
	addr, err := a.allocateAddr(n.Network.ID, wish, holder, g)
	if err != nil {
		return err
	}
	n.Addresses = []string{addr}
	return nil
}

func (a *Allocator) detachNetwork(n *api.NetworkAttachment, holder string) {
	if n.Network == nil {
		return
	}
	for _, text := range n.Addresses {
		a.releaseAddr(n.Network.ID, text, holder)
	}
	n.Addresses = nil
}

// allocateAddr gives the holder the address that stands in wish, otherwise a free one, and returns it as records have it.
func (a *Allocator) allocateAddr(networkID, wish, holder string, g *given) (string, error) {
	s := a.spaces[networkID]
	if s == nil {
		return "", fault.Unavailable("network %s has no subnet yet", networkID)
	}
	if wish == "" {
		addr, err := s.giveAddr(holder)
		if err != nil {
			return "", err
		}
		g.noteAddr(s, addr, holder)
		return s.withBits(addr), nil
	}
	addr, err := parseAddr(wish)
	if err != nil {
		return "", fault.Invalid("invalid address %q for %s in network %s: %w", wish, holder, s.name, err)
	}
	had := s.isHeld(addr, holder)
	if err := s.claimAddr(addr, holder); err != nil {
		return "", err
	}
	if !had {
		g.noteAddr(s, addr, holder)
	}
	return s.withBits(addr), nil
}

func (a *Allocator) isHeldBy(networkID, text, holder string) bool {
	s := a.spaces[networkID]
	addr, err := parseAddr(text)
	return s != nil && err == nil && s.isHeld(addr, holder)
}

func (a *Allocator) releaseAddr(networkID, text, holder string) {
	if addr, err := parseAddr(text); err == nil && a.spaces[networkID] != nil {
		a.spaces[networkID].releaseAddr(addr, holder)
	}
}

// parseAddr reads an address with the bits of its subnet, or without them as clients write it.
func parseAddr(text string) (netip.Addr, error) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Addr(), nil
	}
	return netip.ParseAddr(text)
}

// given lists what one verb has given so far, to take it back when the verb does not succeed.
type given []func()

func (g *given) noteAddr(s *space, a netip.Addr, holder string) {
	*g = append(*g, func() { s.releaseAddr(a, holder) })
}

func (g *given) undoOn(err error) {
	if err == nil {
		return
	}
	for _, release := range *g {
		release()
	}
}
