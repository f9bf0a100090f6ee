package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/client"
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
		Short: "Create a container and run it",
		Long: "Create a container and run it. The exit code is that of the container; 125 if the engine or moss failed,\n" +
			"126 if the command cannot be run, 127 if there is no such command.",
		Example: "  moss run --rm -it busybox sh\n  moss run -d --name web -p 8080:80 busybox httpd -f\n" +
			"  moss run -d --name db --network name=back,alias=store,ip=10.7.0.9 --network front busybox httpd -f",
		Args:              arguments(1, -1),
		ValidArgsFunction: a.completeImages(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := a.body(cmd, &flags.createFlags, args)
			if err == nil {
				err = flags.check()
			}
			if err != nil {
				return usage(cmd, err)
			}
			return asEngine(a.runContainer(cmd.Context(), &flags, body))
		},
	}
	set := cmd.Flags()
	set.SetInterspersed(false)
	flags.register(set)
	a.completeCreateFlags(cmd)
	set.BoolVarP(&flags.detach, "detach", "d", false, "run in the background and print the container's id")
	set.BoolVar(&flags.remove, "rm", false, "remove the container and its anonymous volumes when it ends")
	set.BoolVar(&flags.sigProxy, "sig-proxy", true, "send signals on to the container (without -t)")
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

func (f *runFlags) check() error {
	switch {
	case f.detach && len(f.attach) > 0:
		return errors.New("--detach excludes --attach")
	case f.remove && f.restart != "no" && f.restart != "":
		return errors.New("--rm excludes --restart")
	}
	_, err := client.ParseDetachKeys(f.detachKeys)
	return err
}

func (a *app) runContainer(ctx context.Context, flags *runFlags, body client.Create) error {
	if err := a.checkNetworks(ctx, body); err != nil {
		return err
	}
	if flags.detach {
		return a.runDetached(ctx, flags, body)
	}
	if body.Tty && body.AttachStdin && !tty.Is(a.stdin) {
		return errors.New("stdin is no terminal; leave out -t or -i")
	}
	if height, width := a.windowSize(); body.Tty && height > 0 {
		body.HostConfig.ConsoleSize = &[2]int{height, width}
	}
	id, err := a.create(ctx, &flags.createFlags, body)
	if err != nil {
		return err
	}
	s := a.session(sessionSettings{
		id: id, tty: body.Tty, stdin: body.AttachStdin, stdout: body.AttachStdout, stderr: body.AttachStderr,
		proxy: flags.sigProxy, detachKeys: flags.detachKeys,
	})
	return s.runNew(ctx, flags.remove)
}

func (a *app) runDetached(ctx context.Context, flags *runFlags, body client.Create) error {
	body.AttachStdin, body.AttachStdout, body.AttachStderr, body.StdinOnce = false, false, false, false
	// The engine removes it: nobody else waits for the end.
	body.HostConfig.AutoRemove = flags.remove
	id, err := a.create(ctx, &flags.createFlags, body)
	if err != nil {
		return err
	}
	if err := a.engine.ContainerStart(ctx, id, ""); err != nil {
		return a.startFailed(ctx, id, err, flags.remove)
	}
	return a.print(id)
}

// startFailed gives a failed start its exit code, and removes the container if it was to be removed.
func (a *app) startFailed(ctx context.Context, id string, err error, remove bool) error {
	code := startCode(err)
	if code == exitEngine {
		// The engine writes 126 or 127 into the record when it was the command.
		ctr, inspected := a.engine.ContainerInspect(ctx, id, false)
		if inspected == nil && (ctr.State.ExitCode == exitNotRunable || ctr.State.ExitCode == exitNotFound) {
			code = ctr.State.ExitCode
		}
	}
	if remove {
		if gone := a.engine.ContainerRemove(ctx, id, client.RemoveOptions{Force: true, Volumes: true}); !isGone(gone) {
			err = errors.Join(err, gone)
		}
	}
	return &exit{code: code, err: err}
}

// startCode reads the exit code out of the runtime's words, as other command lines do.
func startCode(err error) int {
	if client.StatusOf(err) == 0 {
		return exitEngine // the engine said nothing of the kind
	}
	text := strings.ToLower(err.Error())
	if strings.Contains(text, "external connectivity") {
		return exitEngine // it is a port that is not permitted, not the command
	}
	for _, words := range []string{"executable file not found", "executable file `", "no such file or directory", "command not found"} {
		if strings.Contains(text, words) && (words != "executable file `" || strings.Contains(text, "not found")) {
			return exitNotFound
		}
	}
	for _, words := range []string{"permission denied", "is a directory", "exec format error"} {
		if strings.Contains(text, words) {
			return exitNotRunable
		}
	}
	return exitEngine
}

// isGone reports whether a removal succeeded, or somebody else's has or will.
func isGone(err error) bool {
	status := client.StatusOf(err)
	return err == nil || status == statusNotFound || (status == statusConflict && strings.Contains(err.Error(), "in progress"))
}
