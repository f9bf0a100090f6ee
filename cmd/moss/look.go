package main

import (
	"strings"

	"github.com/spf13/cobra"

	"moss/api/types"
	"moss/cmd/moss/show"
)

func (a *app) topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "top CONTAINER [PS ARGUMENT...]",
		Short:             "List the processes of a container",
		Example:           "  moss top web\n  moss top web -o pid,args",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeContainers(false, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			list, err := engine.ContainerTop(cmd.Context(), args[0], strings.Join(args[1:], " "))
			if err != nil {
				return err
			}
			return a.tableView(false).Grid(a.stdout, append([][]string{list.Titles}, list.Processes...))
		},
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func (a *app) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "diff CONTAINER",
		Short:             "List the files of a container that differ from its image",
		Long:              "List the files of a container that differ from its image: A added, C changed, D deleted.",
		Example:           "  moss diff web",
		Args:              requireArgs(1, 1),
		ValidArgsFunction: a.completeContainers(true, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			changes, err := engine.ContainerChanges(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, change := range changes {
				if err := a.printLine(changeText(change)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func changeText(change types.ContainerChange) string {
	letter := "?"
	if kinds := "CAD"; change.Kind >= 0 && change.Kind < len(kinds) {
		letter = kinds[change.Kind : change.Kind+1]
	}
	return letter + " " + show.Plain(change.Path)
}
