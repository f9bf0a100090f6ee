package main

import (
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/arg"
)

func (a *app) logsCommand() *cobra.Command {
	opts := client.LogsOptions{Stdout: true, Stderr: true}
	cmd := &cobra.Command{
		Use:               "logs [flags] CONTAINER",
		Short:             "Show what a container wrote",
		Example:           "  moss logs -f --tail 20 web",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeContainers(true, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			since, err := arg.Time(opts.Since, time.Now())
			if err != nil {
				return usage(cmd, err)
			}
			opts.Since = since
			engine, err := a.client()
			if err != nil {
				return err
			}
			// Only the container's own record tells whether its output is framed.
			ctr, err := engine.ContainerInspect(cmd.Context(), args[0], false)
			if err != nil {
				return err
			}
			stream, err := engine.ContainerLogs(cmd.Context(), ctr.ID, opts)
			if err != nil {
				return err
			}
			defer func() { _ = stream.Close() }()
			if ctr.Config.Tty {
				return client.Copy(a.stdout, stream)
			}
			return client.Demux(a.stdout, a.stderr, stream)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.Follow, "follow", "f", false, "go on with what is written from now on")
	flags.StringVarP(&opts.Tail, "tail", "n", "all", "show only the last `N` lines")
	flags.BoolVarP(&opts.Timestamps, "timestamps", "t", false, "show the time of each line")
	flags.BoolVar(&opts.Details, "details", false, "show the labels and variables that the log driver was told to keep")
	flags.StringVar(&opts.Since, "since", "", "show lines from a `TIME` on: a date, Unix seconds or a duration such as 10m")
	return cmd
}
