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
	var until string
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
			var err error
			if opts.Since, err = arg.Time(opts.Since, now); err != nil {
				return usageError(cmd, err)
			}
			if until, err = arg.Time(until, now); err != nil {
				return usageError(cmd, err)
			}
			var end *time.Time
			if until != "" {
				at, err := arg.Unix(until)
				if err != nil {
					return usageError(cmd, err)
				}
				if opts.Tail != "all" && opts.Follow {
					return usageError(cmd, errors.New("--until cannot be combined with both --tail and --follow"))
				}
				end = &at
			}
			if len(args) > 1 {
				return a.showContainerLogs(cmd.Context(), args, opts, end)
			}
			return a.showContainerLog(cmd.Context(), args[0], opts, end, a.stdout, a.stderr)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.Follow, "follow", "f", false, "follow the log output")
	flags.StringVarP(&opts.Tail, "tail", "n", "all", "show only the last `N` lines")
	flags.BoolVarP(&opts.Timestamps, "timestamps", "t", false, "show the time of each line")
	flags.BoolVar(&opts.Details, "details", false, "show the labels and variables that the log driver was told to keep")
	flags.StringVar(&opts.Since, "since", "", "show lines from a `TIME` on: a date, Unix seconds or a duration such as 10m")
	flags.StringVar(&until, "until", "", "show lines up to a `TIME`")
	return cmd
}

// showContainerLog shows a container's log, up to a time unless end is nil.
func (a *app) showContainerLog(
	ctx context.Context, ref string, opts client.LogsOptions, end *time.Time, stdout, stderr io.Writer,
) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	// Only the container's own record tells whether its output is framed.
	ctr, err := engine.ContainerInspect(ctx, ref, false)
	if err != nil {
		return err
	}
	if end == nil {
		return a.copyLogs(ctx, ctr, opts, stdout, stderr)
	}
	cut, err := a.cutLogs(&opts, *end, stdout, stderr)
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
	return errors.Join(err, cut.flushLines())
}

// logJourney is how long a line that was written just before the end of time may be on its way.
const logJourney = 500 * time.Millisecond

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

// cutLogs changes options to what a log that ends at a time needs: the engine's API has no such end, so it is asked for
// all lines with their times. What has ended already need not be followed.
func (a *app) cutLogs(opts *client.LogsOptions, end time.Time, stdout, stderr io.Writer) (*lineCut, error) {
	cut := &lineCut{end: end, keepTimes: opts.Timestamps, last: -1}
	cut.stdout, cut.stderr = &lineWriter{cut: cut, out: stdout}, &lineWriter{cut: cut, out: stderr}
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
