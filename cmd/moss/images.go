package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
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
	all, quiet, full, digests bool
	filters                   []string
	format                    string
}

func (a *app) imagesCommand() *cobra.Command {
	var flags imagesFlags
	cmd := &cobra.Command{
		Use:               "images [flags] [NAME[:TAG]]",
		Short:             "List images",
		Example:           "  moss images --format '{{.Repository}}:{{.Tag}} {{.Size}}'",
		Args:              arguments(0, 1),
		ValidArgsFunction: a.completeImages(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filters, err := arg.Filters(flags.filters)
			if err != nil {
				return usage(cmd, err)
			}
			engine, err := a.client()
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
			return a.showImages(list, flags)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&flags.all, "all", "a", false, "show intermediate images too")
	set.BoolVarP(&flags.quiet, "quiet", "q", false, "show ids only")
	set.BoolVar(&flags.full, "no-trunc", false, "do not shorten")
	set.BoolVar(&flags.digests, "digests", false, "show digests")
	set.StringArrayVarP(&flags.filters, "filter", "f", nil, "show those with `KEY=VALUE`: dangling, label, …")
	set.StringVar(&flags.format, "format", "", "a Go template, 'table TEMPLATE' or json")
	return cmd
}

func (a *app) showImages(list []client.Image, flags imagesFlags) error {
	if flags.quiet && flags.format == "" {
		for _, image := range list {
			if err := a.print(shorten(image.ID, flags.full)); err != nil {
				return err
			}
		}
		return nil
	}
	columns := []show.Column{{Field: "Repository", Title: "REPOSITORY"}, {Field: "Tag", Title: "TAG"}}
	titles := map[string]string{"CreatedAt": "CREATED AT", "Digest": "DIGEST", "Labels": "LABELS"}
	if flags.digests {
		columns = append(columns, show.Column{Field: "Digest", Title: "DIGEST"})
	}
	columns = append(columns, show.Column{Field: "ID", Title: "IMAGE ID"},
		show.Column{Field: "CreatedSince", Title: "CREATED"}, show.Column{Field: "Size", Title: "SIZE"})
	now := time.Now()
	rows := make([]show.Row, 0, len(list))
	for _, image := range list {
		rows = append(rows, imageRows(image, flags.full, now)...)
	}
	return show.Table(a.stdout, flags.format, columns, titles, rows)
}

// imageRows makes one row for each of an image's names.
func imageRows(image client.Image, full bool, now time.Time) []show.Row {
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
			"ID":           shorten(image.ID, full),
			"CreatedAt":    created.Format("2006-01-02 15:04:05 -0700 MST"),
			"CreatedSince": show.Ago(now.Sub(created)) + " ago",
			"Size":         show.Size(image.Size),
			"Labels":       pairText(image.Labels),
		})
	}
	return rows
}

// splitTag cuts a name at the colon of its tag, not at that of a registry's port.
func splitTag(name string) (repo, tag string) {
	colon := strings.LastIndexByte(name, ':')
	if colon < 0 || strings.Contains(name[colon:], "/") {
		return name, ""
	}
	return name[:colon], name[colon+1:]
}

func (a *app) imageRemoveCommand() *cobra.Command {
	var force, noPrune bool
	cmd := &cobra.Command{
		Use:               "rmi [flags] IMAGE...",
		Short:             "Remove images",
		Example:           "  moss rmi busybox:old",
		Args:              arguments(1, -1),
		ValidArgsFunction: a.completeImages(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.client()
			if err != nil {
				return err
			}
			var failed bool
			for _, ref := range args { // in order: a parent can only go after its children
				removed, err := engine.ImageRemove(cmd.Context(), ref, force, noPrune)
				if err != nil && (!force || client.StatusOf(err) != statusNotFound) {
					failed = true
					a.complain(err)
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
	cmd.Flags().BoolVar(&noPrune, "no-prune", false, "keep untagged parents")
	return cmd
}

func (a *app) showRemoved(removed []client.Removed) error {
	for _, step := range removed {
		text := "Deleted: " + step.Deleted
		if step.Untagged != "" {
			text = "Untagged: " + step.Untagged
		}
		if err := a.print(text); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) importCommand() *cobra.Command {
	var opts client.ImportOptions
	cmd := &cobra.Command{
		Use:     "import [flags] FILE|- [NAME[:TAG]]",
		Short:   "Make an image from a root filesystem archive",
		Long:    "Make an image from a tar archive of a root filesystem, plain or compressed, in a file or on stdin (-).",
		Example: "  moss import -c 'CMD [\"sh\"]' rootfs.tar.gz busybox:mine",
		Args:    arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				opts.Repo, opts.Tag = splitTag(args[1])
			}
			return a.importImage(cmd.Context(), args[0], opts)
		},
	}
	cmd.Flags().StringVarP(&opts.Message, "message", "m", "", "the image's comment")
	cmd.Flags().StringArrayVarP(&opts.Changes, "change", "c", nil, "a build `INSTRUCTION` for the image's configuration, such as 'CMD [\"sh\"]'")
	return cmd
}

func (a *app) importImage(ctx context.Context, source string, opts client.ImportOptions) error {
	archive := a.stdin
	if source != "-" {
		if strings.Contains(source, "://") {
			return errors.New("import takes a file or - for stdin; fetch the URL first")
		}
		file, err := os.Open(source)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		archive = file
	}
	if info, err := archive.Stat(); err == nil && info.Mode().IsRegular() {
		if at, err := archive.Seek(0, io.SeekCurrent); err == nil {
			opts.Size = info.Size() - at
		}
	} else if err == nil && info.IsDir() {
		return errors.New("import " + source + ": it is a folder; pack it with tar first")
	}
	engine, err := a.client()
	if err != nil {
		return err
	}
	// The reader is hidden so that net/http does not close a file that is not its own.
	return engine.ImageImport(ctx, opts, io.MultiReader(archive), a.progress(a.stdout))
}
