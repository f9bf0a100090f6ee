package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/rollout"
	"moss/cmd/moss/show"
)

const taskFilters = "desired-state (running, shutdown, accepted), id, label, name, node"

func (a *app) serviceTasksCommand() *cobra.Command {
	var flags swarmListFlags
	cmd := &cobra.Command{
		Use:               "ps [flags] SERVICE...",
		Short:             "List the tasks of one or more services",
		Example:           "  moss service ps --filter desired-state=running web",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeServices(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filters, err := arg.Filters(flags.filters)
			if err != nil {
				return usageError(cmd, err)
			}
			return a.listTasks(cmd.Context(), filters, flags, func(ctx context.Context, engine *client.Client) (string, []string, error) {
				var ids []string
				for _, ref := range args {
					service, err := inspectService(ctx, engine, ref)
					if err != nil {
						return "", nil, err
					}
					ids = append(ids, service.ID)
				}
				return "service", ids, nil
			})
		},
	}
	flags.registerFlags(cmd, taskFilters, true)
	return cmd
}

func (a *app) nodeTasksCommand() *cobra.Command {
	var flags swarmListFlags
	cmd := &cobra.Command{
		Use:               "ps [flags] [NODE...]",
		Short:             "List the tasks of one or more nodes",
		Long:              "List the tasks of one or more nodes; of this one if none is named.",
		Example:           "  moss node ps --filter desired-state=running self",
		Args:              requireArgs(0, -1),
		ValidArgsFunction: a.completeNodes(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filters, err := arg.Filters(flags.filters)
			if err != nil {
				return usageError(cmd, err)
			}
			if len(args) == 0 {
				args = []string{selfNode}
			}
			return a.listTasks(cmd.Context(), filters, flags, func(ctx context.Context, engine *client.Client) (string, []string, error) {
				var ids []string
				for _, ref := range args {
					node, err := inspectNode(ctx, engine, ref)
					if err != nil {
						return "", nil, err
					}
					ids = append(ids, node.ID)
				}
				return "node", ids, nil
			})
		},
	}
	flags.registerFlags(cmd, taskFilters, true)
	return cmd
}

// listTasks lists the tasks of the objects that of finds: their ids are the values of a filter.
func (a *app) listTasks(
	ctx context.Context, filters map[string][]string, flags swarmListFlags,
	of func(context.Context, *client.Client) (key string, ids []string, err error),
) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	key, ids, err := of(ctx, engine)
	if err != nil {
		return err
	}
	if filters == nil {
		filters = map[string][]string{}
	}
	if len(filters[key]) > 0 {
		return errors.New("the names of the " + key + "s are arguments, not a filter")
	}
	filters[key] = ids
	tasks, err := engine.TaskList(ctx, filters)
	if err != nil {
		return err
	}
	names, err := taskNames(ctx, engine)
	if err != nil {
		return err
	}
	return a.showTasks(tasks, names, flags)
}

// swarmNames are the names of services and of nodes, by id.
type swarmNames struct{ services, nodes map[string]string }

func taskNames(ctx context.Context, engine *client.Client) (swarmNames, error) {
	names := swarmNames{services: map[string]string{}, nodes: map[string]string{}}
	services, err := engine.ServiceList(ctx, nil)
	if err != nil {
		return names, err
	}
	for _, service := range services {
		names.services[service.ID] = service.Spec.Name
	}
	nodes, err := engine.NodeList(ctx, nil)
	for _, node := range nodes {
		names.nodes[node.ID] = cmp.Or(node.Spec.Name, node.Description.Hostname)
	}
	return names, err
}

// nameTask writes a task's name: that of its service with a number or, of a global one, its node.
func (n swarmNames) nameTask(task types.Task) string {
	name := cmp.Or(n.services[task.ServiceID], task.ServiceID)
	if task.Slot != 0 {
		return name + "." + strconv.Itoa(task.Slot)
	}
	return name + "." + cmp.Or(task.NodeID, "?")
}

// mostError is how much of a task's error a table shows, in runes.
const mostError = 30

func (a *app) showTasks(tasks []types.Task, names swarmNames, flags swarmListFlags) error {
	slices.SortStableFunc(tasks, func(a, b types.Task) int {
		return cmp.Or(strings.Compare(names.services[a.ServiceID], names.services[b.ServiceID]), cmp.Compare(a.Slot, b.Slot),
			strings.Compare(ownNode(a), ownNode(b)), b.CreatedAt.Compare(a.CreatedAt))
	})
	now := time.Now()
	rows := make([]show.Row, 0, len(tasks))
	last := ""
	for _, task := range tasks {
		name := names.nameTask(task)
		row := show.Row{
			"ID": shortenID(task.ID, flags.full), "Name": name, "Image": imageText(task.Spec.ContainerSpec.Image, flags.full),
			"Node": cmp.Or(names.nodes[task.NodeID], task.NodeID), "DesiredState": firstUpper(task.DesiredState),
			"CurrentState": stateText(task.Status, now),
			"Error":        errorText(task.Status.Err, flags.full), "Ports": "",
		}
		if name == last && flags.format == "" {
			row["Name"] = `\_ ` + name // one that stood there before
		}
		last = name
		if task.Status.State == rollout.Running && rollout.IsWanted(task) {
			row.SetColour("CurrentState", show.Green)
		} else if task.Status.Err != "" {
			row.SetColour("CurrentState", show.Red)
		}
		rows = append(rows, row)
	}
	columns := []show.Column{
		{Field: "ID", Title: "ID", Keep: true},
		{Field: "Name", Title: "NAME", Keep: true},
		{Field: "Image", Title: "IMAGE"},
		{Field: "Node", Title: "NODE"},
		{Field: "DesiredState", Title: "DESIRED STATE"},
		{Field: "CurrentState", Title: "CURRENT STATE"},
		{Field: "Error", Title: "ERROR"},
		{Field: "Ports", Title: "PORTS"},
	}
	return a.tableView(flags.full).Table(a.stdout, flags.rowFormat(), columns, nil, rows)
}

// ownNode is the node of a task that there is one of on each node.
func ownNode(task types.Task) string {
	if task.Slot != 0 {
		return ""
	}
	return task.NodeID
}

func stateText(status types.TaskStatus, now time.Time) string {
	if status.Timestamp.IsZero() {
		return firstUpper(status.State)
	}
	return firstUpper(status.State) + " " + strings.ToLower(show.Since(status.Timestamp, now))
}

func firstUpper(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func errorText(text string, full bool) string {
	if text == "" {
		return ""
	}
	if !full {
		text = show.Shorten(text, mostError)
	}
	return strconv.Quote(text)
}
