package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) engineResetCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "reset [flags]",
		Short: "Stop the engine and remove all that it keeps",
		Long: "Stop the engine and remove all that it keeps: containers, images, volumes, networks, what builds keep, and its log. Files of\n" +
			"your sub-ids go too. Files in its folder that moss has not made stay, and so do settings and credentials.",
		Example: "  moss system reset",
		Args:    requireArgs(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.resetEngine(cmd.Context(), force) },
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "do not ask for confirmation")
	return cmd
}

func (a *app) resetEngine(ctx context.Context, force bool) error {
	starter, err := a.ownStarter()
	if err != nil {
		return err
	}
	root, err := starter.Root()
	if err != nil {
		return err
	}
	if !force {
		if err := a.confirmRemoval(ctx, []string{
			"all containers, running or not, images, volumes with all that is in them, and networks: " + root,
			"the engine's log: " + starter.LogPath(),
		}, nil); err != nil {
			return err
		}
	}
	left, err := starter.Reset(ctx)
	if err != nil {
		return err
	}
	if left != "" {
		return a.printLine("All that moss has made is removed. " + left + " holds other files and stays.")
	}
	return a.printLine("All that moss has made is removed.")
}
