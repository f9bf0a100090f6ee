package lifecycle

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/network"
)

// networkStore finds the network that a name, an id or a unique prefix of an id means. fault.NotFound if there is none,
// fault.Conflict for what means several.
type networkStore interface {
	Find(ref string) (*network.Network, error)
}

// nameNetworks replaces the ids of networks in what a client asks for by their names, and returns the ids by name. What is
// not there keeps the client's word: it may be there at the start. fault.Invalid if two words mean one network.
func (m *Manager) nameNetworks(
	host *container.HostConfig, asked map[string]container.EndpointConfig,
) (named map[string]container.EndpointConfig, ids map[string]string, err error) {
	ids = map[string]string{}
	if host.NetworkMode, err = m.nameNetwork(host.NetworkMode, ids); err != nil || asked == nil {
		return nil, ids, err
	}
	named = make(map[string]container.EndpointConfig, len(asked))
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		name, err := m.nameNetwork(key, ids)
		if err != nil {
			return nil, nil, err
		}
		if _, twice := named[name]; twice {
			return nil, nil, fault.Invalid("EndpointsConfig: network %s is there twice", name)
		}
		named[name] = asked[key]
	}
	return named, ids, nil
}

func (m *Manager) nameNetwork(ref string, ids map[string]string) (string, error) {
	if ref == "" || ref == "default" || !container.UserNetwork(ref) {
		return ref, nil
	}
	n, err := m.opt.NetworkStore.Find(ref)
	switch {
	case fault.Is(err, fault.NotFound):
		return ref, nil
	case err != nil:
		return "", err
	}
	if known := ids[n.Name]; known != "" && known != n.ID {
		return "", fault.Invalid("a container cannot be in two networks of the name %s", n.Name)
	}
	ids[n.Name] = n.ID
	return n.Name, nil
}

// settleNetworks notes in spec which networks are meant, as far as they are there, and checks what can be of the places in
// them. ids are those that the client has named otherwise than by name.
func (m *Manager) settleNetworks(containerID string, spec *container.Spec, ids map[string]string) error {
	for name, e := range spec.Endpoints {
		n, err := m.networkNamed(name, cmp.Or(ids[name], e.NetworkID))
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if e.NetworkID = ""; err == nil {
			if err := checkAddresses(n, &e); err != nil {
				return err
			}
			e.NetworkID = n.ID
		}
		spec.Endpoints[name] = withShortID(containerID, name, e)
	}
	return nil
}

// withShortID adds the alias that clients look for in every network that a user has made.
func withShortID(containerID, network string, e container.EndpointConfig) container.EndpointConfig {
	short := id.Short(containerID)
	if container.UserNetwork(network) && !slices.Contains(e.Aliases, short) {
		e.Aliases = append(slices.Clone(e.Aliases), short)
	}
	return e
}

// checkAddresses refuses addresses that the network does not have. fault.Invalid.
func checkAddresses(n *network.Network, e *container.EndpointConfig) error {
	if e.IPAMConfig == nil {
		return nil
	}
	for _, address := range []string{e.IPAMConfig.IPv4Address, e.IPAMConfig.IPv6Address} {
		ip, err := netip.ParseAddr(address)
		if err != nil {
			continue // none, or it was refused before
		}
		if pool, ok := n.Pool(ip.Is6()); !ok || !pool.Subnet.Contains(ip) {
			return fault.Invalid("no configured subnet or ip-range contain the IP address %s", ip)
		}
	}
	return nil
}

// networkNamed returns the network that a container's record means: the one with the id, or, when that is gone, the one
// that has the name now.
func (m *Manager) networkNamed(name, networkID string) (*network.Network, error) {
	if networkID != "" {
		if n, err := m.opt.NetworkStore.Find(networkID); err == nil {
			return n, nil
		}
	}
	return m.opt.NetworkStore.Find(name)
}

// networkMode is what is asked of the network for a container of its own.
func networkMode(spec *container.Spec) string {
	if _, host := spec.Endpoints[container.NetworkHost]; host {
		return network.Host
	}
	_, none := spec.Endpoints[container.NetworkNone]
	if none || spec.Network == container.NetworkNone && len(spec.Endpoints) == 0 {
		return network.None
	}
	return network.Bridge
}

// networkRequest asks for the networks that a container is in. One that is not there is fault.NotFound.
func (m *Manager) networkRequest(r *container.Record, spec *container.Spec) (network.Request, error) {
	req := network.Request{ContainerID: r.ID, Mode: networkMode(spec)}
	if req.Mode != network.Bridge {
		return req, nil
	}
	for _, p := range spec.Publish {
		req.Ports = append(req.Ports, network.PortRequest(p))
	}
	for _, server := range spec.Host.DNS {
		if ip, err := netip.ParseAddr(server); err == nil {
			req.DNS = append(req.DNS, ip)
		}
	}
	for _, name := range spec.NetworkOrder() {
		n, err := m.networkNamed(name, spec.Endpoints[name].NetworkID)
		if err != nil {
			return req, err
		}
		req.Attach = append(req.Attach, m.networkAttachment(r, spec, name, n))
	}
	return req, nil
}

