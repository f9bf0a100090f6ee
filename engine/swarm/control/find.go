package control

import (
	"context"
	"strconv"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/route"
	"moss/engine/fault"
)

// findOne finds an object by its id, its name, or the beginning of its id, in this order. fault.NotFound for none and
// fault.Conflict for several.
func findOne[T any](
	kind, ref string, get func() (T, error), list func(names, prefixes []string) ([]T, error),
) (found T, err error) {
	if ref == "" {
		return found, fault.Invalid("want the name or the id of a %s", kind)
	}
	if found, err = get(); err == nil || !isMissing(err) {
		return found, err
	}
	candidates, err := list([]string{ref}, nil)
	if err == nil && len(candidates) == 0 {
		candidates, err = list(nil, []string{ref})
	}
	switch {
	case err != nil:
		return found, err
	case len(candidates) == 0:
		return found, fault.NotFound("%s %s not found", kind, ref)
	case len(candidates) > 1:
		return found, fault.Conflict("%s %s is ambiguous (%d matches found)", kind, ref, len(candidates))
	}
	return candidates[0], nil
}

func findNode(ctx context.Context, managers api.ControlClient, ref string) (*api.Node, error) {
	return findOne("node", ref,
		func() (*api.Node, error) {
			answer, err := managers.GetNode(ctx, &api.GetNodeRequest{NodeID: ref})
			if err != nil {
				return nil, err
			}
			return answer.Node, nil
		},
		func(names, prefixes []string) ([]*api.Node, error) {
			answer, err := managers.ListNodes(ctx, &api.ListNodesRequest{
				Filters: &api.ListNodesRequest_Filters{Names: names, IDPrefixes: prefixes},
			})
			if err != nil {
				return nil, err
			}
			return answer.Nodes, nil
		})
}

func findService(ctx context.Context, managers api.ControlClient, ref string) (*api.Service, error) {
	return findOne("service", ref,
		func() (*api.Service, error) {
			answer, err := managers.GetService(ctx, &api.GetServiceRequest{ServiceID: ref})
			if err != nil {
				return nil, err
			}
			return answer.Service, nil
		},
		func(names, prefixes []string) ([]*api.Service, error) {
			answer, err := managers.ListServices(ctx, &api.ListServicesRequest{
				Filters: &api.ListServicesRequest_Filters{Names: names, IDPrefixes: prefixes},
			})
			if err != nil {
				return nil, err
			}
			return answer.Services, nil
		})
}

func findTask(ctx context.Context, managers api.ControlClient, ref string) (*api.Task, error) {
	return findOne("task", ref,
		func() (*api.Task, error) {
			answer, err := managers.GetTask(ctx, &api.GetTaskRequest{TaskID: ref})
			if err != nil {
				return nil, err
			}
			return answer.Task, nil
		},
		func(names, prefixes []string) ([]*api.Task, error) {
			answer, err := managers.ListTasks(ctx, &api.ListTasksRequest{
				Filters: &api.ListTasksRequest_Filters{Names: names, IDPrefixes: prefixes},
			})
			if err != nil {
				return nil, err
			}
			return answer.Tasks, nil
		})
}

// findCluster returns the one swarm of the managers.
func findCluster(ctx context.Context, managers api.ControlClient) (*api.Cluster, error) {
	answer, err := managers.ListClusters(ctx, &api.ListClustersRequest{})
	if err != nil {
		return nil, err
	}
	if len(answer.Clusters) != 1 {
		return nil, fault.Unavailable("the swarm is being made: its managers know no settings of it yet")
	}
	return answer.Clusters[0], nil
}

// readVersion reads the version of the object that a change is made from.
func readVersion(c *route.Call) (*api.Version, error) {
	text := c.Text("version")
	index, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fault.Invalid("version: invalid value %q: want the number that the object shows as Version.Index", text)
	}
	return &api.Version{Index: index}, nil
}
