package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/task"
)

// links are the links between containers, as their records have them.
type links struct {
	index *index
	log   zerolog.Logger
}

// neighbour is a running container that another one is linked with.
type neighbour struct {
	alias  string
	record *container.Record
	ip     string
}

// hostsLine is the neighbour's line in /etc/hosts: its alias, its host name, and its name if that is another.
func (n neighbour) hostsLine() string {
	line := n.ip + "\t" + n.alias + " " + n.record.Config.Hostname
	if n.alias != n.record.Name {
		line += " " + n.record.Name
	}
	return line
}

// linksOf are the links that count: those of a container that is in the default network.
func linksOf(r *container.Record) []container.Link {
	if len(r.Links) == 0 {
		return nil
	}
	if _, in := r.Networks()[container.NetworkBridge]; !in {
		return nil
	}
	return r.Links
}

// hasLinks reports whether a container has links to others, in any network.
func hasLinks(r *container.Record) bool {
	for _, e := range r.Endpoints {
		if len(e.Links) > 0 {
			return true
		}
	}
	return len(r.Links) > 0
}

// linkedNeighbours finds the containers that r is linked with. Each must run in the default network, or it is fault.Conflict;
// a removed one is linked no more.
func (ls *links) linkedNeighbours(r *container.Record) ([]neighbour, error) {
	var list []neighbour
	for _, l := range linksOf(r) {
		n, err := ls.linkedNeighbour(r, l)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// linkedNeighbour finds the container of one link of r.
func (ls *links) linkedNeighbour(r *container.Record, l container.Link) (neighbour, error) {
	other, err := ls.linkTarget(l.Container)
	if err != nil {
		return neighbour{}, err
	}
	if !other.State.HasProcess() {
		err := fault.Conflict("Cannot link to a non running container: /%s AS /%s/%s", other.Name, r.Name, l.Alias)
		return neighbour{}, needError{err}
	}
	ip := other.Network.Endpoints[container.NetworkBridge].IPAddress
	if ip == "" {
		return neighbour{}, needError{fault.Conflict("Cannot link to /%s, as it does not belong to the default network", other.Name)}
	}
	return neighbour{alias: l.Alias, record: other, ip: ip}, nil
}

// LinkEnv returns the variables that tell a container of those that it is linked with and that run now: a process that is added
// to it gets them like its own one.
func (iv *Inventory) LinkEnv(r *container.Record) []string {
	var near []neighbour
	for _, l := range linksOf(r) {
		if n, err := iv.links.linkedNeighbour(r, l); err == nil {
			near = append(near, n)
		}
	}
	return linkEnv(r.Name, near, nil)
}

// linkTarget returns the container that a link leads to: for one that uses another's network, that other one.
func (ls *links) linkTarget(id string) (*container.Record, error) {
	for range 10 { // a chain longer than that is a ring
		c, err := ls.index.find(id)
		if err != nil {
			return nil, err
		}
		r := c.record()
		next, ok := strings.CutPrefix(r.Host.NetworkMode, container.JoinMode(""))
		if !ok {
			return r, nil
		}
		id = next
	}
	return nil, needError{fault.Conflict("Cannot link to container %s: its network is its own", id)}
}

// linksIn are the links of a network that a user has made, as far as there are such containers now, as alias to id. The
// last link of an alias counts.
func (ls *links) linksIn(e *container.EndpointConfig) map[string]string {
	links, err := container.ParseLinks(e.Links)
	if err != nil || len(links) == 0 {
		return nil // they were checked at create
	}
	found := make(map[string]string, len(links))
	for _, l := range links {
		delete(found, l.Alias)
		c, err := ls.index.find(l.Container)
		if err != nil {
			continue
		}
		if other, err := ls.linkTarget(c.id); err == nil {
			found[l.Alias] = other.ID
		}
	}
	return found
}

// linkEnv puts what the neighbours tell in front of a container's own environment: the last entry of a name wins.
func linkEnv(parent string, list []neighbour, own []string) []string {
	var env []string
	for _, n := range list {
		spec, err := container.SpecOf(n.record)
		if err != nil {
			continue // it runs, so its settings were good; without them nothing is told
		}
		env = append(env, container.LinkEnv("/"+parent+"/"+n.alias, n.ip, spec.Exposed, n.record.Config.Env)...)
	}
	return append(env, own...)
}

// linksChanged brings the hosts files of running containers up to date after one has started or its networks have changed:
// its own, since a neighbour may have moved while it started, and those of all that are linked with it.
func (ls *links) linksChanged(c *ctr) {
	r := c.record()
	for _, other := range ls.index.listLinking() {
		concerned := slices.ContainsFunc(other.record().Links, func(l container.Link) bool {
			target, err := ls.linkTarget(l.Container)
			return other == c || err == nil && target.ID == r.ID
		})
		if !concerned {
			continue
		}
		if err := ls.refreshHosts(other, ""); err != nil {
			ls.log.Warn().Err(err).Str("container", other.id).Msg("addresses of linked containers not renewed")
		}
	}
}

// refreshHosts renews the lines of linked containers in the hosts file of a running one, and takes out the line of gone, an
// alias. A container that has left the default network neither has such lines nor is in them. The file is written in
// place, since it is mounted in the container.
func (ls *links) refreshHosts(c *ctr, gone string) error {
	c.files.Lock()
	defer c.files.Unlock()
	r := c.record()
	if !r.State.HasProcess() {
		return nil // it is written at the start
	}
	now := map[string]neighbour{}
	if gone != "" {
		now[gone] = neighbour{}
	}
	_, in := r.Network.Endpoints[container.NetworkBridge]
	for _, l := range r.Links {
		other, err := ls.linkTarget(l.Container)
		switch {
		case !in:
			now[l.Alias] = neighbour{}
		case err == nil && other.State.HasProcess():
			now[l.Alias] = neighbour{alias: l.Alias, record: other, ip: other.Network.Endpoints[container.NetworkBridge].IPAddress}
		}
	}
	return rewriteManaged(r.HostsPath, func(have []byte) []byte { return replaceLinkLines(have, now) })
}

// replaceLinkLines gives the lines of linked containers their present addresses, by alias, adds those that are missing, and
// leaves out those whose address is empty. Such a line has an address, an alias and at least one more name; all others stay as
// they are.
func replaceLinkLines(content []byte, now map[string]neighbour) []byte {
	var b bytes.Buffer
	there := map[string]bool{}
	for line := range bytes.Lines(content) {
		fields := strings.Fields(string(line))
		if len(fields) < 3 {
			b.Write(line)
			continue
		}
		n, known := now[fields[1]]
		if _, err := netip.ParseAddr(fields[0]); err != nil || !known {
			b.Write(line)
			continue
		}
		if there[fields[1]] = true; n.ip != "" {
			b.WriteString(n.ip)
			b.Write(line[bytes.Index(line, []byte(fields[0]))+len(fields[0]):])
		}
	}
	for _, alias := range slices.Sorted(maps.Keys(now)) {
		n := now[alias]
		if n.ip == "" || there[alias] {
			continue
		}
		if b.Len() > 0 && b.Bytes()[b.Len()-1] != '\n' {
			b.WriteByte('\n')
		}
		b.WriteString(n.hostsLine() + "\n")
	}
	return b.Bytes()
}

// removeLink takes a link away, named as parent/alias. fault.NotFound if there is none.
func (ls *links) removeLink(ctx context.Context, name string) error {
	parent, alias, ok := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	if !ok {
		if _, err := ls.index.find(name); err != nil {
			return err
		}
		return fault.Conflict("Conflict, cannot remove the default link name of the container")
	}
	c, err := ls.index.find(parent)
	if err != nil {
		return fmt.Errorf("cannot get parent %s for link name %s: %w", parent, name, err)
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	before := c.record()
	links := slices.DeleteFunc(slices.Clone(before.Links), func(l container.Link) bool { return l.Alias == alias })
	if len(links) == len(before.Links) || c.isRemoved() {
		return noSuch(name)
	}
	c.update(func(r *container.Record) { r.Links = links })
	if err := c.saveOrUndo(func(r *container.Record) { r.Links = before.Links }); err != nil {
		return err
	}
	return ls.refreshHosts(c, alias)
}

// withLinkNames returns a record as readers want it: with its links by the present names of the containers.
func (ls *links) withLinkNames(r *container.Record) *container.Record {
	if len(r.Links) == 0 && len(r.Host.Links) == 0 && !r.MonitorSilent {
		return r
	}
	with := *r
	if r.MonitorSilent {
		with.Error = task.ErrSilent.Error()
	}
	with.Host.Links = nil
	for _, l := range r.Links {
		if other, err := ls.index.find(l.Container); err == nil {
			with.Host.Links = append(with.Host.Links, container.ShowLink(other.record().Name, r.Name, l.Alias))
		}
	}
	return &with
}

// withNames returns a record with the names that other containers have for it.
func withNames(r *container.Record, names map[string][]string) *container.Record {
	if len(names[r.ID]) == 0 {
		return r
	}
	with := *r
	with.LinkedAs = names[r.ID]
	return &with
}

// linkNames lists how containers are known to those that are linked with them, by id.
func linkNames(all []*ctr) map[string][]string {
	var names map[string][]string
	for _, c := range all {
		r := c.record()
		for _, l := range r.Links {
			if names == nil {
				names = map[string][]string{}
			}
			names[l.Container] = append(names[l.Container], "/"+r.Name+"/"+l.Alias)
		}
	}
	return names
}
