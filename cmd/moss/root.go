package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
)

// Groups of commands in the help text.
const (
	groupContainer = "container"
	groupImage     = "image"
	groupEngine    = "engine"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "moss",
		Short: "Run containers without root",
		Long: "moss runs containers as you, without root. Its engine starts by itself at the first command.\n\n" +
			"The engine is found by --host, MOSS_HOST, DOCKER_HOST or the default socket of this user.",
		Example:       "  moss import rootfs.tar busybox\n  moss run --rm -it busybox sh",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetVersionTemplate("moss {{.Version}}\n")
	root.SetFlagErrorFunc(usage)
	root.PersistentFlags().StringVarP(&a.host, "host", "H", "", "engine to talk to: unix:///path or tcp://host:port")
	root.AddGroup(
		&cobra.Group{ID: groupContainer, Title: "Containers:"},
		&cobra.Group{ID: groupImage, Title: "Images:"},
		&cobra.Group{ID: groupEngine, Title: "Engine:"},
	)
	root.SetHelpCommandGroupID(groupEngine)
	root.SetCompletionCommandGroupID(groupEngine)
	for group, commands := range map[string][]*cobra.Command{
		groupContainer: {
			a.runCommand(), a.createCommand(), a.startCommand(), a.stopCommand(), a.restartCommand(), a.killCommand(),
			a.removeCommand(), a.renameCommand(), a.waitCommand(), a.attachCommand(), a.logsCommand(), a.listCommand(),
			a.inspectCommand(),
		},
		groupImage:  {a.imagesCommand(), a.imageRemoveCommand(), a.importCommand()},
		groupEngine: {a.eventsCommand(), a.infoCommand(), a.versionCommand()},
	} {
		for _, command := range commands {
			command.GroupID = group
			root.AddCommand(command)
		}
	}
	return root
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
					names = append(names, tag, strings.TrimSuffix(tag, ":latest"))
				}
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
