package handler

import (
	"context"
	"net/http"

	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/network"
)

// Networks is all that the endpoints need of networks.
type Networks interface {
	Find(ref string) (*network.Network, error)
	List(filters map[string][]string) ([]*network.Network, error)
	Create(ctx context.Context, opt network.CreateOptions) (n *network.Network, warning string, err error)
	Remove(ctx context.Context, ref string) error
	// Prune asks used, by id, which networks have to stay.
	Prune(ctx context.Context, filters map[string][]string, used func(id string) bool) (removed []string, err error)
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
	networks, err := h.networks.List(filters)
	if err != nil {
		return err
	}
	list := make([]*types.Network, 0, len(networks))
	for _, n := range networks {
		list = append(list, wire.NewNetwork(n, h.members.NetworkMembers(n.ID)))
	}
	return replyJSON(c, http.StatusOK, list)
}

func (h *Handler) networkInspect(c *route.Call) error {
	n, err := h.networks.Find(c.Param("id"))
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, wire.NewNetworkInspect(n, h.members.NetworkMembers(n.ID)))
}

func (h *Handler) networkCreate(c *route.Call) error {
	body := &types.NetworkCreate{}
	if err := decodeBody(c, body); err != nil {
		return err
	}
	asked, err := wire.ToNetwork(body)
	if err != nil {
		return err
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
	return h.networks.Find(c.Param("id"))
}

func (h *Handler) networkRemove(c *route.Call) error {
	return c.Empty(h.networks.Remove(c.Ctx(), c.Param("id")))
}

func (h *Handler) networksPrune(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	removed, err := h.networks.Prune(c.Ctx(), filters, h.members.UsesNetwork)
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, &types.NetworksPruned{NetworksDeleted: removed})
}
