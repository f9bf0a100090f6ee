package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/logdriver"
)

// Run runs a command in a new container and returns when it has ended, its output has been written and its network is
// given back. The container is left at rest, also with an ExitError. With any other error, and when ctx is done, which kills
// the command at once, nothing is left.
//
// fault.Invalid and fault.Unsupported for what cannot be run, fault.NotFound for a mount of what is not there.
func (w *Worker) Run(ctx context.Context, step Step) (run Result, err error) {
	host, err := w.hostOf(&step)
	if err != nil {
		return run, err
	}
	m, err := w.prepareMounts(ctx, &step)
	defer m.releaseAll()
	if err != nil {
		return run, err
	}
	containerID, warnings, err := w.opt.Steps.CreateStep(ctx, container.Step{
		ImageID: step.Parent, Config: configOf(&step), Host: host, Env: m.env, Binds: m.binds, Tmpfs: m.tmpfs,
	})
	if err != nil {
		return run, fmt.Errorf("run %s: %w", step.Shown, err)
	}
	run.ContainerID = containerID
	defer func() {
		var exit *ExitError
		if err == nil || errors.As(err, &exit) {
			return
		}
		err = errors.Join(err, w.removeContainer(ctx, containerID))
		run = Result{}
	}()
	if run.Config, err = w.encodeConfig(containerID); err != nil {
		return run, err
	}
	if step.Started != nil {
		step.Started(containerID, warnings)
	}
	return run, w.runContainer(ctx, containerID, &step)
}

// encodeConfig returns the configuration that a container was made with, as JSON.
func (w *Worker) encodeConfig(containerID string) (json.RawMessage, error) {
	r, err := w.opt.Inventory.Get(containerID)
	if err != nil {
		return nil, err
	}
	made, err := json.Marshal(r.Config)
	if err != nil {
		return nil, fmt.Errorf("encode configuration of %s: %w", containerID, err)
	}
	return made, nil
}

// runContainer runs the process of a container to its end.
func (w *Worker) runContainer(ctx context.Context, containerID string, step *Step) error {
	viewed, err := w.attachOutput(ctx, containerID, step.Output)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.opt.Containers.Start(ctx, containerID); err != nil {
		return w.notStarted(containerID, step, err)
	}
	outlive := context.WithoutCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		if err := w.opt.Containers.Kill(outlive, containerID, "SIGKILL"); err != nil && !isGone(err) {
			w.opt.Log.Error().Err(err).Str("container", containerID).Msg("command of a build that was given up does not end")
		}
	})
	defer stop()
	code, err := w.opt.Inventory.Wait(outlive, containerID)
	viewErr := <-viewed
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case viewErr != nil:
		return viewErr
	case code == 0:
		return nil
	}
	exit := &ExitError{Command: step.Shown, Code: code}
	if r, err := w.opt.Inventory.Get(containerID); err == nil {
		exit.OOMKilled = r.OOMKilled
	}
	return exit
}

// attachOutput attaches out to the output of a container that is still to be started. The channel gets how that ended, once.
func (w *Worker) attachOutput(ctx context.Context, containerID string, out io.Writer) (<-chan error, error) {
	if out == nil {
		out = io.Discard
	}
	joined, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- w.opt.Viewers.Attach(ctx, containerID, container.AttachOptions{Stream: true, Stdout: true, Stderr: true},
			func() (io.ReadWriteCloser, error) {
				close(joined)
				return &screen{out: out}, nil
			})
	}()
	select {
	case <-joined:
		return ended, nil
	case err := <-ended:
		if err == nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("read output of %s: %w", containerID, err)
	}
}

// What a start that came to nothing says of the command: these are its own doing, with the codes that shells give.
const (
	notExecutable = 126
	notThere      = 127
)

// notStarted says why a command could not be started, as the end of that command if it is the command's own doing.
func (w *Worker) notStarted(containerID string, step *Step, cause error) error {
	r, err := w.opt.Inventory.Get(containerID)
	if err != nil || r.ExitCode != notExecutable && r.ExitCode != notThere {
		return fmt.Errorf("run %s: %w", step.Shown, cause)
	}
	return &ExitError{Command: step.Shown, Code: r.ExitCode, Err: cause}
}

// removeContainer removes a container, whatever it does. One that is gone is no error. ctx does not end it half-way.
func (w *Worker) removeContainer(ctx context.Context, containerID string) error {
	if containerID == "" {
		return nil
	}
	err := w.opt.Containers.Remove(context.WithoutCancel(ctx), containerID, container.RemoveOptions{Force: true, Volumes: true})
	if isGone(err) {
		return nil
	}
	return err
}

// isGone reports whether an error says that somebody else has ended or removed the container.
func isGone(err error) bool { return fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) }

// configOf is what the container of a step is made with.
func configOf(step *Step) container.Config {
	return container.Config{
		Hostname: step.Hostname, User: step.User, Env: slices.Clone(step.Env), WorkingDir: path.Join("/", step.WorkDir),
		Labels:     step.Labels,
		Entrypoint: []string{}, Cmd: slices.Clone(step.Command),
		AttachStdout: true, AttachStderr: true,
	}
}

// hostOf is what the container of a step asks of the host: its output goes to the build, not into a log.
func (w *Worker) hostOf(step *Step) (container.HostConfig, error) {
	host := step.Host
	host.LogConfig = container.LogConfig{Type: logdriver.None}
	switch step.Network {
	case "", "default":
	case "none", "host":
		host.NetworkMode = step.Network
	default:
		return host, fault.Invalid("RUN --network=%s: expected none or default", step.Network)
	}
	if len(step.Command) == 0 {
		return host, fault.Invalid("RUN needs a command")
	}
	return host, w.CheckNetwork(host.NetworkMode)
}

// maxJoins bounds how many containers are looked at to find whose network one has.
const maxJoins = 8

// CheckNetwork refuses a network mode by which commands of builds would be in the host's network: fault.Unsupported.
// Other modes are judged when a container is made.
func (w *Worker) CheckNetwork(mode string) error {
	for range maxJoins {
		other, joins := strings.CutPrefix(mode, container.JoinMode(""))
		switch {
		case mode == "host":
			return fault.Unsupported("network mode \"host\" is not supported for builds: a Dockerfile's commands never run in the " +
				"host's network")
		case !joins:
			return nil
		}
		r, err := w.opt.Inventory.Get(other)
		if err != nil {
			return fmt.Errorf("network of the build: %w", err)
		}
		mode = r.Host.NetworkMode
	}
	return fault.Invalid("network of the build: too many containers use each other's networks")
}
