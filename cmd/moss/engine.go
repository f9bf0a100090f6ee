package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/launch"
	"moss/cmd/moss/show"
	"moss/cmd/moss/tty"
)

// exitStopped is the exit code of status when no engine runs, as that of systemctl.
const exitStopped = 3

// statusTimeout is how long status waits for an engine's answer before it says that none comes.
const statusTimeout = 30 * time.Second

func (a *app) engineStartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "start",
		Short: "Start the engine in the background",
		Long: "Start the engine in the background, or the unit of systemd that is enabled for it, and wait until it answers. Other commands\n" +
			"do the same when no engine runs. Containers whose restart policy says so are started.",
		Example: "  moss system start",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			starter, err := a.ownStarter()
			if err != nil {
				return err
			}
			started, err := starter.Start(cmd.Context())
			switch {
			case err != nil:
				return err
			case started:
				return a.printLine("The engine is started: " + starter.Place.Host.String())
			default:
				return a.printLine("The engine runs already: " + starter.Place.Host.String())
			}
		},
	}
}

func (a *app) engineStopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the engine and its containers",
		Long: "Stop the engine and its containers, and wait for their end. Each container gets its stop signal, and is killed when its stop\n" +
			"timeout is over. The next engine starts those again whose restart policy is always or unless-stopped. Any command that\n" +
			"needs an engine starts one. To replace an engine while its containers run, send SIGHUP to mossd.",
		Example: "  moss system stop",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			starter, err := a.ownStarter()
			if err != nil {
				return err
			}
			stopped, err := starter.Stop(cmd.Context(), false)
			switch {
			case err != nil:
				return err
			case stopped:
				return a.printLine("The engine is stopped.")
			default:
				return a.printLine("No engine runs.")
			}
		},
	}
}

// engineStatus is what status shows, under the names that templates use.
type engineStatus struct {
	State    string // running, stopped, or unresponsive while it starts, stops or hangs
	Version  string
	Hosts    []string
	Pid      int // of the outer process; 0 if there is none that this user can see
	InnerPid int // of the process that answers
	Root     string
	RunDir   string
	Log      string
	Unit     string
}

func (a *app) engineStatusCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show whether the engine runs, and where",
		Long: "Show whether the engine runs, its sockets, processes, folders, log and unit of systemd. It is not started. The exit status is\n" +
			"0 if it runs, 3 if it does not, and 1 if it does not answer.",
		Example: "  moss system status\n  moss system status --format '{{.Pid}}'",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			starter, err := a.ownStarter()
			if err != nil {
				return err
			}
			status, err := a.engineStatus(cmd.Context(), starter)
			if err != nil {
				return err
			}
			if err := a.showStatus(status, format); err != nil {
				return err
			}
			switch status.State {
			case stateRunning:
				return nil
			case stateStopped:
				return &exit{code: exitStopped}
			default:
				return &exit{code: exitFailed}
			}
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", "a Go template, or json")
	return cmd
}

// States of the engine.
const (
	stateRunning      = "running"
	stateStopped      = "stopped"
	stateUnresponsive = "unresponsive"
)

// ownStarter returns the starter of the engine at the default socket. One of another host is started and stopped by others.
func (a *app) ownStarter() (*launch.Starter, error) {
	place, err := launch.Find(a.host, a.tls, a.envValue)
	if err != nil {
		return nil, err
	}
	if place.RunDir == "" {
		by := place.Source
		if by == "" {
			by = "--host"
		}
		return nil, fmt.Errorf("%s names the engine at %s, but this is for the one at your default socket; SIGTERM to its mossd stops "+
			"another one", by, place.Host)
	}
	return a.newStarter(place), nil
}

// newStarter returns the starter of an engine, which tells a person when it starts one.
func (a *app) newStarter(place launch.Place) *launch.Starter {
	starter := &launch.Starter{Place: place, Env: a.envValue}
	if screen, ok := a.stderr.(*os.File); ok && tty.Is(screen) {
		starter.Notice = screen // a person wonders why this takes longer; a script must not find words it did not ask for
	}
	return starter
}

func (a *app) engineStatus(ctx context.Context, starter *launch.Starter) (engineStatus, error) {
	status := engineStatus{State: stateStopped, RunDir: starter.Place.RunDir, Log: starter.LogPath(), Unit: starter.Unit(ctx)}
	running, found, err := starter.Running()
	if err != nil {
		return status, err
	}
	if status.Root, err = starter.Root(); err != nil && !found {
		return status, err
	}
	if found {
		status.State = stateUnresponsive
		status.Pid, status.InnerPid, status.Hosts = running.Process.Pid, running.Inner(), running.Hosts
		status.Log = running.Log()
	}
	if !found && starter.Waits(ctx) {
		return status, nil // asking would start one
	}
	starter.Stay() // nothing is started
	engine, err := client.New(client.Options{Host: starter.Place.Host.String(), UserAgent: "moss/" + version, Dial: starter.Dial})
	if err != nil {
		return status, err
	}
	defer engine.Close()
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	raw, err := engine.Info(ctx)
	if err != nil {
		if ctx.Err() != nil {
			status.State = stateUnresponsive // somebody listens
		}
		return status, nil // the state says it
	}
	var info struct{ ServerVersion, DockerRootDir string }
	if err := json.Unmarshal(raw, &info); err != nil {
		return status, fmt.Errorf("read the engine's info: %w", err)
	}
	status.State, status.Version, status.Root = stateRunning, info.ServerVersion, info.DockerRootDir
	if len(status.Hosts) == 0 {
		status.Hosts = []string{starter.Place.Host.String()}
	}
	return status, nil
}

func (a *app) showStatus(status engineStatus, format string) error {
	if format != "" {
		raw, err := json.Marshal(status)
		if err != nil {
			return err
		}
		return show.Records(a.stdout, format, []json.RawMessage{raw})
	}
	processes := ""
	if status.Pid != 0 {
		processes = "mossd " + strconv.Itoa(status.Pid)
	}
	if status.InnerPid != 0 {
		processes += ", mossd-engine " + strconv.Itoa(status.InnerPid)
	}
	for _, line := range [][2]string{
		{"Engine", status.State},
		{"Version", status.Version},
		{"Sockets", strings.Join(status.Hosts, ", ")},
		{"Processes", processes},
		{"Data folder", status.Root},
		{"Folder of this boot", status.RunDir},
		{"Log", status.Log},
		{"Unit", status.Unit},
	} {
		if line[1] == "" {
			continue
		}
		if err := a.printLine(line[0] + ": " + show.Plain(line[1])); err != nil {
			return err
		}
	}
	return nil
}
