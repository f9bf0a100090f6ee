package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/tty"
)

type runFlags struct {
	createFlags

	detach, remove, sigProxy bool
	detachKeys               string
}

func (a *app) runCommand() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] IMAGE [COMMAND] [ARG...]",
		Short: "Create and run a new container",
		Long: "Create and run a new container. The exit code is that of the container; 125 if the engine or moss failed,\n" +
			"126 if the command cannot be run, 127 if there is no such command.",
		Example: "  moss run --rm -it busybox sh\n  moss run -d --name web -p 8080:80 busybox httpd -f\n" +
			"  moss run -d --name db --network name=back,alias=store,ip=10.7.0.9 --network front busybox httpd -f",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeImages(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := a.bodyFromFlags(cmd, &flags.createFlags, args)
			if err == nil {
				err = flags.checkFlags()
			}
			if err != nil {
				return usageError(cmd, err)
			}
			return asEngine(a.runContainer(cmd.Context(), &flags, body))
		},
	}
	set := cmd.Flags()
	set.SetInterspersed(false)
	flags.registerFlags(set)
	a.completeCreateFlags(cmd)
	set.BoolVarP(&flags.detach, "detach", "d", false, "run in the background and print the container's id")
	set.BoolVar(&flags.remove, "rm", false, "remove the container and its anonymous volumes when it ends")
	set.BoolVar(&flags.sigProxy, "sig-proxy", true, "forward signals to the container (without -t)")
	set.StringVar(&flags.detachKeys, "detach-keys", "", "`KEYS` that leave the container running, such as ctrl-p,ctrl-q")
	return cmd
}

// asEngine gives an error that says nothing of an exit code that of a failed engine.
func asEngine(err error) error {
	var own *exit
	if err == nil || errors.As(err, &own) {
		return err
	}
	return &exit{code: exitEngine, err: err}
}

// checkRemove is for containers that go with their end.
func (f *createFlags) checkRemove() error {
	if f.restart != "no" && f.restart != "" {
		return errors.New("--rm cannot be combined with --restart")
	}
	return nil
}

func (f *runFlags) checkFlags() error {
	switch {
	case f.detach && len(f.attach) > 0:
		return errors.New("--detach cannot be combined with --attach")
	case f.remove:
		if err := f.checkRemove(); err != nil {
			return err
		}
	}
	_, err := client.ParseDetachKeys(f.detachKeys)
	return err
}

func (a *app) runContainer(ctx context.Context, flags *runFlags, body types.ContainerCreate) error {
	if err := a.checkNetworks(ctx, body); err != nil {
		return err
	}
	if flags.detach {
		return a.runDetached(ctx, flags, body)
	}
	if body.Tty && body.AttachStdin && !tty.Is(a.stdin) {
		return errors.New("stdin is not a terminal; leave out -t or -i")
	}
	if height, width := a.windowSize(); body.Tty && height > 0 {
		body.HostConfig.ConsoleSize = [2]uint16{uint16(height), uint16(width)} //nolint:gosec // what a terminal's size is kept in
	}
	id, err := a.createContainer(ctx, &flags.createFlags, body)
	if err != nil {
		return err
	}
	s := a.newSession(sessionSettings{
		id: id, tty: body.Tty, stdin: body.AttachStdin, stdout: body.AttachStdout, stderr: body.AttachStderr,
		proxy: flags.sigProxy, detachKeys: flags.detachKeys,
	})
	s.log = &logPlace{driver: body.HostConfig.LogConfig.Type}
	return s.runNew(ctx, leftover{isNew: true, remove: flags.remove})
}

func (a *app) runDetached(ctx context.Context, flags *runFlags, body types.ContainerCreate) error {
	body.AttachStdin, body.AttachStdout, body.AttachStderr, body.StdinOnce = false, false, false, false
	// The engine removes it: nobody else waits for the end.
	body.HostConfig.AutoRemove = flags.remove
	id, err := a.createContainer(ctx, &flags.createFlags, body)
	if err != nil {
		return err
	}
	if err := a.withNext(ctx, func() error { return a.engine.ContainerStart(ctx, id, "") }); err != nil {
		return a.startFailed(ctx, id, err, leftover{isNew: true, remove: flags.remove})
	}
	return a.printLine(id)
}

// isGone reports whether a removal succeeded, or somebody else's has or will.
func isGone(err error) bool {
	status := client.StatusOf(err)
	return err == nil || status == statusNotFound || (status == statusConflict && strings.Contains(err.Error(), "in progress"))
}
