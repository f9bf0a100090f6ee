package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/show"
	"moss/cmd/moss/tty"
)

// pruneFlags are those of every prune; each command takes the ones that mean something to it.
type pruneFlags struct {
	all, force, volumes bool
	filters             []string
}

// pruning is what a prune removes: one or more kinds of objects, with what is said of them before.
type pruning struct {
	warning  []string // one line for each kind
	bodiless bool     // they take no room on the disk, so none is spoken of
	kinds    []func(ctx context.Context, engine *client.Client, filters map[string][]string) (pruned, error)
}

// pruned is what went of one kind.
type pruned struct {
	title string
	lines []string
	bytes int64
}

func (a *app) imagePruneCommand() *cobra.Command {
	var flags pruneFlags
	cmd := &cobra.Command{
		Use:     "prune [flags]",
		Short:   "Remove unused images",
		Example: "  moss image prune -a --filter until=240h",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runPruning(cmd, flags, pruneImages(flags.all))
		},
	}
	cmd.Flags().BoolVarP(&flags.all, "all", "a", false, "remove all unused images, not only dangling ones")
	flags.registerFlags(cmd, "label, label!, until")
	return cmd
}

func (a *app) containerPruneCommand() *cobra.Command {
	var flags pruneFlags
	cmd := &cobra.Command{
		Use:     "prune [flags]",
		Short:   "Remove all stopped containers",
		Example: "  moss container prune -f --filter label=stage=test",
		Args:    requireArgs(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runPruning(cmd, flags, pruneContainers()) },
	}
	flags.registerFlags(cmd, "label, label!, until")
	return cmd
}

func (a *app) volumePruneCommand() *cobra.Command {
	var flags pruneFlags
	cmd := &cobra.Command{
		Use:     "prune [flags]",
		Short:   "Remove unused volumes",
		Long:    "Remove unused volumes that nobody named, or with --all those with a name too.",
		Example: "  moss volume prune --all --filter label=stage=test",
		Args:    requireArgs(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runPruning(cmd, flags, pruneVolumes(flags.all)) },
	}
	cmd.Flags().BoolVarP(&flags.all, "all", "a", false, "remove those with a name too")
	flags.registerFlags(cmd, "label, label!")
	return cmd
}

func (a *app) networkPruneCommand() *cobra.Command {
	var flags pruneFlags
	cmd := &cobra.Command{
		Use:     "prune [flags]",
		Short:   "Remove unused networks",
		Example: "  moss network prune -f --filter until=24h",
		Args:    requireArgs(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runPruning(cmd, flags, pruneNetworks()) },
	}
	flags.registerFlags(cmd, "label, label!, until")
	return cmd
}

func (a *app) builderPruneCommand() *cobra.Command {
	var flags pruneFlags
	var keep string
	cmd := &cobra.Command{
		Use:   "prune [flags]",
		Short: "Remove the build cache",
		Long: "Remove the build cache: the images of steps and the folders of RUN --mount=type=cache. Images that\n" +
			"have a name or that something uses stay, with their steps.",
		Example: "  moss builder prune -f --filter until=24h\n  moss builder prune --all --keep-storage 5g",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var bytes int64
			if err := setSize(&bytes, "keep-storage", keep, arg.Bytes); err != nil {
				return usageError(cmd, err)
			}
			return a.runPruning(cmd, flags, pruneBuilds(flags.all, bytes))
		},
	}
	cmd.Flags().BoolVarP(&flags.all, "all", "a", false, "remove the folders of RUN --mount=type=cache too, not only steps")
	cmd.Flags().StringVar(&keep, "keep-storage", "", "keep up to `BYTES` of it, such as 5g")
	flags.registerFlags(cmd, "until, id, parent, type, description, inuse, shared, private, label, label!")
	return cmd
}

func (a *app) systemPruneCommand() *cobra.Command {
	var flags pruneFlags
	cmd := &cobra.Command{
		Use:     "prune [flags]",
		Short:   "Remove unused data: stopped containers, networks, images, build cache, volumes",
		Example: "  moss system prune -a --volumes",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.volumes && slices.ContainsFunc(flags.filters, func(text string) bool { return strings.HasPrefix(text, "until=") }) {
				return usageError(cmd, errors.New("the filter until cannot be combined with --volumes"))
			}
			all := pruneContainers() // first: it frees what the containers use
			parts := []pruning{pruneNetworks(), pruneImages(flags.all)}
			if !slices.ContainsFunc(flags.filters, func(text string) bool { return strings.HasPrefix(text, "label") }) {
				parts = append(parts, pruneBuilds(flags.all, 0)) // nothing of it has labels
			}
			if flags.volumes {
				parts = append(parts, pruneVolumes(false))
			}
			for _, part := range parts {
				all.warning, all.kinds = append(all.warning, part.warning...), append(all.kinds, part.kinds...)
			}
			return a.runPruning(cmd, flags, all)
		},
	}
	cmd.Flags().BoolVarP(&flags.all, "all", "a", false, "remove all unused images, not only dangling ones")
	cmd.Flags().BoolVar(&flags.volumes, "volumes", false, "remove unused volumes that nobody named too, with their content")
	flags.registerFlags(cmd, "label, label!, until")
	return cmd
}

func (f *pruneFlags) registerFlags(cmd *cobra.Command, filters string) {
	cmd.Flags().BoolVarP(&f.force, "force", "f", false, "do not ask for confirmation")
	cmd.Flags().StringArrayVar(&f.filters, "filter", nil, "remove only those that match `KEY=VALUE`: "+filters)
}

