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
		Args:    arguments(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.reset(cmd.Context(), force) },
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	return cmd
}

func (a *app) reset(ctx context.Context, force bool) error {
	starter, err := a.ownStarter()
	if err != nil {
		return err
	}
	root, err := starter.Root()
	if err != nil {
		return err
	}
	if !force {
		if err := a.confirm(ctx, []string{
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
		return a.print("All that moss has made is removed. " + left + " holds other files and stays.")
	}
	return a.print("All that moss has made is removed.")
}
