package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/client"
	"moss/api/types"
)

// Networks is what the executor needs of the networks between nodes.
type Networks interface {
	// Await returns once the engine has all networks of the task (ids); bounded by ctx.
	Await(ctx context.Context, networks []string) error
	// TakenOut returns once every node has taken the task out of what leads to it, at most one second later.
	TakenOut(ctx context.Context, taskID string)
}

// overlayDriver is the driver of the swarm's networks.
const overlayDriver = "overlay"

// localScope is how far a network reaches that is of one node alone.
const localScope = "local"

// orderNetworks returns the places of a task in networks. The ingress network comes last: the first one is the way out.
func orderNetworks(t *api.Task) []*api.NetworkAttachment {
	places := slices.DeleteFunc(slices.Clone(t.Networks), func(a *api.NetworkAttachment) bool { return a.Network == nil })
	slices.SortStableFunc(places, func(a, b *api.NetworkAttachment) int { return rankNetwork(a) - rankNetwork(b) })
	return places
}

func rankNetwork(a *api.NetworkAttachment) int {
	if a.Network.Spec.Ingress {
		return 1
	}
	return 0
}

// networkIDs returns the ids of a task's networks.
func networkIDs(t *api.Task) []string {
	places := orderNetworks(t)
	ids := make([]string, 0, len(places))
	for _, place := range places {
		ids = append(ids, place.Network.ID)
	}
	return ids
}

// setNetworks gives a container its places in networks, with the addresses that the swarm has chosen for it. Without a network
// of the swarm it is in that of its node.
func setNetworks(body *types.ContainerCreate, t *api.Task) error {
	places := orderNetworks(t)
	if len(places) == 0 {
		body.HostConfig.NetworkMode = taskNetwork
		return nil
	}
	body.HostConfig.NetworkMode = places[0].Network.ID
	endpoints := make(map[string]*types.EndpointConfig, len(places))
	for _, place := range places {
		name := place.Network.Spec.Annotations.Name
		if len(place.Addresses) != 1 {
			return fmt.Errorf("Networks: the task has %d addresses in network %s, want one", len(place.Addresses), name)
		}
		prefix, err := netip.ParsePrefix(place.Addresses[0])
		if err != nil {
			return fmt.Errorf("Networks: the task's address in network %s: %w", name, err)
		}
		endpoints[place.Network.ID] = &types.EndpointConfig{
			IPAMConfig: &types.IPAMConfig{IPv4Address: prefix.Addr().String()}, Aliases: place.Aliases,
		}
	}
	body.NetworkingConfig = &types.NetworkingConfig{EndpointsConfig: endpoints}
	return nil
}

// awaitNetworks waits until this node has the networks of the task, for as long as the patience.
func (c *controller) awaitNetworks(ctx context.Context) error {
	ids := networkIDs(c.task)
	if len(ids) == 0 {
		return nil
	}
	limit, stop := context.WithTimeout(ctx, c.engine.patience)
	defer stop()
	err := c.executor.opt.Networks.Await(limit, ids)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("the networks of the task are not on this node: %w", err)
	}
	return err
}

// takeOut lets all nodes take the task out of what leads to it, so that no connection is begun with one that stops.
func (c *controller) takeOut(ctx context.Context) {
	if len(c.task.Networks) > 0 && c.executor.opt.Networks != nil {
		c.executor.opt.Networks.TakenOut(ctx, c.task.ID)
	}
}

// FindNetwork returns the name of a network that is of this node alone. An error is a client.Error with status 404 if there is
// none.
func (x *Executor) FindNetwork(ctx context.Context, ref string) (name string, err error) {
	raw, err := x.engine.client.NetworkInspect(ctx, ref)
	if err != nil {
		return "", err
	}
	var found types.Network
	if err := json.Unmarshal(raw, &found); err != nil {
		return "", err
	}
	if found.Scope != localScope {
		return "", &client.Error{Status: statusNotFound, Message: fmt.Sprintf("network %s is not of this node alone", ref)}
	}
	return found.Name, nil
}
