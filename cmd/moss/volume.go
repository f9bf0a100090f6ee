package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/show"
)

func (a *app) volumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "volume COMMAND",
		Short:   "Manage volumes",
		Example: "  moss volume create data\n  moss run -v data:/data busybox touch /data/here",
		Args:    requireArgs(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.volumeCreateCommand(), a.volumeListCommand(), a.volumeInspectCommand(), a.volumeRemoveCommand(),
		a.volumeExistsCommand(), a.volumePruneCommand())
	return cmd
}

func (a *app) volumeCreateCommand() *cobra.Command {
	var body types.VolumeCreate
	var labels, options []string
	cmd := &cobra.Command{
		Use:     "create [flags] [NAME]",
		Short:   "Create a volume",
		Example: "  moss volume create --label stage=test data",
		Args:    requireArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				body.Name = args[0]
			}
			var err error
			if body.DriverOpts, err = arg.Pairs("opt", options); err != nil {
				return usageError(cmd, err)
			}
			for _, text := range labels {
				if body.Labels == nil {
					body.Labels = map[string]string{}
				}
				if err := arg.Labels(body.Labels, text); err != nil {
					return usageError(cmd, err)
				}
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			volume, err := engine.VolumeCreate(cmd.Context(), body)
			if err != nil {
				return err
			}
			return a.printLine(volume.Name)
		},
	}
	cmd.Flags().StringVarP(&body.Driver, "driver", "d", "local", "the volume's driver")
	cmd.Flags().StringArrayVarP(&options, "opt", "o", nil, "set an option of the driver: `KEY=VALUE`")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "set a label: `KEY=VALUE`")
	return cmd
}

type volumeListFlags struct {
	quiet   bool
	filters []string
	format  string
}

func (a *app) volumeListCommand() *cobra.Command {
	var flags volumeListFlags
	cmd := &cobra.Command{
		Use:     "ls [flags]",
		Aliases: []string{"list"},
		Short:   "List volumes",
		Example: "  moss volume ls --filter dangling=true",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filters, err := arg.Filters(flags.filters)
			if err != nil {
				return usageError(cmd, err)
			}
			return a.listVolumes(cmd.Context(), filters, flags)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&flags.quiet, "quiet", "q", false, "show names only")
	set.StringArrayVarP(&flags.filters, "filter", "f", nil, "filter by `KEY=VALUE`: dangling, driver, label, name")
	set.StringVar(&flags.format, "format", "", "a Go template, 'table TEMPLATE' or json")
	return cmd
}

func (a *app) listVolumes(ctx context.Context, filters map[string][]string, flags volumeListFlags) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	list, warnings, err := engine.Volumes(ctx, filters)
	if err != nil {
		return err
	}
	a.printWarnings(warnings)
	slices.SortFunc(list, func(a, b *types.Volume) int { return strings.Compare(a.Name, b.Name) })
	format := flags.format
	if flags.quiet && format == "" {
		format = "{{.Name}}"
	}
	rows := make([]show.Row, 0, len(list))
	for _, volume := range list {
		row := show.Row{
			"Name": volume.Name, "Driver": volume.Driver, "Mountpoint": volume.Mountpoint, "Scope": volume.Scope,
			"Labels": pairText(volume.Labels),
		}
		row.SetLabels(volume.Labels)
		rows = append(rows, row)
	}
	columns := []show.Column{{Field: "Driver", Title: "DRIVER"}, {Field: "Name", Title: "VOLUME NAME", Keep: true}}
	titles := map[string]string{"Mountpoint": "MOUNTPOINT", "Scope": "SCOPE", "Labels": "LABELS"}
	return a.tableView(false).Table(a.stdout, format, columns, titles, rows)
}

func (a *app) volumeInspectCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:               "inspect [flags] VOLUME...",
		Short:             "Show detailed information on volumes",
		Example:           "  moss volume inspect --format '{{.Mountpoint}}' data",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeVolumes(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			return a.showEach(args, format, func(name string) (json.RawMessage, error) {
				return engine.VolumeInspect(cmd.Context(), name)
			})
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", "a Go template for each, or json")
	return cmd
}

func (a *app) volumeRemoveCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:               "rm [flags] VOLUME...",
		Aliases:           []string{"remove"},
		Short:             "Remove one or more volumes that no container uses",
		Example:           "  moss volume rm data",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeVolumes(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.applyToContainers(args, func(engine *client.Client, name string) error {
				err := engine.VolumeRemove(cmd.Context(), name, force)
				if force && client.StatusOf(err) == statusNotFound {
					return nil // gone is what was asked for
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "a missing volume is no error")
	return cmd
}
