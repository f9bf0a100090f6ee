package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/show"
)

// How the API names an image without a tag or a digest.
const (
	none   = "<none>"
	noTag  = "<none>:<none>"
	noHash = "<none>@<none>"
)

type imagesFlags struct {
	all, quiet, full, digests, tree bool
	filters                         []string
	format                          string
}

func (a *app) imagesCommand() *cobra.Command {
	var flags imagesFlags
	cmd := &cobra.Command{
		Use:               "images [flags] [NAME[:TAG]]",
		Short:             "List images",
		Example:           "  moss images --format '{{.Repository}}:{{.Tag}} {{.Size}}'\n  moss images --filter dangling=true -q",
		Args:              requireArgs(0, 1),
		ValidArgsFunction: a.completeImages(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filters, err := arg.Filters(flags.filters)
			if err == nil && flags.tree && (flags.quiet || flags.digests || flags.format != "") {
				err = errors.New("--tree cannot be combined with --quiet, --digests and --format")
			}
			if err != nil {
				return usageError(cmd, err)
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			opts := client.ImagesOptions{All: flags.all, Digests: flags.digests, Filters: filters}
			if len(args) == 1 {
				opts.Name = args[0]
			}
			list, err := engine.Images(cmd.Context(), opts)
			if err != nil {
				return err
			}
			if flags.tree {
				return a.showTree(cmd.Context(), engine, list, flags.full)
			}
			return a.showImages(list, flags)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&flags.all, "all", "a", false, "show intermediate images too")
	set.BoolVarP(&flags.quiet, "quiet", "q", false, "show ids only")
	set.BoolVar(&flags.full, "no-trunc", false, "do not truncate output")
	set.BoolVar(&flags.digests, "digests", false, "show digests")
	set.BoolVar(&flags.tree, "tree", false, "show which images are built on which, and what they share")
	set.StringArrayVarP(&flags.filters, "filter", "f", nil,
		"filter by `KEY=VALUE`: dangling, label, before, since, until, reference")
	set.StringVar(&flags.format, "format", "", "a Go template, 'table TEMPLATE' or json")
	return cmd
}

func (a *app) showImages(list []types.ImageSummary, flags imagesFlags) error {
	if flags.quiet && flags.format == "" {
		for _, image := range list {
			if err := a.printLine(shortenID(image.ID, flags.full)); err != nil {
				return err
			}
		}
		return nil
	}
	columns := []show.Column{{Field: "Repository", Title: "REPOSITORY", Keep: true}, {Field: "Tag", Title: "TAG", Keep: true}}
	titles := map[string]string{"CreatedAt": "CREATED AT", "Digest": "DIGEST", "Labels": "LABELS"}
	if flags.digests {
		columns = append(columns, show.Column{Field: "Digest", Title: "DIGEST"})
	}
	columns = append(columns, show.Column{Field: "ID", Title: "IMAGE ID", Keep: true},
		show.Column{Field: "CreatedSince", Title: "CREATED"}, show.Column{Field: "Size", Title: "SIZE"})
	now := time.Now()
	rows := make([]show.Row, 0, len(list))
	for _, image := range list {
		rows = append(rows, imageRows(image, flags.full, now)...)
	}
	return a.tableView(flags.full).Table(a.stdout, flags.format, columns, titles, rows)
}

// imageRows makes one row for each of an image's names.
func imageRows(image types.ImageSummary, full bool, now time.Time) []show.Row {
	digests := map[string]string{}
	for _, digest := range image.RepoDigests {
		if repo, hash, found := strings.Cut(digest, "@"); found && digest != noHash {
			digests[repo] = hash
		}
	}
	tags := image.RepoTags
	if len(tags) == 0 {
		tags = []string{noTag}
	}
	created := time.Unix(image.Created, 0)
	rows := make([]show.Row, 0, len(tags))
	for _, name := range tags {
		repo, tag := splitTag(name)
		digest := digests[repo]
		if digest == "" {
			digest = none
		}
		rows = append(rows, show.Row{
			"Repository":   repo,
			"Tag":          tag,
			"Digest":       digest,
			"ID":           shortenID(image.ID, full),
			"CreatedAt":    created.Format("2006-01-02 15:04:05 -0700 MST"),
			"CreatedSince": show.Since(created, now),
			"Size":         show.Size(image.Size),
			"Labels":       pairText(image.Labels),
		})
	}
	return rows
}

func (a *app) imageRemoveCommand() *cobra.Command {
	var force, noPrune bool
	var wanted []string
	cmd := &cobra.Command{
		Use:               "rmi [flags] IMAGE...",
		Short:             "Remove one or more images",
		Example:           "  moss rmi busybox:old",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeImages(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			platforms, err := arg.Platforms(wanted...)
			if err != nil {
				return usageError(cmd, err)
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			var failed bool
			for _, ref := range args { // in order: a parent can only go after its children
				removed, err := engine.ImageRemove(cmd.Context(), ref, force, noPrune, platforms...)
				if err != nil && (!force || client.StatusOf(err) != statusNotFound) {
					failed = true
					a.printError(err)
				}
				if err := a.showRemoved(removed); err != nil {
					return err
				}
			}
			if failed {
				return &exit{code: exitFailed}
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "remove images that stopped containers use; a missing one is no error")
	cmd.Flags().StringSliceVar(&wanted, "platform", nil, "want the image for a `PLATFORM`, such as linux/arm64")
	cmd.Flags().BoolVar(&noPrune, "no-prune", false, "keep untagged parents")
	return cmd
}

func (a *app) showRemoved(removed []types.ImageRemoved) error {
	for _, step := range removed {
		text := "Deleted: " + step.Deleted
		if step.Untagged != "" {
			text = "Untagged: " + step.Untagged
		}
		if err := a.printLine(text); err != nil {
			return err
		}
	}
	return nil
}
