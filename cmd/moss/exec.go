package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
)

type execFlags struct {
	config      types.ExecCreate
	interactive bool
	detach      bool
	env         []string
	envFiles    []string
}

func (a *app) execCommand() *cobra.Command {
	var flags execFlags
	cmd := &cobra.Command{
		Use:   "exec [flags] CONTAINER COMMAND [ARG...]",
		Short: "Run a command in a running container",
		Long: "Run a command in a running container. The exit code is that of the command; 125 if the engine or moss\n" +
			"failed, 126 if the command cannot be run, 127 if there is no such command.",
		Example:           "  moss exec -it web sh\n  moss exec -u www web id",
		Args:              requireArgs(2, -1),
		ValidArgsFunction: a.completeContainers(false, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.fillConfig(a.lookup); err != nil {
				return usageError(cmd, err)
			}
			flags.config.Cmd = args[1:]
			return asEngine(a.execInContainer(cmd.Context(), args[0], flags))
		},
	}
	set := cmd.Flags()
	set.SetInterspersed(false)
	set.BoolVarP(&flags.interactive, "interactive", "i", false, "send this command's stdin to it")
	set.BoolVarP(&flags.config.Tty, "tty", "t", false, "give the command a terminal")
	set.BoolVarP(&flags.detach, "detach", "d", false, "leave the command running in the background")
	set.StringVarP(&flags.config.User, "user", "u", "", "run as `USER[:GROUP]`, names or numbers")
	set.BoolVar(&flags.config.Privileged, "privileged", false, "give the command all of your own privileges")
	set.StringVar(&flags.config.DetachKeys, "detach-keys", "", "`KEYS` that leave the command running, such as ctrl-p,ctrl-q")
	set.StringArrayVarP(&flags.env, "env", "e", nil, "set a variable: `NAME=VALUE`, or NAME to pass yours")
	set.StringArrayVar(&flags.envFiles, "env-file", nil, "set the variables in a `FILE`, one a line")
	set.StringVarP(&flags.config.WorkingDir, "workdir", "w", "", "folder to run in")
	return cmd
}

func (f *execFlags) fillConfig(lookup arg.Lookup) (err error) {
	if f.config.Env, err = readVariables(f.envFiles, f.env, lookup); err != nil {
		return err
	}
	_, err = client.ParseDetachKeys(f.config.DetachKeys)
	return err
}

// execInContainer runs the command and returns its exit code as an *exit.
func (a *app) execInContainer(ctx context.Context, ref string, flags execFlags) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	config := flags.config
	s := &execSession{engine: engine, console: console{
		app: a, id: ref, tty: config.Tty, stdin: flags.interactive, stdout: true, stderr: true, detachKeys: config.DetachKeys,
	}}
	if flags.detach {
		s.stdin, s.stdout, s.stderr = false, false, false
	}
	if err := s.checkTerminal(); err != nil {
		return err
	}
	config.AttachStdin, config.AttachStdout, config.AttachStderr = s.stdin, s.stdout, s.stderr
	if height, width := a.windowSize(); config.Tty && height > 0 {
		config.ConsoleSize = &[2]uint16{uint16(height), uint16(width)} //nolint:gosec // what a terminal's size is kept in
	}
	created, err := engine.ExecCreate(ctx, ref, config)
	if err != nil {
		return err
	}
	a.printWarnings(created.Warnings)
	s.exec = created.ID
	s.wait, s.resize = s.awaitEnd, func(ctx context.Context, height, width int) error {
		return engine.ExecResize(ctx, s.exec, height, width)
	}
	if flags.detach {
		if err := engine.ExecStartDetached(ctx, s.exec, config.Tty); err != nil {
			return s.notStarted(ctx, err)
		}
		return nil
	}
	return s.runAttached(ctx)
}

// execSession is this command attached to one exec instance. It is used once.
type execSession struct {
	console

	engine *client.Client
	exec   string // the instance's id
}

func (s *execSession) runAttached(ctx context.Context) error {
	signals := make(chan os.Signal, 16)
	if s.tty { // without one a signal ends this command and not the other
		signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
		defer signal.Stop(signals)
	}
	stream, err := s.engine.ExecStart(ctx, s.exec, s.tty)
	if err != nil {
		return s.notStarted(ctx, err)
	}
	defer s.closeStream()
	if err := s.adoptStream(stream); err != nil {
		return err
	}
	code, err := s.followProcess(ctx, signals)
	s.closeStream()
	if errors.Is(err, client.ErrDetached) {
		return nil
	}
	if err != nil {
		return err
	}
	return exitCode(code)
}

// notStarted gives a command that could not be started its exit code: the engine's words tell, or the record.
func (s *execSession) notStarted(ctx context.Context, err error) error {
	code := startCode(err)
	if code == exitEngine {
		record, inspected := s.engine.ExecInspect(ctx, s.exec)
		if inspected == nil && record.ExitCode != nil && (*record.ExitCode == exitNotRunable || *record.ExitCode == exitNotFound) {
			code = *record.ExitCode
		}
	}
	return &exit{code: code, err: err}
}

// How often a command is asked after that has closed its output and goes on: at first, and at most.
const (
	execPoll    = 2 * time.Millisecond
	execPollMax = 200 * time.Millisecond
)

// awaitEnd waits for the end of the output and then of the command: the API has no call that does.
func (s *execSession) awaitEnd(ctx context.Context) (int, error) {
	select {
	case <-s.drained:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	for pause := execPoll; ; pause = min(2*pause, execPollMax) {
		record, err := s.engine.ExecInspect(ctx, s.exec)
		switch {
		case err != nil:
			return 0, err
		case !record.Running && record.ExitCode != nil && record.Cut:
			return 0, fmt.Errorf("the engine ended meanwhile and the rest of the output is lost; the command has ended with exit code %d",
				*record.ExitCode)
		case !record.Running && record.ExitCode != nil:
			return *record.ExitCode, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