func pruneContainers() pruning {
	return pruning{
		warning: []string{"all containers that do not run"},
		kinds: []func(context.Context, *client.Client, map[string][]string) (pruned, error){
			func(ctx context.Context, engine *client.Client, filters map[string][]string) (pruned, error) {
				gone, err := engine.ContainersPrune(ctx, filters)
				return pruned{title: "Deleted Containers:", lines: gone.ContainersDeleted, bytes: gone.SpaceReclaimed}, err
			},
		},
	}
}

func pruneImages(all bool) pruning {
	what, dangling := "all images without a name", "true"
	if all {
		what, dangling = "all images that no container uses", "false"
	}
	return pruning{
		warning: []string{what},
		kinds: []func(context.Context, *client.Client, map[string][]string) (pruned, error){
			func(ctx context.Context, engine *client.Client, filters map[string][]string) (pruned, error) {
				gone, err := engine.ImagesPrune(ctx, withFilter(filters, "dangling", dangling))
				lines := make([]string, 0, len(gone.ImagesDeleted))
				for _, step := range gone.ImagesDeleted {
					if step.Untagged != "" {
						lines = append(lines, "untagged: "+step.Untagged)
					} else {
						lines = append(lines, "deleted: "+step.Deleted)
					}
				}
				return pruned{title: "Deleted Images:", lines: lines, bytes: gone.SpaceReclaimed}, err
			},
		},
	}
}

func pruneBuilds(all bool, keep int64) pruning {
	what := "what builds keep for later ones and the latest did not use"
	if all {
		what = "all that builds keep for later ones"
	}
	return pruning{
		warning: []string{what},
		kinds: []func(context.Context, *client.Client, map[string][]string) (pruned, error){
			func(ctx context.Context, engine *client.Client, filters map[string][]string) (pruned, error) {
				gone, err := engine.BuildPrune(ctx, client.BuildPruneOptions{All: all, Keep: keep, Filters: filters})
				return pruned{title: "Deleted build cache objects:", lines: gone.CachesDeleted, bytes: gone.SpaceReclaimed}, err
			},
		},
	}
}

func pruneNetworks() pruning {
	return pruning{
		warning:  []string{"all networks that no container is in"},
		bodiless: true,
		kinds: []func(context.Context, *client.Client, map[string][]string) (pruned, error){
			func(ctx context.Context, engine *client.Client, filters map[string][]string) (pruned, error) {
				gone, err := engine.NetworksPrune(ctx, filters)
				return pruned{title: "Deleted Networks:", lines: gone.NetworksDeleted}, err
			},
		},
	}
}

// pruneVolumes removes the volumes that nobody named, or with all those with a name too.
func pruneVolumes(all bool) pruning {
	warning := "all volumes that no container uses and nobody named, with what is in them"
	if all {
		warning = "all volumes that no container uses, with what is in them"
	}
	return pruning{
		warning: []string{warning},
		kinds: []func(context.Context, *client.Client, map[string][]string) (pruned, error){
			func(ctx context.Context, engine *client.Client, filters map[string][]string) (pruned, error) {
				if all {
					filters = withFilter(filters, "all", "true")
				}
				gone, err := engine.VolumesPrune(ctx, filters)
				return pruned{title: "Deleted Volumes:", lines: gone.VolumesDeleted, bytes: gone.SpaceReclaimed}, err
			},
		},
	}
}

// withFilter returns the filters that the user gave, with one more.
func withFilter(filters map[string][]string, key, value string) map[string][]string {
	more := map[string][]string{}
	maps.Copy(more, filters)
	more[key] = []string{value}
	return more
}

// runPruning asks, removes kind after kind, and shows what went. After an error the kinds before it are shown all the same.
func (a *app) runPruning(cmd *cobra.Command, flags pruneFlags, what pruning) error {
	filters, err := arg.Filters(flags.filters)
	if err != nil {
		return usageError(cmd, err)
	}
	if !flags.force {
		if err := a.confirmRemoval(cmd.Context(), what.warning, flags.filters); err != nil {
			return err
		}
	}
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	var total int64
	var failed error
	for _, remove := range what.kinds {
		gone, err := remove(cmd.Context(), engine, filters)
		if err != nil {
			failed = err
			break
		}
		total += gone.bytes
		if len(gone.lines) == 0 {
			continue
		}
		if err := a.printLine(gone.title + "\n" + strings.Join(gone.lines, "\n") + "\n"); err != nil {
			return err
		}
	}
	if !what.bodiless {
		if err := a.printLine("Total reclaimed space: " + show.Size(total)); err != nil {
			return err
		}
	}
	return failed
}

// confirmRemoval asks on stderr and reads the answer from stdin. Anything but a yes is an error.
func (a *app) confirmRemoval(ctx context.Context, warning, filters []string) error {
	text := "This removes:\n  - " + strings.Join(warning, "\n  - ") + "\n"
	if len(filters) > 0 {
		text += "of them those with " + strings.Join(filters, ", ") + "\n"
	}
	answer := ""
	err := runInterruptible(ctx, func(ctx context.Context) (err error) {
		answer, err = tty.ReadLine(ctx, a.stdin, tty.Question{Out: a.stderr, Text: text + "Are you sure? [y/N] "})
		return err
	})
	if _, signalled := errors.AsType[*exit](err); signalled {
		_, _ = fmt.Fprintln(a.stderr)
		return err
	}
	if yes := strings.ToLower(strings.TrimSpace(answer)); err == nil && (yes == "y" || yes == "yes") {
		return nil
	}
	if err != nil || !tty.Is(a.stdin) {
		_, _ = fmt.Fprintln(a.stderr) // nobody typed one
	}
	return errors.New("nothing is removed; answer y or use --force")
}
