package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/show"
)

type listFlags struct {
	all, quiet, full, last, size bool
	limit                        int
	filters                      []string
	format, sort                 string
}

// orders are the keys that lists of containers are sorted by.
var orders = map[string]func(a, b types.ContainerSummary) int{
	"command": func(a, b types.ContainerSummary) int { return cmp.Compare(a.Command, b.Command) },
	"created": func(a, b types.ContainerSummary) int { return cmp.Compare(b.Created, a.Created) },
	"id":      func(a, b types.ContainerSummary) int { return cmp.Compare(a.ID, b.ID) },
	"image":   func(a, b types.ContainerSummary) int { return cmp.Compare(a.Image, b.Image) },
	"names": func(a, b types.ContainerSummary) int {
		return cmp.Compare(nameText(a.Names, false), nameText(b.Names, false))
	},
	"size":   func(a, b types.ContainerSummary) int { return cmp.Compare(shownSize(b.SizeRw), shownSize(a.SizeRw)) },
	"status": func(a, b types.ContainerSummary) int { return cmp.Compare(a.Status, b.Status) },
}

func (a *app) listCommand() *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{
		Use:     "ps [flags]",
		Short:   "List containers",
		Example: "  moss ps -a --filter status=exited --format '{{.Names}}: {{.Status}}'",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filters, err := arg.Filters(flags.filters)
			if err != nil {
				return usageError(cmd, err)
			}
			order, known := orders[flags.sort]
			if !known {
				return usageError(cmd, fmt.Errorf("sort by %q: want one of %s", flags.sort, strings.Join(sortedKeys(orders), ", ")))
			}
			if flags.last && flags.limit <= 0 {
				flags.limit = 1
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			list, err := engine.Containers(cmd.Context(), client.ContainersOptions{
				All: flags.all || flags.limit > 0, Size: flags.size || flags.sort == "size" || strings.Contains(flags.format, ".Size"),
				Limit: flags.limit, Filters: filters,
			})
			if err != nil {
				return err
			}
			slices.SortStableFunc(list, order)
			return a.showContainers(list, flags)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&flags.all, "all", "a", false, "show all, not only running ones")
	set.BoolVarP(&flags.quiet, "quiet", "q", false, "show ids only")
	set.BoolVar(&flags.full, "no-trunc", false, "do not truncate output")
	set.BoolVarP(&flags.last, "latest", "l", false, "show the newest, in any state")
	set.IntVarP(&flags.limit, "last", "n", -1, "show the `N` newest, in any state")
	set.BoolVarP(&flags.size, "size", "s", false, "show sizes on disk")
	set.StringArrayVarP(&flags.filters, "filter", "f", nil,
		"filter by `KEY=VALUE`: status, name, label, ancestor, publish, expose, is-task, …")
	set.StringVar(&flags.sort, "sort", "created", "sort by `KEY`: command, created (newest first), id, image, names, size (largest first) or status")
	set.StringVar(&flags.format, "format", "", "a Go template, 'table TEMPLATE' or json")
	return cmd
}

// leastStatus is how far a terminal that is too narrow shortens a status: "Exited (137) …".
const leastStatus = 14

func (a *app) showContainers(list []types.ContainerSummary, flags listFlags) error {
	if flags.quiet && flags.format == "" {
		for _, ctr := range list {
			if err := a.printLine(shortenID(ctr.ID, flags.full)); err != nil {
				return err
			}
		}
		return nil
	}
	columns := []show.Column{
		{Field: "ID", Title: "CONTAINER ID", Keep: true},
		{Field: "Image", Title: "IMAGE"},
		{Field: "Command", Title: "COMMAND"},
		{Field: "RunningFor", Title: "CREATED"},
		{Field: "Status", Title: "STATUS", Least: leastStatus},
		{Field: "Ports", Title: "PORTS"},
		{Field: "Names", Title: "NAMES", Keep: true},
	}
	titles := map[string]string{
		"Size": "SIZE", "CreatedAt": "CREATED AT", "State": "STATE", "Labels": "LABELS", "Networks": "NETWORKS",
		"Mounts": "MOUNTS",
	}
	if flags.size {
		columns = append(columns, show.Column{Field: "Size", Title: "SIZE"})
	}
	rows := make([]show.Row, 0, len(list))
	now := time.Now()
	for _, ctr := range list {
		rows = append(rows, containerRow(ctr, flags.full, now))
	}
	return a.tableView(flags.full).Table(a.stdout, flags.format, columns, titles, rows)
}

func containerRow(ctr types.ContainerSummary, full bool, now time.Time) show.Row {
	created := time.Unix(ctr.Created, 0)
	command := strconv.Quote(ctr.Command)
	image := ctr.Image
	if !full {
		command = strconv.Quote(show.Shorten(ctr.Command, 20))
		if strings.HasPrefix(image, "sha256:") {
			image = show.ID(image)
		}
	}
	size := show.Size(shownSize(ctr.SizeRw))
	if whole := shownSize(ctr.SizeRootFs); whole > 0 {
		size += " (virtual " + show.Size(whole) + ")"
	}
	mounts := make([]string, 0, len(ctr.Mounts))
	for _, mount := range ctr.Mounts {
		name := cmp.Or(mount.Name, mount.Source)
		if !full {
			name = show.Shorten(name, 15)
		}
		mounts = append(mounts, name)
	}
	row := show.Row{
		"ID":         shortenID(ctr.ID, full),
		"Image":      image,
		"Command":    command,
		"CreatedAt":  created.Format("2006-01-02 15:04:05 -0700 MST"),
		"RunningFor": show.Since(created, now),
		"Status":     ctr.Status,
		"State":      ctr.State,
		"Ports":      portText(ctr.Ports),
		"Names":      nameText(ctr.Names, full),
		"Size":       size,
		"Labels":     pairText(ctr.Labels),
		"Mounts":     strings.Join(mounts, ","),
		"Networks":   strings.Join(networkNames(ctr), ","),
	}
	row.SetLabels(ctr.Labels)
	if colour := stateColour(ctr.State, ctr.Status); colour != "" {
		row.SetColour("Status", colour)
	}
	return row
}

// stateColour is the colour of a state on terminals: none where nothing is to be said of it.
func stateColour(state, status string) show.Colour {
	switch {
	case state == "dead" || strings.HasSuffix(status, "(unhealthy)"):
		return show.Red
	case state == "exited" && !strings.HasPrefix(status, "Exited (0)"):
		return show.Red
	case state == "paused" || state == "restarting":
		return show.Yellow
	case state == "running":
		return show.Green
	}
	return ""
}

// nameText drops the leading slash, and names that links made unless all are asked for.
func nameText(names []string, full bool) string {
	shown := make([]string, 0, len(names))
	for _, name := range names {
		name = strings.TrimPrefix(name, "/")
		if full || !strings.Contains(name, "/") {
			shown = append(shown, name)
		}
	}
	return strings.Join(shown, ",")
}

func pairText(pairs map[string]string) string {
	shown := make([]string, 0, len(pairs))
	for _, key := range sortedKeys(pairs) {
		shown = append(shown, key+"="+pairs[key])
	}
	return strings.Join(shown, ",")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func shortenID(id string, full bool) string {
	if full {
		return id
	}
	return show.ID(id)
}

// shownSize returns a size that the engine has shown, 0 for one that it was not asked for.
func shownSize(size *int64) int64 {
	if size == nil {
		return 0
	}
	return *size
}

func networkNames(ctr types.ContainerSummary) []string {
	if ctr.NetworkSettings == nil {
		return nil
	}
	return sortedKeys(ctr.NetworkSettings.Networks)
}
