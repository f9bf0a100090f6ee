package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
)

// Groups of commands in the help text.
const (
	groupContainer = "container"
	groupImage     = "image"
	groupNetwork   = "network"
	groupVolume    = "volume"
	groupEngine    = "engine"
)

// root returns the root command with the one that the arguments name, or with all when they name none of them.
func (a *app) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "moss",
		Short: "Run containers without root",
		Long: "moss runs containers as you, without root. Its engine starts by itself at the first command.\n\n" +
			"The engine is found by --host, MOSS_HOST, DOCKER_HOST or the default socket of this user.",
		Example:       "  moss pull busybox\n  moss run --rm -it busybox sh",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetVersionTemplate("moss {{.Version}}\n")
	root.SetFlagErrorFunc(usage)
	root.PersistentFlags().StringVarP(&a.host, "host", "H", "", "engine to talk to: unix:///path or tcp://host:port")
	root.AddGroup(
		&cobra.Group{ID: groupContainer, Title: "Containers:"},
		&cobra.Group{ID: groupImage, Title: "Images:"},
		&cobra.Group{ID: groupNetwork, Title: "Networks:"},
		&cobra.Group{ID: groupVolume, Title: "Volumes:"},
		&cobra.Group{ID: groupEngine, Title: "Engine:"},
	)
	root.SetHelpCommandGroupID(groupEngine)
	root.SetCompletionCommandGroupID(groupEngine)
	wanted := commandName(args)
	commands := a.commands()
	one := slices.ContainsFunc(commands, func(c command) bool { return c.name == wanted })
	for _, c := range commands {
		if one && c.name != wanted {
			continue
		}
		made := c.make()
		made.GroupID = c.group
		root.AddCommand(made)
	}
	return root
}

// command is a command that may be made: its flags cost more time than many a call of it takes.
type command struct {
	group, name string
	make        func() *cobra.Command
}

func (a *app) commands() []command {
	return []command{
		{groupContainer, "run", a.runCommand},
		{groupContainer, "create", a.createCommand},
		{groupContainer, "start", a.startCommand},
		{groupContainer, "stop", a.stopCommand},
		{groupContainer, "restart", a.restartCommand},
		{groupContainer, "kill", a.killCommand},
		{groupContainer, "rm", a.removeCommand},
		{groupContainer, "rename", a.renameCommand},
		{groupContainer, "wait", a.waitCommand},
		{groupContainer, "attach", a.attachCommand},
		{groupContainer, "exec", a.execCommand},
		{groupContainer, "cp", a.copyCommand},
		{groupContainer, "logs", a.logsCommand},
		{groupContainer, "ps", a.listCommand},
		{groupContainer, "inspect", a.inspectCommand},
		{groupContainer, "top", a.topCommand},
		{groupContainer, "stats", a.statsCommand},
		{groupContainer, "diff", a.diffCommand},
		{groupContainer, "export", a.exportCommand},
		{groupContainer, "commit", a.commitCommand},
		{groupContainer, "update", a.updateCommand},
		{groupContainer, "pause", a.pauseCommand},
		{groupContainer, "unpause", a.unpauseCommand},
		{groupContainer, "port", a.portCommand},
		{groupContainer, "container", a.containerCommand},
		{groupImage, "images", a.imagesCommand},
		{groupImage, "pull", a.pullCommand},
		{groupImage, "push", a.pushCommand},
		{groupImage, "tag", a.tagCommand},
		{groupImage, "rmi", a.imageRemoveCommand},
		{groupImage, "history", a.historyCommand},
		{groupImage, "save", a.saveCommand},
		{groupImage, "load", a.loadCommand},
		{groupImage, "import", a.importCommand},
		{groupImage, "search", a.searchCommand},
		{groupImage, "login", a.loginCommand},
		{groupImage, "logout", a.logoutCommand},
		{groupImage, "image", a.imageCommand},
		{groupNetwork, "network", a.networkCommand},
		{groupVolume, "volume", a.volumeCommand},
		{groupEngine, "events", a.eventsCommand},
		{groupEngine, "info", a.infoCommand},
		{groupEngine, "system", a.systemCommand},
		{groupEngine, "version", a.versionCommand},
	}
}

// longHost writes the engine's address in front of the command as --host: commands may use -H for something else.
func longHost(args []string) []string {
	args = slices.Clone(args)
	for i := 0; i < len(args); i++ {
		switch short, found := strings.CutPrefix(args[i], "-H"); {
		case found && short == "":
			args[i] = "--host"
			i++
		case found:
			args[i] = "--host=" + strings.TrimPrefix(short, "=")
		case args[i] == "--host":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args
		}
	}
	return args
}

// commandName returns the first argument that is no flag of the root command and no flag's value.
func commandName(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-H" || args[i] == "--host":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i]
		}
	}
	return ""
}

// completionTimeout bounds what a shell waits for names; completion never starts an engine.
const completionTimeout = time.Second

type completer = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective)

// completeContainers offers names of containers, all or only running ones, up to most of them.
func (a *app) completeContainers(all bool, most int) completer {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		engine, err := a.connect(false)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		list, err := engine.Containers(ctx, client.ContainersOptions{All: all})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, ctr := range list {
			for _, name := range ctr.Names {
				if name = strings.TrimPrefix(name, "/"); strings.HasPrefix(name, prefix) {
					names = append(names, name)
				}
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeImages offers names of images, up to most of them.
func (a *app) completeImages(most int) completer {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		engine, err := a.connect(false)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		list, err := engine.Images(ctx, client.ImagesOptions{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, image := range list {
			for _, tag := range image.RepoTags {
				if tag != noTag && strings.HasPrefix(tag, prefix) {
					names = append(names, tag)
					if short, ok := strings.CutSuffix(tag, ":latest"); ok {
						names = append(names, short)
					}
				}
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
