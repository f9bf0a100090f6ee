package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/types"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/show"
)

// longestStep is how many signs of a step's command a table shows.
const longestStep = 45

type historyFlags struct {
	full, quiet, human bool
	format, platform   string
}

func (a *app) historyCommand() *cobra.Command {
	var flags historyFlags
	cmd := &cobra.Command{
		Use:               "history [flags] IMAGE",
		Short:             "Show the history of an image",
		Example:           "  moss history --no-trunc --format '{{.CreatedBy}}: {{.Size}}' busybox",
		Args:              requireArgs(1, 1),
		ValidArgsFunction: a.completeImages(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			platforms, err := arg.Platforms(flags.platform)
			if err != nil {
				return usageError(cmd, err)
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			steps, err := engine.ImageHistory(cmd.Context(), args[0], platforms...)
			if err != nil {
				return err
			}
			return a.showHistory(steps, flags)
		},
	}
	set := cmd.Flags()
	// -H is the engine's address elsewhere; after this command it is what it is in other command lines.
	set.StringVar(&a.host, "host", a.host, "engine to talk to: unix:///path or tcp://host:port")
	set.BoolVarP(&flags.human, "human", "H", true, "show sizes and dates for people")
	set.BoolVar(&flags.full, "no-trunc", false, "do not truncate output")
	set.BoolVarP(&flags.quiet, "quiet", "q", false, "show ids only")
	addPlatform(set, &flags.platform)
	set.StringVar(&flags.format, "format", "", "a Go template, 'table TEMPLATE' or json")
	return cmd
}

func (a *app) showHistory(steps []types.ImageHistory, flags historyFlags) error {
	rows := make([]show.Row, 0, len(steps))
	now := time.Now()
	for _, step := range steps {
		rows = append(rows, historyRow(step, flags, now))
	}
	if flags.quiet && flags.format == "" {
		flags.format = "{{.ID}}"
	}
	columns := []show.Column{
		{Field: "ID", Title: "IMAGE", Keep: true},
		{Field: "CreatedSince", Title: "CREATED"},
		{Field: "CreatedBy", Title: "CREATED BY"},
		{Field: "Size", Title: "SIZE"},
		{Field: "Comment", Title: "COMMENT"},
	}
	titles := map[string]string{"CreatedAt": "CREATED AT", "Tags": "TAGS"}
	return a.tableView(flags.full).Table(a.stdout, flags.format, columns, titles, rows)
}

func historyRow(step types.ImageHistory, flags historyFlags, now time.Time) show.Row {
	created := time.Unix(step.Created, 0)
	row := show.Row{
		"ID": shortenID(step.ID, flags.full), "CreatedAt": created.Format(time.RFC3339), "CreatedBy": step.CreatedBy,
		"Comment": step.Comment, "Tags": strings.Join(step.Tags, ","),
		"CreatedSince": show.Since(created, now), "Size": show.Size(step.Size),
	}
	if step.Created <= 0 {
		row["CreatedSince"] = "N/A"
	}
	if !flags.human {
		row["CreatedSince"], row["Size"] = row["CreatedAt"], strconv.FormatInt(step.Size, 10)
	}
	if !flags.full {
		row["CreatedBy"] = show.Shorten(strings.ReplaceAll(step.CreatedBy, "\t", " "), longestStep)
	}
	return row
}
