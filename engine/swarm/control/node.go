package control

import (
	"context"
	"net/http"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/route"
	"moss/api/types"
	"moss/engine/swarm/object"
)

func (s *server) listNodes(c *route.Call) error {
	nodes, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) ([]*api.Node, error) {
		f, err := readFilters(c, "id", "label", "membership", "name", "node.label", "role")
		if err != nil {
			return nil, err
		}
		filters := &api.ListNodesRequest_Filters{IDPrefixes: f["id"], NamePrefixes: f["name"]}
		if filters.Roles, err = readOptions("role", f["role"], object.ToRole); err != nil {
			return nil, err
		}
		if filters.Memberships, err = readOptions("membership", f["membership"], object.ToMembership); err != nil {
			return nil, err
		}
		answer, err := managers.ListNodes(ctx, &api.ListNodesRequest{Filters: filters})
		if err != nil {
			return nil, err
		}
		nodes := keepLabelled(answer.Nodes, f["label"], labelsOfEngine)
		return keepLabelled(nodes, f["node.label"], func(n *api.Node) map[string]string { return n.Spec.Annotations.Labels }), nil
	})
	if err != nil {
		return err
	}
	return replyList(c, nodes, object.NewNode)
}

func labelsOfEngine(n *api.Node) map[string]string { return object.EngineLabels(n.Description) }

func (s *server) inspectNode(c *route.Call) error {
	node, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) (*api.Node, error) {
		return findNode(ctx, managers, c.Param("id"))
	})
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, object.NewNode(node))
}

func (s *server) updateNode(c *route.Call) error {
	changed, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) (*api.UpdateNodeResponse, error) {
		version, err := readVersion(c)
		if err != nil {
			return nil, err
		}
		body := &types.NodeSpec{}
		if err := decodeBody(c, body); err != nil {
			return nil, err
		}
		node, err := findNode(ctx, managers, c.Param("id"))
		if err != nil {
			return nil, err
		}
		spec := node.Spec.Copy() // with what clients do not see
		if err := object.ChangeNode(spec, body); err != nil {
			return nil, err
		}
		if err := checkSize(spec.Size()); err != nil {
			return nil, err
		}
		return managers.UpdateNode(ctx, &api.UpdateNodeRequest{NodeID: node.ID, NodeVersion: version, Spec: spec})
	})
	if err == nil {
		s.log.Info().Str("node", changed.Node.ID).Msg("node updated")
	}
	return c.Empty(err)
}

func (s *server) removeNode(c *route.Call) error {
	id, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) (string, error) {
		node, err := findNode(ctx, managers, c.Param("id"))
		if err != nil {
			return "", err
		}
		_, err = managers.RemoveNode(ctx, &api.RemoveNodeRequest{NodeID: node.ID, Force: c.Bool("force")})
		return node.ID, err
	})
	if err == nil {
		s.log.Info().Str("node", id).Msg("node removed")
	}
	return c.Empty(err)
}