// networkAttachment asks for a place in one network. Nobody has names in the default network but by links, which are files'.
func (m *Manager) networkAttachment(r *container.Record, spec *container.Spec, name string, n *network.Network) network.Attachment {
	e := spec.Endpoints[name]
	a := network.Attachment{Network: n, Name: name, MacAddress: e.MacAddress}
	if a.MacAddress == "" && name == spec.Network {
		a.MacAddress = spec.Config.MacAddress
	}
	if c := e.IPAMConfig; c != nil {
		a.IPv4, _ = netip.ParseAddr(c.IPv4Address)
		a.IPv6, _ = netip.ParseAddr(c.IPv6Address)
		for _, address := range c.LinkLocalIPs {
			if ip, err := netip.ParseAddr(address); err == nil {
				a.LinkLocal = append(a.LinkLocal, ip)
			}
		}
	}
	if !container.UserNetwork(name) {
		return a
	}
	for _, known := range slices.Concat([]string{r.Name, id.Short(r.ID)}, e.Aliases, []string{spec.Config.Hostname}) {
		if known != "" && !slices.Contains(a.Names, known) {
			a.Names = append(a.Names, known)
		}
	}
	a.Links = m.linksIn(&e)
	return a
}

// linksIn are the links of a network that a user has made, as far as there are such containers now, as alias to id. The
// last link of an alias counts.
func (m *Manager) linksIn(e *container.EndpointConfig) map[string]string {
	links, err := container.ParseLinks(e.Links)
	if err != nil || len(links) == 0 {
		return nil // they were checked at create
	}
	found := make(map[string]string, len(links))
	for _, l := range links {
		delete(found, l.Alias)
		c, err := m.index.find(l.Container)
		if err != nil {
			continue
		}
		if other, err := m.linkTarget(c.id); err == nil {
			found[l.Alias] = other.ID
		}
	}
	return found
}

// namesChanged tells running containers that have links to c that it is there now, or is called otherwise.
func (m *Manager) namesChanged(c *ctr) {
	linking := m.index.withRecord(func(r *container.Record) bool {
		for name, e := range r.Endpoints {
			if r.State.HasProcess() && len(e.Links) > 0 && container.UserNetwork(name) {
				return true
			}
		}
		return false
	})
	for _, other := range linking {
		for _, e := range other.record().Endpoints {
			if slices.Contains(slices.Collect(maps.Values(m.linksIn(&e))), c.id) {
				m.updateNames(other)
				break
			}
		}
	}
}

// updateNames tells the network of the present names and links of a running container.
func (m *Manager) updateNames(c *ctr) {
	c.net.Lock()
	defer c.net.Unlock()
	if r := c.record(); r.State.HasProcess() && r.End == nil && r.Network.Mode == network.Bridge {
		m.opt.Networks.Rename(c.id, m.joinedAs(r).Request.Attach)
	}
}

// joinedAs is what the record of a running container says of its network: what was asked for and what it has.
func (m *Manager) joinedAs(r *container.Record) network.Joined {
	j := network.Joined{Sandbox: sandboxOf(r)}
	spec, err := container.SpecOf(r)
	if err == nil {
		j.Request, err = m.networkRequest(r, &spec)
	}
	if err != nil { // it keeps what it has all the same
		m.opt.Log.Warn().Err(err).Str("container", r.ID).Msg("not known what was asked of a running container's network")
		j.Request.ContainerID, j.Request.Mode = r.ID, j.Sandbox.Mode
	}
	j.Request.Attach = slices.DeleteFunc(j.Request.Attach, func(a network.Attachment) bool {
		_, in := j.Sandbox.Endpoints[a.Name]
		return !in
	})
	if j.Sandbox.Mode == "" { // of an engine that had the default network alone
		j.Sandbox.Mode = j.Request.Mode
	}
	return j
}

func recordNetwork(s network.Sandbox) container.Network {
	s.Endpoints = maps.Clone(s.Endpoints)
	return container.Network{Sandbox: s}
}

// sandboxOf is what a running container's record says of its network.
func sandboxOf(r *container.Record) network.Sandbox {
	s := r.Network.Sandbox
	s.Endpoints = maps.Clone(s.Endpoints)
	if old, ok := s.Endpoints[network.Bridge]; ok && old.Device == "" { // of an engine that had the default network alone
		old.Device, s.Primary = "eth0", network.Bridge
		s.Endpoints[network.Bridge] = old
	}
	return s
}
