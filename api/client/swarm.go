package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"moss/api/types"
)

// SwarmInit makes a swarm with the engine's node as its manager and returns the id of the node.
func (c *Client) SwarmInit(ctx context.Context, body types.SwarmInit) (nodeID string, err error) {
	err = c.call(ctx, request{method: http.MethodPost, path: "/swarm/init", json: body}, &nodeID)
	return nodeID, err
}

// SwarmJoin makes the engine's node a part of a swarm.
func (c *Client) SwarmJoin(ctx context.Context, body types.SwarmJoin) error {
	return c.call(ctx, request{method: http.MethodPost, path: "/swarm/join", json: body}, nil)
}

// SwarmLeave takes the engine's node out of its swarm. A manager leaves only by force.
func (c *Client) SwarmLeave(ctx context.Context, force bool) error {
	query := url.Values{}
	if force {
		query.Set("force", "1")
	}
	return c.call(ctx, request{method: http.MethodPost, path: "/swarm/leave", query: query}, nil)
}

// SwarmInspect returns the swarm of the engine's node, which must be a manager.
func (c *Client) SwarmInspect(ctx context.Context) (types.Swarm, error) {
	var out types.Swarm
	err := c.call(ctx, request{method: http.MethodGet, path: "/swarm"}, &out)
	return out, err
}

// SwarmRotation says which secrets of a swarm are replaced.
type SwarmRotation struct {
	WorkerToken, ManagerToken, UnlockKey bool
}

// SwarmUpdate changes the swarm from a version of it, and replaces secrets.
func (c *Client) SwarmUpdate(ctx context.Context, version types.ObjectVersion, spec types.SwarmSpec, rotate SwarmRotation) error {
	query := versionQuery(version)
	for name, on := range map[string]bool{
		"rotateWorkerToken": rotate.WorkerToken, "rotateManagerToken": rotate.ManagerToken, "rotateManagerUnlockKey": rotate.UnlockKey,
	} {
		if on {
			query.Set(name, "1")
		}
	}
	return c.call(ctx, request{method: http.MethodPost, path: "/swarm/update", query: query, json: spec}, nil)
}

// SwarmUnlock unlocks a manager that was started again.
func (c *Client) SwarmUnlock(ctx context.Context, key string) error {
	return c.call(ctx, request{method: http.MethodPost, path: "/swarm/unlock", json: types.SwarmUnlock{UnlockKey: key}}, nil)
}

// SwarmUnlockKey returns the key for SwarmUnlock, empty if managers are not locked.
func (c *Client) SwarmUnlockKey(ctx context.Context) (string, error) {
	var out types.SwarmUnlockKey
	err := c.call(ctx, request{method: http.MethodGet, path: "/swarm/unlockkey"}, &out)
	return out.UnlockKey, err
}

func versionQuery(version types.ObjectVersion) url.Values {
	return url.Values{"version": {strconv.FormatUint(version.Index, 10)}}
}
