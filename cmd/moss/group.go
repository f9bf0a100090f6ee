package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newGroupCommand makes a command that holds others.
func newGroupCommand(use, short, example string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:     use + " COMMAND",
		Short:   short,
		Example: example,
		Args:    noSuchCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// noSuchCommand is for commands that only hold others: what is left over names none of these.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := suggestCommands(cmd, args[0]); near != "" {
		return usageError(cmd, fmt.Errorf("unknown command %q (did you mean %s?)", args[0], near))
	}
	return usageError(cmd, fmt.Errorf("unknown command %q", args[0]))
}

// suggestCommands returns the commands below cmd whose names are the fewest letters away from word, or that begin with it; empty
// if there are none, or so many that they are no help.
func suggestCommands(cmd *cobra.Command, word string) string {
	const most, far = 3, 2
	for cmd.SuggestionsMinimumDistance = 1; cmd.SuggestionsMinimumDistance <= min(far, len(word)-1); cmd.SuggestionsMinimumDistance++ {
		if found := cmd.SuggestionsFor(word); 0 < len(found) && len(found) <= most {
			return "'" + strings.Join(found, "' or '") + "'"
		}
	}
	return ""
}

// withName gives a command another name below a group.
func withName(name string, cmd *cobra.Command, aliases ...string) *cobra.Command {
	_, rest, _ := strings.Cut(cmd.Use, " ")
	cmd.Use = strings.TrimSpace(name + " " + rest)
	cmd.Aliases = aliases
	return cmd
}

func (a *app) imageCommand() *cobra.Command {
	inspect := a.inspectAs(kindImage, "inspect [flags] IMAGE...", "Show detailed information on images", "  moss image inspect --format '{{.Id}}' busybox")
	return newGroupCommand("image", "Manage images", "  moss image ls\n  moss image prune",
		withName("ls", a.imagesCommand(), "list"), withName("rm", a.imageRemoveCommand(), "remove"),
		a.buildCommand(), a.pullCommand(), a.pushCommand(), a.tagCommand(), a.historyCommand(), a.saveCommand(), a.loadCommand(),
		a.importCommand(), a.searchCommand(), inspect, a.imageExistsCommand(), a.imagePruneCommand())
}

func (a *app) builderCommand() *cobra.Command {
	return newGroupCommand("builder", "Build images and manage the build cache",
		"  moss builder prune --filter until=24h",
		a.buildCommand(), a.builderPruneCommand())
}

func (a *app) containerCommand() *cobra.Command {
	inspect := a.inspectAs(kindContainer, "inspect [flags] CONTAINER...", "Show detailed information on containers",
		"  moss container inspect --format '{{.State.Status}}' web")
	return newGroupCommand("container", "Manage containers", "  moss container ls -a\n  moss container prune",
		withName("ls", a.listCommand(), "list", "ps"), inspect, a.containerExistsCommand(), a.containerPruneCommand(),
		a.runCommand(), a.createCommand(), a.startCommand(), a.stopCommand(), a.restartCommand(), a.killCommand(),
		withName("rm", a.removeCommand(), "remove"), a.renameCommand(), a.waitCommand(), a.attachCommand(), a.execCommand(),
		a.copyCommand(), a.logsCommand(), a.topCommand(), a.statsCommand(), a.diffCommand(), a.exportCommand(),
		a.commitCommand(), a.updateCommand(), a.pauseCommand(), a.unpauseCommand(), a.portCommand())
}

func (a *app) systemCommand() *cobra.Command {
	return newGroupCommand("system", "Manage the engine and its disk usage",
		"  moss system status\n  moss system stop\n  moss system prune",
		a.usageCommand(), a.systemPruneCommand(), a.checkCommand(), a.infoCommand(), a.eventsCommand(),
		a.engineStartCommand(), a.engineStopCommand(), a.engineStatusCommand(), a.engineLogsCommand(), a.engineResetCommand())
}
