package main

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"moss/api/client"
)

// stopFlags say how a container is ended.
type stopFlags struct {
	timeout int
	signal  string
}

func (f *stopFlags) registerFlags(set *pflag.FlagSet) {
	set.IntVarP(&f.timeout, "time", "t", 0,
		"seconds to wait before killing, -1 for ever (default: the container's --stop-timeout, or 10)")
	addSynonym(set, "timeout", "time")
	set.StringVarP(&f.signal, "signal", "s", "", "signal to send, by name or number (default: the container's --stop-signal)")
}

// stopOptions leaves out what no flag says: then the container's own settings hold.
func (f *stopFlags) stopOptions(set *pflag.FlagSet) client.StopOptions {
	opts := client.StopOptions{Signal: f.signal}
	if set.Changed("time") || set.Changed("timeout") {
		opts.Timeout = &f.timeout
	}
	return opts
}

func (a *app) stopCommand() *cobra.Command {
	var flags stopFlags
	var all bool
	cmd := &cobra.Command{
		Use:               "stop [flags] CONTAINER...",
		Short:             "Stop one or more running containers",
		Example:           "  moss stop -t 3 web",
		Args:              namesOrAll(&all),
		ValidArgsFunction: a.completeContainers(false, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			running := []string{"running", "paused", "restarting"}
			return a.applyToNamesOrAll(cmd.Context(), args, all, running, func(engine *client.Client, ref string) error {
				return engine.ContainerStop(cmd.Context(), ref, flags.stopOptions(cmd.Flags()))
			})
		},
	}
	flags.registerFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&all, "all", "a", false, "stop all that run")
	return cmd
}

func (a *app) restartCommand() *cobra.Command {
	var flags stopFlags
	cmd := &cobra.Command{
		Use:               "restart [flags] CONTAINER...",
		Short:             "Restart one or more containers",
		Example:           "  moss restart web",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeContainers(true, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.applyToContainers(args, func(engine *client.Client, ref string) error {
				return engine.ContainerRestart(cmd.Context(), ref, flags.stopOptions(cmd.Flags()))
			})
		},
	}
	flags.registerFlags(cmd.Flags())
	return cmd
}

func (a *app) killCommand() *cobra.Command {
	var signal string
	cmd := &cobra.Command{
		Use:               "kill [flags] CONTAINER...",
		Short:             "Kill one or more running containers, or send them a signal",
		Example:           "  moss kill -s HUP web",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeContainers(false, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.applyToContainers(args, func(engine *client.Client, ref string) error {
				return engine.ContainerKill(cmd.Context(), ref, signal)
			})
		},
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "KILL", "signal to send, by name or number")
	return cmd
}

func (a *app) removeCommand() *cobra.Command {
	var opts client.RemoveOptions
	var all bool
	cmd := &cobra.Command{
		Use:               "rm [flags] CONTAINER...",
		Short:             "Remove one or more containers",
		Example:           "  moss rm -f web",
		Args:              namesOrAll(&all),
		ValidArgsFunction: a.completeContainers(true, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.applyToNamesOrAll(cmd.Context(), args, all, nil, func(engine *client.Client, ref string) error {
				err := engine.ContainerRemove(cmd.Context(), ref, opts)
				if opts.Force && client.StatusOf(err) == statusNotFound {
					return nil // gone is what was asked for
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "remove all; with -f also those that run")
	cmd.Flags().BoolVarP(&opts.Force, "force", "f", false, "kill running containers first; a missing one is no error")
	cmd.Flags().BoolVarP(&opts.Volumes, "volumes", "v", false, "remove their anonymous volumes too")
	cmd.Flags().BoolVarP(&opts.Link, "link", "l", false, "remove links, named CONTAINER/ALIAS, and no containers")
	return cmd
}

func (a *app) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "pause CONTAINER...",
		Short:             "Pause all processes of one or more containers",
		Example:           "  moss pause web",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeContainers(false, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.applyToContainers(args, func(engine *client.Client, ref string) error {
				return engine.ContainerPause(cmd.Context(), ref)
			})
		},
	}
}

func (a *app) unpauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "unpause CONTAINER...",
		Short:             "Resume all processes of one or more paused containers",
		Example:           "  moss unpause web",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeContainers(false, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.applyToContainers(args, func(engine *client.Client, ref string) error {
				return engine.ContainerUnpause(cmd.Context(), ref)
			})
		},
	}
}

func (a *app) renameCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "rename CONTAINER NAME",
		Short:             "Rename a container",
		Example:           "  moss rename web old-web",
		Args:              requireArgs(2, 2),
		ValidArgsFunction: a.completeContainers(true, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			return engine.ContainerRename(cmd.Context(), args[0], args[1])
		},
	}
}

func (a *app) waitCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "wait CONTAINER...",
		Short:             "Wait for one or more containers to stop, then print their exit codes",
		Example:           "  moss wait web",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeContainers(false, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := a.engineClient(); err != nil {
				return err
			}
			return a.applyToEach(args, func(ref string) (string, error) {
				code, err := a.awaitEnd(cmd.Context(), ref, nil)
				return strconv.Itoa(code), err
			})
		},
	}
}

// applyToContainers does something to each container and prints the names of those that did.
func (a *app) applyToContainers(refs []string, do func(engine *client.Client, ref string) error) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	return a.applyToEach(refs, func(ref string) (string, error) { return ref, do(engine, ref) })
}

// namesOrAll checks that a command gets names, or the flag for all containers and none.
func namesOrAll(all *bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case *all && len(args) > 0:
			return usageError(cmd, errors.New("--all cannot be combined with names"))
		case *all:
			return nil
		default:
			return requireArgs(1, -1)(cmd, args)
		}
	}
}

// applyToNamesOrAll is applyToContainers; with all it is for all containers in one of the states, nil for any, instead of
// the named ones.
func (a *app) applyToNamesOrAll(
	ctx context.Context, refs []string, all bool, states []string, do func(engine *client.Client, ref string) error,
) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	if all {
		list, err := engine.Containers(ctx, client.ContainersOptions{All: true})
		if err != nil {
			return err
		}
		for _, ctr := range list {
			if states == nil || slices.Contains(states, ctr.State) {
				refs = append(refs, ctr.ID)
			}
		}
	}
	return a.applyToContainers(refs, do)
}
