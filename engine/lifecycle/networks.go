package lifecycle

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/network"
)

// networkDriver builds the networks of containers. Each container's are changed by one caller at a time; on error all is as
// before. Connect and Disconnect, of containers that run, return the whole new state. Leave of one that has none is no error.
type networkDriver interface {
	Join(ctx context.Context, req network.Request) (network.Sandbox, error)
	Leave(ctx context.Context, containerID string) error
	Connect(ctx context.Context, containerID string, a network.Attachment) (network.Sandbox, error)
	Disconnect(ctx context.Context, containerID, networkID string) (network.Sandbox, error)
	Rename(containerID string, all []network.Attachment)
	Restore(ctx context.Context, live map[string]network.Joined) error
}

// networkStore finds the network that a name, an id or a unique prefix of an id means. fault.NotFound if there is none,
// fault.Conflict for what means several.
type networkStore interface {
	Find(ref string) (*network.Network, error)
}

// Networks connects containers with networks.
type Networks struct {
	index  *index
	driver networkDriver
	store  networkStore
	links  *links
	etc    *etcFiles
	events events
	log    zerolog.Logger
}

// networkUse is the use that one container makes of networks.
type networkUse struct {
	changing sync.Mutex // held while the networks of the running container change
}

// nameNetworks replaces the ids of networks in what a client asks for by their names, and returns the ids by name. What is
// not there keeps the client's word: it may be there at the start. fault.Invalid if two words mean one network.
func (ns *Networks) nameNetworks(
	host *container.HostConfig, asked map[string]container.EndpointConfig,
) (named map[string]container.EndpointConfig, ids map[string]string, err error) {
	ids = map[string]string{}
	if host.NetworkMode, err = ns.nameNetwork(host.NetworkMode, ids); err != nil || asked == nil {
		return nil, ids, err
	}
	named = make(map[string]container.EndpointConfig, len(asked))
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		name, err := ns.nameNetwork(key, ids)
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

func (ns *Networks) nameNetwork(ref string, ids map[string]string) (string, error) {
	if ref == "" || ref == "default" || !container.UserNetwork(ref) {
		return ref, nil
	}
	n, err := ns.store.Find(ref)
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
// them. ids are those that the client has named otherwise than by name. Errors are those of network.CheckJoin, too.
func (ns *Networks) settleNetworks(ctx context.Context, containerID string, spec *container.Spec, ids map[string]string) error {
	for name, e := range spec.Endpoints {
		n, err := ns.networkNamed(name, cmp.Or(ids[name], e.NetworkID))
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if e.NetworkID = ""; err == nil {
			if err := n.CheckJoin(ctx); err != nil {
				return err
			}
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
func (ns *Networks) networkNamed(name, networkID string) (*network.Network, error) {
	if networkID != "" {
		if n, err := ns.store.Find(networkID); err == nil {
			return n, nil
		}
	}
	return ns.store.Find(name)
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

// networkRequest asks for the networks that a container is in. One that is not there is fault.NotFound, one of a swarm of whose
// tasks the container is not is fault.Forbidden.
func (ns *Networks) networkRequest(r *container.Record, spec *container.Spec) (network.Request, error) {
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
		n, err := ns.networkNamed(name, spec.Endpoints[name].NetworkID)
		if err != nil {
			return req, err
		}
		if n.Scope() == network.ScopeSwarm && spec.Endpoints[name].NetworkID != n.ID {
			return req, network.NotAttachable(name) // it came after the container, which was not let into it
		}
		if n.ConfigOnly {
			return req, network.NoMembers(name) // likewise
		}
		req.Attach = append(req.Attach, ns.networkAttachment(r, spec, name, n))
	}
	return req, nil
}

// joinNetwork makes the container's network ready: that of another container is, and so nothing is joined.
func (ns *Networks) joinNetwork(
	ctx context.Context, r *container.Record, spec *container.Spec, j *joined,
) (network.Sandbox, error) {
	if j.network != nil {
		return j.sandbox, nil
	}
	req, err := ns.networkRequest(r, spec)
	if err != nil {
		return network.Sandbox{}, needError{err}
	}
	s, err := ns.driver.Join(ctx, req)
	switch {
	case fault.Is(err, fault.NotFound): // it was removed meanwhile
		return s, needError{err}
	case err != nil:
		return s, err
	}
	if _, in := s.Endpoints[req.Mode]; !in && len(spec.Endpoints) > 0 && req.Mode != network.Bridge {
		s.Endpoints = map[string]network.Endpoint{req.Mode: {NetworkID: spec.Endpoints[req.Mode].NetworkID, EndpointID: id.New()}}
	}
	return s, nil
}

// leaveNetworks takes a container out of all its networks.
func (ns *Networks) leaveNetworks(ctx context.Context, c *ctr) error {
	c.net.changing.Lock()
	defer c.net.changing.Unlock()
	return ns.driver.Leave(ctx, c.id)
}

// networkAttachment asks for a place in one network. Nobody has names in the default network but by links, which are files'.
func (ns *Networks) networkAttachment(r *container.Record, spec *container.Spec, name string,
	n *network.Network,
) network.Attachment {
	e := spec.Endpoints[name]
	a := network.Attachment{
		Network: n, Name: name, MacAddress: e.MacAddress, GwPriority: e.GwPriority, Device: e.DriverOpts[container.OptInterface],
	}
	a.Sysctls, _ = e.InterfaceSysctls() // create has refused those that are none
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
	if container.UserNetwork(name) {
		a.Names, a.Links = r.DNSNames(name, e), ns.links.linksIn(&e)
	}
	return a
}

// namesChanged tells running containers that have links to c that it is there now, or is called otherwise.
func (ns *Networks) namesChanged(c *ctr) {
	for _, other := range ns.index.listLinking() {
		r := other.record()
		for name, e := range r.Endpoints {
			if !r.State.HasProcess() || !container.UserNetwork(name) {
				continue
			}
			if slices.Contains(slices.Collect(maps.Values(ns.links.linksIn(&e))), c.id) {
				ns.updateNames(other)
				break
			}
		}
	}
}

// updateNames tells the network of the present names and links of a running container.
func (ns *Networks) updateNames(c *ctr) {
	c.net.changing.Lock()
	defer c.net.changing.Unlock()
	if r := c.record(); r.State.HasProcess() && r.End == nil && r.Network.Mode == network.Bridge {
		ns.driver.Rename(c.id, ns.joinedAs(r).Request.Attach)
	}
}

// joinedAs is what the record of a running container says of its network: what was asked for and what it has.
func (ns *Networks) joinedAs(r *container.Record) network.Joined {
	j := network.Joined{Sandbox: sandboxOf(r)}
	spec, err := container.SpecOf(r)
	if err == nil {
		j.Request, err = ns.networkRequest(r, &spec)
	}
	if err != nil { // it keeps what it has all the same
		ns.log.Warn().Err(err).Str("container", r.ID).Msg("not known what was asked of a running container's network")
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
