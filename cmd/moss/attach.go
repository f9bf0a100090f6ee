package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/arg"
)

func (a *app) attachCommand() *cobra.Command {
	var noStdin, sigProxy bool
	var detachKeys string
	cmd := &cobra.Command{
		Use:               "attach [flags] CONTAINER",
		Short:             "Attach to a running container's stdin, stdout and stderr",
		Example:           "  moss attach web",
		Args:              requireArgs(1, 1),
		ValidArgsFunction: a.completeContainers(false, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := client.ParseDetachKeys(detachKeys); err != nil {
				return usageError(cmd, err)
			}
			engine, err := a.engineClient()
			if err != nil {
				return asEngine(err)
			}
			ctr, err := engine.ContainerInspect(cmd.Context(), args[0], false)
			if err != nil {
				return err
			}
			switch {
			case !ctr.State.Running:
				return fmt.Errorf("container %s is not running; start it first", args[0])
			case ctr.State.Paused:
				return fmt.Errorf("container %s is paused; unpause it first", args[0])
			}
			s := a.sessionOf(ctr, !noStdin && ctr.Config.OpenStdin, sigProxy, detachKeys)
			if err := s.checkTerminal(); err != nil {
				return err
			}
			return asEngine(s.attachRunning(cmd.Context()))
		},
	}
	set := cmd.Flags()
	set.BoolVar(&noStdin, "no-stdin", false, "do not send stdin")
	set.BoolVar(&sigProxy, "sig-proxy", true, "forward signals to the container (if it has no terminal)")
	set.StringVar(&detachKeys, "detach-keys", "", "`KEYS` that leave the container running, such as ctrl-p,ctrl-q")
	return cmd
}

func (a *app) sessionOf(ctr client.Inspect, stdin, proxy bool, detachKeys string) *session {
	return a.newSession(sessionSettings{
		id: ctr.ID, tty: ctr.Config.Tty, stdin: stdin, stdout: true, stderr: true, proxy: proxy, detachKeys: detachKeys,
	})
}

type startFlags struct {
	attach, interactive, sigProxy bool
	detachKeys                    string
}

func (a *app) startCommand() *cobra.Command {
	var flags startFlags
	var all bool
	cmd := &cobra.Command{
		Use:               "start [flags] CONTAINER...",
		Short:             "Start one or more stopped containers",
		Example:           "  moss start web\n  moss start -ai shell",
		Args:              namesOrAll(&all),
		ValidArgsFunction: a.completeContainers(true, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := client.ParseDetachKeys(flags.detachKeys); err != nil {
				return usageError(cmd, err)
			}
			if flags.attach || flags.interactive {
				if len(args) != 1 {
					return usageError(cmd, errors.New("only one container can be attached to"))
				}
				return asEngine(a.startAttached(cmd.Context(), args[0], flags))
			}
			states := []string{"created", "exited"}
			return a.applyToNamesOrAll(cmd.Context(), args, all, states, func(engine *client.Client, ref string) error {
				err := a.withNext(cmd.Context(), func() error { return engine.ContainerStart(cmd.Context(), ref, "") })
				return a.nameHolder(cmd.Context(), err)
			})
		},
	}
	set := cmd.Flags()
	set.BoolVar(&all, "all", false, "start all containers that are not running")
	set.BoolVarP(&flags.attach, "attach", "a", false, "attach stdout and stderr, and forward signals")
	set.BoolVarP(&flags.interactive, "interactive", "i", false, "attach stdout and stderr, and send stdin")
	set.BoolVar(&flags.sigProxy, "sig-proxy", true, "forward signals to the container (if it has no terminal)")
	set.StringVar(&flags.detachKeys, "detach-keys", "", "`KEYS` that leave the container running, such as ctrl-p,ctrl-q")
	return cmd
}

func (a *app) startAttached(ctx context.Context, ref string, flags startFlags) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	ctr, err := engine.ContainerInspect(ctx, ref, false)
	if err != nil {
		return err
	}
	s := a.sessionOf(ctr, flags.interactive && ctr.Config.OpenStdin, flags.sigProxy, flags.detachKeys)
	if err := s.checkTerminal(); err != nil {
		return err
	}
	if ctr.State.Running {
		return s.attachRunning(ctx)
	}
	s.log = &logPlace{driver: ctr.HostConfig.LogConfig.Type}
	if at := ctr.State.FinishedAt; at.Year() > 1 {
		s.log.since = arg.Seconds(at.Add(1)) // after what the run before has written
	}
	return s.runNew(ctx, leftover{})
}
