package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/arg"
)

func (a *app) logsCommand() *cobra.Command {
	opts := client.LogsOptions{Stdout: true, Stderr: true}
	var until string
	cmd := &cobra.Command{
		Use:               "logs [flags] CONTAINER",
		Short:             "Show what a container wrote",
		Example:           "  moss logs -f --tail 20 web",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeContainers(true, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			now := time.Now()
			var err error
			if opts.Since, err = arg.Time(opts.Since, now); err != nil {
				return usage(cmd, err)
			}
			if until, err = arg.Time(until, now); err != nil {
				return usage(cmd, err)
			}
			if until == "" {
				return a.logs(cmd.Context(), args[0], opts, nil)
			}
			end, err := arg.Unix(until)
			if err != nil {
				return usage(cmd, err)
			}
			if opts.Tail != "all" && opts.Follow {
				return usage(cmd, errors.New("--until excludes --tail together with --follow"))
			}
			return a.logs(cmd.Context(), args[0], opts, &end)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.Follow, "follow", "f", false, "go on with what is written from now on")
	flags.StringVarP(&opts.Tail, "tail", "n", "all", "show only the last `N` lines")
	flags.BoolVarP(&opts.Timestamps, "timestamps", "t", false, "show the time of each line")
	flags.BoolVar(&opts.Details, "details", false, "show the labels and variables that the log driver was told to keep")
	flags.StringVar(&opts.Since, "since", "", "show lines from a `TIME` on: a date, Unix seconds or a duration such as 10m")
	flags.StringVar(&until, "until", "", "show lines up to a `TIME`")
	return cmd
}

// logs shows a container's log, up to a time unless end is nil.
func (a *app) logs(ctx context.Context, ref string, opts client.LogsOptions, end *time.Time) error {
	engine, err := a.client()
	if err != nil {
		return err
	}
	// Only the container's own record tells whether its output is framed.
	ctr, err := engine.ContainerInspect(ctx, ref, false)
	if err != nil {
		return err
	}
	if end == nil {
		return a.copyLogs(ctx, ctr, opts, a.stdout, a.stderr)
	}
	cut, err := a.cutLogs(&opts, *end)
	if err != nil {
		return err
	}
	if opts.Follow {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(logJourney))
		defer cancel()
	}
	err = a.copyLogs(ctx, ctr, opts, cut.stdout, cut.stderr)
	if errors.Is(err, errLater) || errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return errors.Join(err, cut.finish())
}

// logJourney is how long a line that was written just before the end of time may be on its way.
const logJourney = 500 * time.Millisecond

func (a *app) copyLogs(ctx context.Context, ctr client.Inspect, opts client.LogsOptions, stdout, stderr io.Writer) error {
	stream, err := a.engine.ContainerLogs(ctx, ctr.ID, opts)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	if ctr.Config.Tty {
		return client.Copy(stdout, stream)
	}
	return client.Demux(stdout, stderr, stream)
}

// cutLogs changes options to what a log that ends at a time needs: the engine's API has no such end, so it is asked for
// all lines with their times. What has ended already need not be followed.
func (a *app) cutLogs(opts *client.LogsOptions, end time.Time) (*lineCut, error) {
	cut := &lineCut{end: end, keepTimes: opts.Timestamps, last: -1}
	cut.stdout, cut.stderr = &lineWriter{cut: cut, out: a.stdout}, &lineWriter{cut: cut, out: a.stderr}
	if opts.Tail != "all" && opts.Tail != "" {
		var err error
		if cut.last, err = arg.Count("tail", opts.Tail); err != nil {
			return nil, err
		}
	}
	opts.Timestamps, opts.Tail = true, "all"
	opts.Follow = opts.Follow && end.After(time.Now())
	return cut, nil
}
