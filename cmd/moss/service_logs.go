package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/rollout"
)

// Labels of the containers of services.
const (
	labelServiceID   = "com.docker.swarm.service.id"
	labelServiceName = "com.docker.swarm.service.name"
	labelTaskID      = "com.docker.swarm.task.id"
	labelTaskName    = "com.docker.swarm.task.name"
)

func (a *app) serviceLogsCommand() *cobra.Command {
	opts := client.LogsOptions{Stdout: true, Stderr: true}
	var raw, full bool
	cmd := &cobra.Command{
		Use:   "logs [flags] SERVICE|TASK",
		Short: "Show the logs of a service's containers on this node",
		Long: "Show the logs of a service's containers on this node. Those of other nodes are shown there: a message says which\n" +
			"they are. Each line begins with its task.",
		Example:           "  moss service logs -f --tail 20 web",
		Args:              requireArgs(1, 1),
		ValidArgsFunction: a.completeServices(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if opts.Since, err = arg.Time(opts.Since, time.Now()); err != nil {
				return usageError(cmd, err)
			}
			return a.showServiceLogs(cmd.Context(), args[0], opts, taskTitles{raw: raw, full: full})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.Follow, "follow", "f", false, "follow the log output of the containers that there are now")
	flags.StringVarP(&opts.Tail, "tail", "n", "all", "show only the last `N` lines of each container")
	flags.BoolVarP(&opts.Timestamps, "timestamps", "t", false, "show the time of each line")
	flags.BoolVar(&opts.Details, "details", false, "show the labels and variables that the log driver was told to keep")
	flags.StringVar(&opts.Since, "since", "", "show lines from a `TIME` on: a date, Unix seconds or a duration such as 10m")
	flags.BoolVar(&raw, "raw", false, "show the lines without their tasks")
	flags.BoolVar(&full, "no-trunc", false, "do not truncate output")
	return cmd
}

// taskTitles say how lines of logs begin.
type taskTitles struct{ raw, full bool }

func (t taskTitles) titleOf(ctr types.ContainerSummary) string {
	if t.raw {
		return ""
	}
	name := ctr.Labels[labelTaskName]
	place, isTask := strings.CutSuffix(name, "."+ctr.Labels[labelTaskID])
	if !isTask {
		return name
	}
	return place + "." + shortenID(ctr.Labels[labelTaskID], t.full)
}

// showServiceLogs shows the logs of the containers of a service, or of a task, and says which tasks run elsewhere.
func (a *app) showServiceLogs(ctx context.Context, ref string, opts client.LogsOptions, titles taskTitles) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	// Workers know of no services, but their containers say what they are of.
	ofServices := map[string][]string{"label": {labelServiceName}}
	list, err := engine.Containers(ctx, client.ContainersOptions{All: true, Filters: ofServices})
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(ctr types.ContainerSummary) bool { return !isOfService(ctr, ref) })
	slices.SortStableFunc(list, func(a, b types.ContainerSummary) int {
		return strings.Compare(a.Labels[labelTaskName], b.Labels[labelTaskName])
	})
	elsewhere, err := tasksElsewhere(ctx, engine, ref)
	if err != nil && len(list) == 0 {
		return err
	}
	if len(elsewhere) > 0 {
		a.printWarnings([]string{"not on this node, so that their logs are not shown: " + strings.Join(elsewhere, ", ")})
	}
	logs := make([]namedLog, 0, len(list))
	for _, ctr := range list {
		logs = append(logs, namedLog{ref: ctr.ID, name: titles.titleOf(ctr)})
	}
	return a.showNamedLogs(ctx, logs, opts)
}

// isOfService reports whether a container is of a service or of a task, by its name or by the beginning of its id.
func isOfService(ctr types.ContainerSummary, ref string) bool {
	labels := ctr.Labels
	return labels[labelServiceName] == ref || strings.HasPrefix(labels[labelServiceID], ref) ||
		strings.HasPrefix(labels[labelTaskID], ref)
}

// tasksElsewhere names the tasks of a service that run on other nodes, each with its node. Only managers know of them.
func tasksElsewhere(ctx context.Context, engine *client.Client, ref string) ([]string, error) {
	service, err := inspectService(ctx, engine, ref)
	if client.StatusOf(err) == statusNotFound {
		if _, found := engine.TaskInspect(ctx, ref); found == nil {
			return nil, nil // a single task, whose container is here or not
		}
	}
	if err != nil {
		return nil, err
	}
	tasks, err := engine.TaskList(ctx, map[string][]string{"service": {service.ID}})
	if err != nil {
		return nil, err
	}
	info, err := swarmInfo(ctx, engine)
	if err != nil {
		return nil, err
	}
	names, err := taskNames(ctx, engine)
	if err != nil {
		return nil, err
	}
	var elsewhere []string
	for _, task := range tasks {
		if task.NodeID != "" && task.NodeID != info.NodeID && rollout.IsWanted(task) {
			elsewhere = append(elsewhere, fmt.Sprintf("%s (%s)", names.nameTask(task), names.nodes[task.NodeID]))
		}
	}
	slices.Sort(elsewhere)
	return elsewhere, nil
}
