package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/rollout"
	"moss/cmd/moss/show"
)

// swarmListFlags are the flags of lists of the swarm's objects.
type swarmListFlags struct {
	quiet, full bool
	filters     []string
	format      string
}

func (f *swarmListFlags) registerFlags(cmd *cobra.Command, keys string, full bool) {
	set := cmd.Flags()
	set.BoolVarP(&f.quiet, "quiet", "q", false, "show ids only")
	if full {
		set.BoolVar(&f.full, "no-trunc", false, "do not truncate output")
	}
	set.StringArrayVarP(&f.filters, "filter", "f", nil, "filter by `KEY=VALUE`: "+keys)
	set.StringVar(&f.format, "format", "", "a Go template, 'table TEMPLATE' or json")
}

// rowFormat returns the format of the rows.
func (f *swarmListFlags) rowFormat() string {
	if f.quiet && f.format == "" {
		return "{{.ID}}"
	}
	return f.format
}

func (a *app) serviceListCommand() *cobra.Command {
	var flags swarmListFlags
	cmd := &cobra.Command{
		Use:     "ls [flags]",
		Aliases: []string{"list"},
		Short:   "List services",
		Example: "  moss service ls --filter label=stage=test",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filters, err := arg.Filters(flags.filters)
			if err != nil {
				return usageError(cmd, err)
			}
			return a.listServices(cmd.Context(), filters, flags)
		},
	}
	flags.registerFlags(cmd, "id, label, mode (replicated, global), name", true)
	return cmd
}

func (a *app) listServices(ctx context.Context, filters map[string][]string, flags swarmListFlags) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	modes := filters["mode"] // the API has no such filter
	delete(filters, "mode")
	list, err := engine.ServiceList(ctx, filters)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(s types.Service) bool { return len(modes) > 0 && !slices.Contains(modes, modeOf(s)) })
	slices.SortStableFunc(list, func(a, b types.Service) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	count, err := countTasks(ctx, engine, len(list) > 0 && (!flags.quiet || flags.format != ""))
	if err != nil {
		return err
	}
	rows := make([]show.Row, 0, len(list))
	for _, service := range list {
		row := show.Row{
			"ID": shortenID(service.ID, flags.full), "Name": service.Spec.Name, "Mode": modeOf(service), "Replicas": count(service),
			"Image": imageText(service.Spec.TaskTemplate.ContainerSpec.Image, flags.full), "Ports": servicePorts(service.Endpoint.Ports),
			"Labels": pairText(service.Spec.Labels), "CreatedAt": timeText(service.CreatedAt), "UpdatedAt": timeText(service.UpdatedAt),
		}
		row.SetLabels(service.Spec.Labels)
		rows = append(rows, row)
	}
	columns := []show.Column{
		{Field: "ID", Title: "ID", Keep: true},
		{Field: "Name", Title: "NAME", Keep: true},
		{Field: "Mode", Title: "MODE"},
		{Field: "Replicas", Title: "REPLICAS"},
		{Field: "Image", Title: "IMAGE"},
		{Field: "Ports", Title: "PORTS"},
	}
	titles := map[string]string{"Labels": "LABELS", "CreatedAt": "CREATED AT", "UpdatedAt": "UPDATED AT"}
	return a.tableView(flags.full).Table(a.stdout, flags.rowFormat(), columns, titles, rows)
}

func modeOf(service types.Service) string {
	if service.Spec.Mode.Global != nil {
		return "global"
	}
	return "replicated"
}

// countTasks returns how to tell the running tasks of services: "2/3". Nobody is asked where it is not needed.
func countTasks(ctx context.Context, engine *client.Client, needed bool) (func(types.Service) string, error) {
	if !needed {
		return func(types.Service) string { return "" }, nil
	}
	tasks, err := engine.TaskList(ctx, nil)
	if err != nil {
		return nil, err
	}
	nodes, err := engine.NodeList(ctx, nil)
	if err != nil {
		return nil, err
	}
	up := func(id string) bool {
		return slices.ContainsFunc(nodes, func(n types.Node) bool { return n.ID == id && n.Status.State != nodeDown })
	}
	return func(service types.Service) string {
		running, wanted := rollout.Count(service, tasks, up)
		return fmt.Sprintf("%d/%d", running, wanted)
	}, nil
}

// imageText leaves out the digest of a name that has a tag as well.
func imageText(image string, full bool) string {
	name, _, digest := strings.Cut(image, "@")
	if _, tag := splitTag(name); full || !digest || tag == "" {
		return image
	}
	return name
}
