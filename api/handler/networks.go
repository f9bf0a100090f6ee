package handler

import (
	"bytes"
	"context"
	"net/http"
	"slices"

	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/network"
)

// Networks is all that the endpoints need of networks. Those of the swarm that its managers know are handed in: only some of them
// are on this node.
type Networks interface {
	FindAmong(ref, scope string, cluster []*network.Network) (*network.Network, error)
	List(filters map[string][]string, cluster []*network.Network, used func(id string) bool) ([]*network.Network, error)
	Create(ctx context.Context, opt network.CreateOptions) (n *network.Network, warning string, err error)
	Remove(ctx context.Context, ref string) error
	Prune(ctx context.Context, filters map[string][]string, opt network.PruneOptions) (removed []string, err error)
}

// Members is what the endpoints need of the containers in networks.
type Members interface {
	ConnectNetwork(ctx context.Context, ref string, n *network.Network, cfg container.EndpointConfig) error
	DisconnectNetwork(ctx context.Context, ref string, n *network.Network, force bool) error
	// NetworkMembers returns the records of the containers that run in a network.
	NetworkMembers(networkID string) []*container.Record
	// UsesNetwork reports whether a container has a place in the network, running or not.
	UsesNetwork(networkID string) bool
}

func (h *Handler) networkList(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	networks, err := h.networks.List(filters, h.clusterNetworks(c.Ctx()), h.members.UsesNetwork)
	if err != nil {
		return err
	}
	list := make([]*types.Network, 0, len(networks))
	for _, n := range networks {
		var members []*container.Record
		if c.Version() < v(28) { // later ones show them in inspect alone
			members = h.members.NetworkMembers(n.ID)
		}
		list = append(list, wire.NewNetwork(n, members))
	}
	return replyJSON(c, http.StatusOK, list)
}

func (h *Handler) networkInspect(c *route.Call) error {
	n, err := h.findNetwork(c, c.Text("scope"))
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, wire.NewNetworkInspect(n, h.members.NetworkMembers(n.ID)))
}

func (h *Handler) networkCreate(c *route.Call) error {
	body := &types.NetworkCreate{}
	raw, err := decodeRaw(c, body)
	if err != nil {
		return err
	}
	if body.Driver == network.DriverOverlay {
		// Of names that the swarm has, or that are kept, the swarm says so itself.
		found, err := h.networks.FindAmong(body.Name, network.ScopeLocal, nil)
		if err == nil && found.Name == body.Name && !found.Builtin() {
			return network.NameTaken(body.Name)
		}
		if err := h.passBody(c, bytes.NewReader(raw), false); !fault.Is(err, fault.NotAcceptable) {
			return err
		} // without a swarm there is no such driver
	}
	asked, err := wire.ToNetwork(body)
	if err != nil {
		return err
	}
	if c.Version() >= v(44) {
		asked.CheckDuplicate = true // two networks of one name are no longer made
	}
	if slices.ContainsFunc(h.clusterNetworks(c.Ctx()), func(n *network.Network) bool { return n.Name == body.Name }) {
		return network.NameTaken(body.Name)
	}
	made, warning, err := h.networks.Create(c.Ctx(), asked)
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusCreated, &types.NetworkCreated{ID: made.ID, Warning: warning})
}

func (h *Handler) networkConnect(c *route.Call) error {
	body := &types.NetworkConnect{}
	n, err := h.networkAndBody(c, body, &body.Container)
	if err != nil {
		return err
	}
	return c.Empty(h.members.ConnectNetwork(c.Ctx(), body.Container, n, wire.ToEndpoint(body.EndpointConfig)))
}

func (h *Handler) networkDisconnect(c *route.Call) error {
	body := &types.NetworkDisconnect{}
	n, err := h.networkAndBody(c, body, &body.Container)
	if err != nil {
		return err
	}
	return c.Empty(h.members.DisconnectNetwork(c.Ctx(), body.Container, n, body.Force))
}

// networkAndBody reads the body, in which a container must be named, and finds the network.
func (h *Handler) networkAndBody(c *route.Call, body any, name *string) (*network.Network, error) {
	if err := decodeBody(c, body); err != nil {
		return nil, err
	}
	if *name == "" {
		return nil, fault.Invalid("Container: want the name or the id of a container")
	}
	return h.findNetwork(c, "")
}

// findNetwork finds the network of a scope, any if that is empty, that the path names, among those of the swarm as well.
func (h *Handler) findNetwork(c *route.Call, scope string) (*network.Network, error) {
	return h.networks.FindAmong(c.Param("id"), scope, h.clusterNetworks(c.Ctx()))
}

func (h *Handler) networkRemove(c *route.Call) error {
	n, err := h.findNetwork(c, "")
	if err != nil {
		return err
	}
	if n.Scope() == network.ScopeSwarm {
		return h.passSwarm(c)
	}
	err = h.networks.Remove(c.Ctx(), n.ID)
	if c.Version() < v(25) {
		return c.Empty(err)
	}
	return c.NoContent(err)
}

func (h *Handler) networksPrune(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	removed, err := h.networks.Prune(c.Ctx(), filters, network.PruneOptions{
		Used: h.members.UsesNetwork, Cluster: h.clusterNetworks(c.Ctx()), RemoveCluster: h.removeClusterNetwork,
	})
	if err := restOfPrune(c, len(removed), err); err != nil {
		return err
	}
	h.tellPruned(event.TypeNetwork, 0)
	return replyJSON(c, http.StatusOK, &types.NetworksPruned{NetworksDeleted: removed})
}
