package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/types"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/show"
	"moss/engine/logdriver"
)

type networkListFlags struct {
	quiet, full bool
	filters     []string
	format      string
}

func (a *app) networkListCommand() *cobra.Command {
	var flags networkListFlags
	cmd := &cobra.Command{
		Use:     "ls [flags]",
		Aliases: []string{"list"},
		Short:   "List networks",
		Example: "  moss network ls --filter type=custom --format '{{.Name}}: {{.Subnets}}'",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filters, err := arg.Filters(flags.filters)
			if err != nil {
				return usageError(cmd, err)
			}
			return a.listNetworks(cmd.Context(), filters, flags)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&flags.quiet, "quiet", "q", false, "show ids only")
	set.BoolVar(&flags.full, "no-trunc", false, "do not truncate output")
	set.StringArrayVarP(&flags.filters, "filter", "f", nil,
		"filter by `KEY=VALUE`: dangling, driver, id, label, name, scope (local, swarm), type (custom, builtin)")
	set.StringVar(&flags.format, "format", "", "a Go template, 'table TEMPLATE' or json")
	return cmd
}

func (a *app) listNetworks(ctx context.Context, filters map[string][]string, flags networkListFlags) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	list, err := engine.NetworkList(ctx, filters)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b types.Network) int { return strings.Compare(a.Name, b.Name) })
	format := flags.format
	if flags.quiet && format == "" {
		format = "{{.ID}}"
	}
	rows := make([]show.Row, 0, len(list))
	for _, network := range list {
		rows = append(rows, networkRow(network, flags.full))
	}
	columns := []show.Column{
		{Field: "ID", Title: "NETWORK ID", Keep: true},
		{Field: "Name", Title: "NAME", Keep: true},
		{Field: "Driver", Title: "DRIVER"},
		{Field: "Scope", Title: "SCOPE"},
	}
	titles := map[string]string{
		"IPv6": "IPV6", "Internal": "INTERNAL", "Labels": "LABELS", "CreatedAt": "CREATED AT", "Subnets": "SUBNETS",
	}
	return a.tableView(flags.full).Table(a.stdout, format, columns, titles, rows)
}

// timeText writes a time as the engine does; empty for one that it does not tell.
func timeText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Format(time.RFC3339Nano)
}

func networkRow(network types.Network, full bool) show.Row {
	subnets := make([]string, 0, len(network.IPAM.Config))
	for _, pool := range network.IPAM.Config {
		subnets = append(subnets, pool.Subnet)
	}
	row := show.Row{
		"ID": shortenID(network.ID, full), "Name": network.Name, "Driver": network.Driver, "Scope": network.Scope,
		"IPv6": strconv.FormatBool(network.EnableIPv6), "Internal": strconv.FormatBool(network.Internal),
		"CreatedAt": timeText(network.Created), "Labels": pairText(network.Labels), "Subnets": strings.Join(subnets, ","),
	}
	row.SetLabels(network.Labels)
	return row
}

// completeCreateFlags offers names for the values of flags of run and create.
func (a *app) completeCreateFlags(cmd *cobra.Command) {
	// The flags exist and have no other completion, so this cannot fail.
	_ = cmd.RegisterFlagCompletionFunc("network", a.completeLocalNetworks(-1))
	_ = cmd.RegisterFlagCompletionFunc("link", a.completeContainers(true, -1))
	_ = cmd.RegisterFlagCompletionFunc("volumes-from", a.completeContainers(true, -1))
	_ = cmd.RegisterFlagCompletionFunc("log-driver", cobra.FixedCompletions(logdriver.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("log-opt", completeLogOptions)
}

// completeNetworkThenContainer offers names of networks for the first argument, of containers for the second.
func (a *app) completeNetworkThenContainer(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeLocalNetworks(1)(cmd, args, prefix)
	}
	return a.completeContainers(true, 2)(cmd, args, prefix)
}
