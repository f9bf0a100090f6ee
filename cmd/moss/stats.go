package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/meter"
	"moss/cmd/moss/show"
)

type statsFlags struct {
	all, noStream, full bool
	format              string
}

func (a *app) statsCommand() *cobra.Command {
	var flags statsFlags
	cmd := &cobra.Command{
		Use:               "stats [flags] [CONTAINER...]",
		Short:             "Show live resource usage of containers",
		Long:              "Show live resource usage of the named containers, or of all running ones.",
		Example:           "  moss stats\n  moss stats --no-stream --format json web",
		Args:              requireArgs(0, -1),
		ValidArgsFunction: a.completeContainers(false, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.format != "" {
				// A template that is wrong is known before anything is measured.
				if err := (show.View{}).Table(discard{}, flags.format, nil, nil, nil); err != nil {
					return usageError(cmd, err)
				}
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			if flags.noStream {
				return a.statsOnce(cmd.Context(), engine, args, flags)
			}
			return a.statsLive(cmd.Context(), engine, args, flags)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&flags.all, "all", "a", false, "show all, not only running ones")
	set.BoolVar(&flags.noStream, "no-stream", false, "show one result and exit")
	set.BoolVar(&flags.full, "no-trunc", false, "do not truncate output")
	set.StringVar(&flags.format, "format", "", "a Go template, 'table TEMPLATE' or json")
	return cmd
}

// discard is where a format is tried.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// measured is a container and what is known of its use.
type measured struct {
	id, name, ref string // ref is what it was called by
	stop          context.CancelFunc

	mu      sync.Mutex // guards the fields below and name
	reading meter.Reading
	known   bool
}

// setReading notes a reading.
func (m *measured) setReading(reading meter.Reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reading, m.known = reading, true
}

// statsOnce measures all containers at once and shows them in their order.
func (a *app) statsOnce(ctx context.Context, engine *client.Client, refs []string, flags statsFlags) error {
	list, err := a.toMeasure(ctx, engine, refs, flags.all)
	if err != nil {
		return err
	}
	failed := make([]error, len(list))
	var group sync.WaitGroup
	for i, m := range list {
		group.Go(func() {
			failed[i] = engine.ContainerStats(ctx, m.id, false, func(sample types.Stats) error {
				m.setReading(meter.Read(sample, nil))
				return nil
			})
		})
	}
	group.Wait()
	shown := make([]*measured, 0, len(list))
	for i, m := range list {
		if failed[i] == nil {
			shown = append(shown, m)
		}
	}
	rows := statsRows(shown, flags.full)
	if err := a.tableView(flags.full).Table(a.stdout, flags.format, statsColumns(), statsTitles(), rows); err != nil {
		return err
	}
	bad := false
	for _, err := range failed {
		if err != nil && (len(refs) > 0 || client.StatusOf(err) != statusNotFound) {
			a.printError(err)
			bad = true
		}
	}
	if bad {
		return &exit{code: exitFailed}
	}
	return nil
}

// toMeasure looks up the named containers, or lists those there are.
func (a *app) toMeasure(ctx context.Context, engine *client.Client, refs []string, all bool) ([]*measured, error) {
	if len(refs) == 0 {
		found, err := engine.Containers(ctx, client.ContainersOptions{All: all})
		if err != nil {
			return nil, err
		}
		list := make([]*measured, 0, len(found))
		for _, ctr := range found {
			list = append(list, &measured{id: ctr.ID, name: nameText(ctr.Names, false), ref: ctr.ID})
		}
		return list, nil
	}
	list := make([]*measured, 0, len(refs))
	var failed []error
	for _, ref := range refs {
		ctr, err := engine.ContainerInspect(ctx, ref, false)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		list = append(list, &measured{id: ctr.ID, name: strings.TrimPrefix(ctr.Name, "/"), ref: ref})
	}
	return list, errors.Join(failed...)
}

func statsColumns() []show.Column {
	return []show.Column{
		{Field: "ID", Title: "CONTAINER ID", Keep: true},
		{Field: "Name", Title: "NAME", Keep: true},
		{Field: "CPUPerc", Title: "CPU %"},
		{Field: "MemUsage", Title: "MEM USAGE / LIMIT"},
		{Field: "MemPerc", Title: "MEM %"},
		{Field: "NetIO", Title: "NET I/O"},
		{Field: "BlockIO", Title: "BLOCK I/O"},
		{Field: "PIDs", Title: "PIDS"},
	}
}

func statsTitles() map[string]string { return map[string]string{"Container": "CONTAINER"} }

func statsRows(list []*measured, full bool) []show.Row {
	rows := make([]show.Row, 0, len(list))
	for _, m := range list {
		rows = append(rows, m.statsRow(full))
	}
	return rows
}

// statsRow shows a container; what is not known yet is a dash.
func (m *measured) statsRow(full bool) show.Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := show.Row{
		"ID": shortenID(m.id, full), "Name": m.name, "Container": m.ref,
		"CPUPerc": "--", "MemUsage": "-- / --", "MemPerc": "--", "NetIO": "-- / --", "BlockIO": "-- / --", "PIDs": "--",
	}
	if !m.known {
		return row
	}
	r := m.reading
	row["CPUPerc"], row["MemPerc"] = percentText(r.CPU), percentText(r.MemoryPercent)
	row["MemUsage"] = show.Binary(r.Memory) + " / " + show.Binary(r.Limit)
	row["NetIO"] = show.Size(toInt64(r.Received)) + " / " + show.Size(toInt64(r.Sent))
	row["BlockIO"] = show.Size(toInt64(r.Loaded)) + " / " + show.Size(toInt64(r.Written))
	if !r.ProcessesUnknown {
		row["PIDs"] = strconv.FormatUint(r.Processes, 10)
	}
	return row
}

func percentText(value float64) string { return fmt.Sprintf("%.2f%%", value) }

func toInt64(value uint64) int64 { return int64(min(value, math.MaxInt64)) }
