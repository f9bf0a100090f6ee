package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/show"
)

// Bounds of search: what the API takes as a limit, and the signs of a description that a table shows.
const (
	mostResults        = 100
	longestDescription = 45
)

type searchFlags struct {
	full    bool
	limit   int
	filters []string
	format  string
}

func (a *app) searchCommand() *cobra.Command {
	var flags searchFlags
	cmd := &cobra.Command{
		Use:     "search [flags] TERM",
		Short:   "Search a registry for images",
		Long:    "Search a registry for images. TERM may begin with the registry's host; without one docker.io is asked.",
		Example: "  moss search --filter is-official=true --limit 5 busybox",
		Args:    requireArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filters, err := arg.Filters(flags.filters)
			if err == nil && (flags.limit < 0 || flags.limit > mostResults) {
				err = fmt.Errorf("limit %d: want 1 to %d", flags.limit, mostResults)
			}
			if err != nil {
				return usageError(cmd, err)
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			found, err := engine.ImageSearch(ctx, client.SearchOptions{
				Term: args[0], Limit: flags.limit, Filters: filters, Auth: a.authOfImage(ctx, args[0]),
			})
			if err != nil {
				return err
			}
			return a.showFound(found, flags)
		},
	}
	set := cmd.Flags()
	set.IntVar(&flags.limit, "limit", 0, "show at most `N`, 1 to 100 (default 25)")
	set.BoolVar(&flags.full, "no-trunc", false, "do not truncate output")
	set.StringArrayVarP(&flags.filters, "filter", "f", nil, "filter by `KEY=VALUE`: stars, is-official, is-automated")
	set.StringVar(&flags.format, "format", "", "a Go template, 'table TEMPLATE' or json")
	return cmd
}

func (a *app) showFound(found []types.SearchResult, flags searchFlags) error {
	slices.SortStableFunc(found, func(a, b types.SearchResult) int { return cmp.Compare(b.Stars, a.Stars) })
	rows := make([]show.Row, 0, len(found))
	for _, result := range found {
		text := strings.Join(strings.Fields(result.Description), " ")
		if !flags.full {
			text = show.Shorten(text, longestDescription)
		}
		rows = append(rows, show.Row{
			"Name": result.Name, "Description": text, "StarCount": strconv.Itoa(result.Stars),
			"IsOfficial": yesText(result.Official, flags.format), "IsAutomated": yesText(result.Automated, flags.format),
		})
	}
	columns := []show.Column{
		{Field: "Name", Title: "NAME", Keep: true},
		{Field: "Description", Title: "DESCRIPTION"},
		{Field: "StarCount", Title: "STARS"},
		{Field: "IsOfficial", Title: "OFFICIAL"},
	}
	return a.tableView(flags.full).Table(a.stdout, flags.format, columns, map[string]string{"IsAutomated": "AUTOMATED"}, rows)
}

// yesText writes a yes as people read it in a table, and as programs do in JSON.
func yesText(yes bool, format string) string {
	switch {
	case format == "json":
		return strconv.FormatBool(yes)
	case yes:
		return "[OK]"
	default:
		return ""
	}
}
