package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"moss/api/apiver"
	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/network"
)

// clusterNetworks returns the networks of the swarm as its managers know them. It is empty on a node that is no manager, and
// while no manager answers: what is on this node is shown all the same.
func (h *Handler) clusterNetworks(ctx context.Context) []*network.Network {
	var listed []types.Network
	if err := h.askSwarm(ctx, http.MethodGet, "/networks", &listed); err != nil {
		return nil
	}
	all := make([]*network.Network, 0, len(listed))
	for i := range listed {
		all = append(all, wire.ToClusterNetwork(&listed[i]))
	}
	return all
}

// refuseClusterNetworks returns fault.Forbidden if a client's container is to be in a network of the swarm that is not on this
// node. The engine refuses those that are.
func (h *Handler) refuseClusterNetworks(ctx context.Context, mode string, endpoints map[string]container.EndpointConfig) error {
	names := append(slices.Sorted(maps.Keys(endpoints)), mode)
	names = slices.DeleteFunc(names, func(name string) bool {
		return name == "" || name == networkDefault || network.Builtin(name) || strings.HasPrefix(name, network.Container+":")
	})
	if len(names) == 0 || network.IsSwarm(ctx) {
		return nil
	}
	cluster := h.clusterNetworks(ctx)
	if len(cluster) == 0 {
		return nil
	}
	for _, name := range names {
		n, err := h.networks.FindAmong(name, "", cluster)
		if err == nil && n.Scope() == network.ScopeSwarm {
			return network.NotAttachable(n.Name)
		}
	}
	return nil
}

// networkDefault is the mode of a container that names no network.
const networkDefault = "default"

// removeClusterNetwork removes a network of the swarm. fault.Conflict while a service is in it.
func (h *Handler) removeClusterNetwork(ctx context.Context, networkID string) error {
	return h.askSwarm(ctx, http.MethodDelete, "/networks/"+url.PathEscape(networkID), nil)
}

// askSwarm asks this node's part in a swarm on the engine's own account, and decodes the answer unless into is nil. Without a
// swarm it is fault.NotAcceptable. It makes an error of an answer that is one.
func (h *Handler) askSwarm(ctx context.Context, method, path string, into any) error {
	if h.swarm == nil {
		return errNoSwarm()
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://moss-swarm/v"+apiver.Max.String()+path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := h.swarm.Pass(r, false)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, route.MaxBody))
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusConflict:
		return fault.Conflict("%s", strings.TrimSpace(string(raw)))
	case answer.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("the swarm answers %s %s with %d: %s", method, path, answer.StatusCode, strings.TrimSpace(string(raw)))
	case into == nil:
		return nil
	}
	return json.Unmarshal(raw, into)
}
