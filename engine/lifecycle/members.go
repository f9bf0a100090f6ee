package lifecycle

import (
	"maps"
	"slices"
	"strings"
	"time"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/network"
)

// inNetwork returns the name by which a container's record has a network, running or not.
func (ns *Networks) inNetwork(r *container.Record, n *network.Network) (name string, ok bool) {
	in := r.Networks()
	for name, e := range in {
		if e.NetworkID == n.ID {
			return name, true
		}
	}
	if e, named := in[n.Name]; named && ns.isStaleNetwork(e.NetworkID) {
		return n.Name, true
	}
	return "", false
}

// isStaleNetwork reports whether there is no network of that id any more, or has not been yet.
func (ns *Networks) isStaleNetwork(networkID string) bool {
	if networkID == "" {
		return true
	}
	_, err := ns.store.Find(networkID)
	return err != nil
}

// NetworkMembers returns the records of the containers that run in a network.
func (ns *Networks) NetworkMembers(networkID string) []*container.Record {
	var members []*container.Record
	for _, c := range ns.index.withRecord(func(r *container.Record) bool { return r.State.HasProcess() }) {
		r := c.record()
		for _, ep := range r.Network.Endpoints {
			if ep.NetworkID == networkID {
				members = append(members, r)
			}
		}
	}
	return members
}

// UsesNetwork reports whether a container, running or not, is in a network.
func (ns *Networks) UsesNetwork(networkID string) bool {
	n, err := ns.store.Find(networkID)
	if err != nil {
		return false
	}
	return len(ns.index.withRecord(func(r *container.Record) bool {
		_, in := ns.inNetwork(r, n)
		return in
	})) > 0
}

// filterNetwork takes names, ids and beginnings of ids of the networks that containers are in, running or not.
func filterNetwork(values []string, find func(ref string) (*network.Network, error)) test {
	ids := map[string]bool{}
	for _, v := range values {
		if n, err := find(v); err == nil {
			ids[n.ID] = true
		}
	}
	return func(r *container.Record) bool {
		for name, e := range r.Networks() {
			if slices.Contains(values, name) || ids[e.NetworkID] {
				return true
			}
		}
		for _, ep := range r.Network.Endpoints {
			if ids[ep.NetworkID] {
				return true
			}
		}
		_, shared := strings.CutPrefix(r.Host.NetworkMode, container.JoinMode(""))
		return shared && slices.Contains(values, r.Host.NetworkMode)
	}
}

// publishNetwork tells that a container joined or left its networks.
func (ns *Networks) publishNetwork(action string, r *container.Record) {
	for _, name := range slices.Sorted(maps.Keys(r.Network.Endpoints)) {
		ns.publishEndpoint(action, r, name, r.Network.Endpoints[name].NetworkID)
	}
}

func (ns *Networks) publishEndpoint(action string, r *container.Record, name, networkID string) {
	driver := network.DriverBridge
	switch {
	case name == network.Host:
		driver = network.DriverHost
	case name == network.None:
		driver = network.DriverNull
	case network.IsSwarmID(networkID):
		driver = network.DriverOverlay
	}
	ns.events.Publish(event.Event{
		Type: event.TypeNetwork, Action: action, ID: networkID,
		Attributes: map[string]string{"container": r.ID, "name": name, "type": driver}, Time: time.Now(),
	})
}
