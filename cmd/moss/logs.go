package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/arg"
)

func (a *app) logsCommand() *cobra.Command {
	opts := client.LogsOptions{Stdout: true, Stderr: true}
	cmd := &cobra.Command{
		Use:   "logs [flags] CONTAINER...",
		Short: "Show the logs of one or more containers",
		Long: "Show the logs of one or more containers. Of several, each line begins with its container as it was named here; with -f the\n" +
			"lines come as they are written, otherwise one container after the other.",
		Example:           "  moss logs -f --tail 20 web",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeContainers(true, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			now := time.Now()
			for _, text := range []*string{&opts.Since, &opts.Until} {
				var err error
				if *text, err = arg.Time(*text, now); err != nil {
					return usageError(cmd, err)
				}
			}
			if len(args) > 1 {
				return a.showContainerLogs(cmd.Context(), args, opts)
			}
			return a.showContainerLog(cmd.Context(), args[0], opts, a.stdout, a.stderr)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.Follow, "follow", "f", false, "follow the log output")
	flags.StringVarP(&opts.Tail, "tail", "n", "all", "show only the last `N` lines")
	flags.BoolVarP(&opts.Timestamps, "timestamps", "t", false, "show the time of each line")
	flags.BoolVar(&opts.Details, "details", false, "show the labels and variables that the log driver was told to keep")
	flags.StringVar(&opts.Since, "since", "", "show lines from a `TIME` on: a date, Unix seconds or a duration such as 10m")
	flags.StringVar(&opts.Until, "until", "", "show lines up to a `TIME`")
	return cmd
}

// showContainerLog shows a container's log.
func (a *app) showContainerLog(ctx context.Context, ref string, opts client.LogsOptions, stdout, stderr io.Writer) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	// Only the container's own record tells whether its output is framed.
	ctr, err := engine.ContainerInspect(ctx, ref, false)
	if err != nil {
		return err
	}
	return a.copyLogs(ctx, ctr, opts, stdout, stderr)
}

func (a *app) copyLogs(ctx context.Context, ctr client.Inspect, opts client.LogsOptions, stdout, stderr io.Writer) error {
	shown := newFollowed(stdout, stderr, ctr.Config.Tty)
	if opts.Follow && opts.Tail != "all" && opts.Tail != "" {
		if fixed, err := a.fixTail(ctx, ctr, &opts); err != nil || !fixed {
			return errors.Join(err, a.copyLog(ctx, ctr, opts, shown.copyStream))
		}
	}
	show := shown.copyStream
	return a.goOn(ctx, func() error {
		err := a.copyLog(ctx, ctr, opts, show)
		show = shown.resumeLog
		return err
	})
}

func (a *app) copyLog(ctx context.Context, ctr client.Inspect, opts client.LogsOptions, show func(io.Reader) error) error {
	stream, err := a.engine.ContainerLogs(ctx, ctr.ID, opts)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	return show(stream)
}

// fixTail puts a time in the place of a number of lines: a log that is followed again after the end of an engine must begin
// with the same line, while more lines have come. It reports false, and changes nothing, where no time tells the first of the
// lines from the one before it: a program may write many at once.
func (a *app) fixTail(ctx context.Context, ctr client.Inspect, opts *client.LogsOptions) (fixed bool, err error) {
	last, err := arg.Count("tail", opts.Tail)
	if err != nil {
		return false, nil //nolint:nilerr // the engine says what is wrong with it, or knows more
	}
	ask := *opts
	ask.Follow, ask.Timestamps, ask.Details, ask.Tail = false, true, false, strconv.Itoa(last+1)
	var times lineTimes
	if err := a.copyLog(ctx, ctr, ask, newFollowed(&times, &times, ctr.Config.Tty).copyStream); err != nil {
		return false, err
	}
	since, ok := times.startOfLast(last)
	if !ok {
		return false, nil
	}
	if !since.IsZero() {
		opts.Since = arg.Seconds(since)
	}
	opts.Tail = "all"
	return true, nil
}

// lineTimes takes the times out of the lines that are written to it, which begin with them.
type lineTimes struct {
	all  []time.Time
	head []byte // of the present line, as much as a time takes
}

func (l *lineTimes) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		l.head = append(l.head, line[:min(len(line), max(0, len(time.RFC3339Nano)+1-len(l.head)))]...)
		if line[len(line)-1] != '\n' {
			continue
		}
		stamp, _, _ := bytes.Cut(l.head, []byte(" "))
		at, _ := time.Parse(time.RFC3339Nano, string(stamp)) // zero: none
		l.all, l.head = append(l.all, at), l.head[:0]
	}
	return len(p), nil
}

// startOfLast returns from when on a log has its last lines and no others; zero: always. It reports false if there is no such
// time.
func (l *lineTimes) startOfLast(last int) (time.Time, bool) {
	switch {
	case len(l.all) > last+1 || slices.ContainsFunc(l.all, time.Time.IsZero):
		return time.Time{}, false // not one time for each line
	case len(l.all) <= last:
		return time.Time{}, true
	case last == 0:
		return l.all[0].Add(1), true
	}
	since := slices.MinFunc(l.all[1:], time.Time.Compare) // the two streams may be out of order
	return since, l.all[0].Before(since)
}
