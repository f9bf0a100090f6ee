package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/client"
)

// existsCommand makes a command whose exit code says whether an object is there: 0, or 1 for none.
func (a *app) existsCommand(
	noun string, inspect func(ctx context.Context, engine *client.Client, ref string) error, complete completer,
) *cobra.Command {
	return &cobra.Command{
		Use:   "exists " + noun,
		Short: "Tell by the exit code whether one exists",
		Long: "Tell by the exit code whether one exists: 0 if it does, 1 if it does not, 125 if the engine or moss failed.\n" +
			"Nothing is printed.",
		Example:           fmt.Sprintf("  moss %[1]s exists mine || echo no such %[1]s", strings.ToLower(noun)),
		Args:              requireArgs(1, 1),
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return asEngine(err)
			}
			if err = inspect(cmd.Context(), engine, args[0]); client.StatusOf(err) == statusNotFound {
				return &exit{code: exitFailed}
			}
			return asEngine(err)
		},
	}
}

func (a *app) containerExistsCommand() *cobra.Command {
	return a.existsCommand("CONTAINER", func(ctx context.Context, engine *client.Client, ref string) error {
		_, err := engine.ContainerInspect(ctx, ref, false)
		return err
	}, a.completeContainers(true, 1))
}

func (a *app) imageExistsCommand() *cobra.Command {
	return a.existsCommand("IMAGE", func(ctx context.Context, engine *client.Client, ref string) error {
		_, err := engine.ImageInspect(ctx, ref)
		return err
	}, a.completeImages(1))
}

func (a *app) volumeExistsCommand() *cobra.Command {
	return a.existsCommand("VOLUME", func(ctx context.Context, engine *client.Client, ref string) error {
		_, err := engine.VolumeInspect(ctx, ref)
		return err
	}, a.completeVolumes(1))
}

func (a *app) networkExistsCommand() *cobra.Command {
	return a.existsCommand("NETWORK", func(ctx context.Context, engine *client.Client, ref string) error {
		_, err := engine.NetworkInspect(ctx, ref)
		return err
	}, a.completeNetworks(1))
}
