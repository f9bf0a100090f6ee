package control

import (
	"context"
	"net/http"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/route"
	"moss/engine/fault"
	"moss/engine/filter"
	"moss/engine/swarm/object"
)

func (s *server) listTasks(c *route.Call) error {
	tasks, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) ([]*api.Task, error) {
		f, err := readFilters(c, "_up-to-date", "desired-state", "id", "label", "name", "node", "service")
		if err != nil {
			return nil, err
		}
		filters, err := readTaskFilters(ctx, managers, f)
		if err != nil {
			return nil, err
		}
		answer, err := managers.ListTasks(ctx, &api.ListTasksRequest{Filters: filters})
		if err != nil {
			return nil, err
		}
		return keepLabelled(answer.Tasks, f["label"], func(t *api.Task) map[string]string { return t.ServiceAnnotations.Labels }), nil
	})
	if err != nil {
		return err
	}
	return replyList(c, tasks, object.NewTask)
}

// readTaskFilters reads all filters but labels. Services and nodes are found by id or name; fault.NotFound for one that is not
// there.
func readTaskFilters(
	ctx context.Context, managers api.ControlClient, f map[string][]string,
) (*api.ListTasksRequest_Filters, error) {
	filters := &api.ListTasksRequest_Filters{IDPrefixes: f["id"], NamePrefixes: f["name"]}
	for _, ref := range f["service"] {
		service, err := findService(ctx, managers, ref)
		if err != nil {
			return nil, err
		}
		filters.ServiceIDs = append(filters.ServiceIDs, service.ID)
	}
	for _, ref := range f["node"] {
		node, err := findNode(ctx, managers, ref)
		if err != nil {
			return nil, err
		}
		filters.NodeIDs = append(filters.NodeIDs, node.ID)
	}
	for _, text := range f["desired-state"] {
		state, ok := object.ToTaskState(text)
		if !ok {
			return nil, fault.Invalid("Invalid desired-state filter: '%s'", text)
		}
		filters.DesiredStates = append(filters.DesiredStates, state)
	}
	upToDate, err := filter.Bool("_up-to-date", f["_up-to-date"])
	if err != nil {
		return nil, err
	}
	filters.UpToDate = upToDate != nil && *upToDate
	return filters, nil
}

func (s *server) inspectTask(c *route.Call) error {
	task, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) (*api.Task, error) {
		return findTask(ctx, managers, c.Param("id"))
	})
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, object.NewTask(task))
}
