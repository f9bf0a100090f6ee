// Package oci calls an OCI runtime, crun or runc, as a program: run a bundle, ask for its state, delete it. It turns
// what the runtime says into faults. It reads nothing of a bundle but the command's name for an error text, and it keeps
// no state of its own.
package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"moss/engine/task"
)

// Runtime calls one runtime binary with one state folder.
type Runtime struct {
	rt  task.Runtime
	env []string
}

// New returns a Runtime. Env is the whole environment of the runtime's process; a container never sees it.
func New(rt task.Runtime, env []string) *Runtime {
	return &Runtime{rt: rt, env: env}
}

// Run says which container to run and with which streams.
type Run struct {
	ID     string
	Bundle string // the folder with config.json; also the runtime's working folder
	// PidFile, Log and ConsoleSocket are names relative to Bundle (a socket's path is limited to 107 bytes) or absolute.
	PidFile       string
	Log           string // the runtime's own messages
	ConsoleSocket string // where the runtime sends the pty's master; empty without a terminal
	// Stdin, Stdout and Stderr become the container's own streams without a terminal. Nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
}

// RunDetached creates and starts a container in one call of the runtime and returns when its first process is about to
// execute the command. The process becomes a child of the nearest subreaper. A command that does not exist gives
// fault.NotFound, one that may not be executed fault.Forbidden, any other refusal a plain error; nothing of the
// container is left then.
func (r *Runtime) RunDetached(ctx context.Context, run Run) error {
	if err := os.Remove(inBundle(run.Bundle, run.Log)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old runtime log: %w", err)
	}
	// Keyrings are counted per user, 200 of them over all engines: containers do without one of their own.
	args := []string{"run", "--detach", "--no-new-keyring", "--bundle", run.Bundle, "--pid-file", run.PidFile}
	if run.ConsoleSocket != "" {
		args = append(args, "--console-socket", run.ConsoleSocket)
	}
	cmd := r.command(ctx, run.Log, append(args, run.ID))
	cmd.Dir = run.Bundle
	cmd.Stdin, cmd.Stdout, cmd.Stderr = reader(run.Stdin), writer(run.Stdout), writer(run.Stderr)
	// A runtime that goes on after its caller's death would make a container that nobody knows. The signal comes with the
	// end of the thread that forks: Go ends a thread only with a goroutine that is locked to it, and there is none here.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		msgs := messages(inBundle(run.Bundle, run.Log))
		return runFault(r.name(), commandName(run.Bundle), msgs, err)
	}
	return nil
}

// Delete removes what the runtime keeps of a container; with force it kills what still runs. Deleting an absent
// container is not an error.
func (r *Runtime) Delete(ctx context.Context, id string, force bool) error {
	args := []string{"delete"}
	if force {
		args = append(args, "--force")
	}
	_, err := r.output(ctx, append(args, id)...)
	if err != nil && isAbsent(err) {
		return nil
	}
	return err
}

// State is what the runtime knows about a container.
type State struct {
	Status string `json:"status"` // created, running, paused or stopped
	Pid    int    `json:"pid"`    // 0 when it has stopped
	Bundle string `json:"bundle"`
}

// State asks for a container's state. An absent container is fault.NotFound.
func (r *Runtime) State(ctx context.Context, id string) (State, error) {
	out, err := r.output(ctx, "state", id)
	if err != nil {
		if isAbsent(err) {
			return State{}, noSuch(id)
		}
		return State{}, err
	}
	var s State
	if err := json.Unmarshal(out, &s); err != nil {
		return State{}, fmt.Errorf("state of %s from %s: %w", id, r.name(), err)
	}
	return s, nil
}

// Version asks the runtime for its version.
func (r *Runtime) Version(ctx context.Context) (Version, error) {
	out, err := r.output(ctx, "--version")
	if err != nil {
		return Version{}, err
	}
	return ParseVersion(string(out))
}

// output runs one verb and returns what it prints. The runtime's messages join the error.
func (r *Runtime) output(ctx context.Context, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := r.command(ctx, "", args)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, verbError(r.name(), args[0], stderr.String(), err)
	}
	return stdout.Bytes(), nil
}

func (r *Runtime) command(ctx context.Context, log string, args []string) *exec.Cmd {
	global := append([]string{}, r.rt.GlobalArgs...)
	if r.rt.Root != "" {
		global = append(global, "--root", r.rt.Root)
	}
	if log != "" {
		// The format stays text: in JSON crun would write to the container's stderr in JSON as well when execve fails.
		global = append(global, "--log", log)
	}
	cmd := exec.CommandContext(ctx, r.rt.Path, append(global, args...)...)
	cmd.Env = r.env
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	return cmd
}

func (r *Runtime) name() string { return filepath.Base(r.rt.Path) }

// inBundle resolves a name that the runtime sees relative to its working folder.
func inBundle(bundle, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(bundle, name)
}

// commandName returns the first argument of the bundle's process, for error texts; empty if it cannot be read.
func commandName(bundle string) string {
	var spec struct {
		Process struct {
			Args []string `json:"args"`
		} `json:"process"`
	}
	data, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil || json.Unmarshal(data, &spec) != nil || len(spec.Process.Args) == 0 {
		return ""
	}
	return spec.Process.Args[0]
}

// messages reads the errors in a runtime's log in order. A missing log has none.
func messages(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return parseMessages(string(data))
}

// parseMessages takes the messages out of a log: crun writes them as they are, runc as
// time="…" level=error msg="…".
func parseMessages(data string) []string {
	var msgs []string
	for line := range strings.Lines(data) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, `time="`) {
			_, rest, _ := strings.Cut(line, " level=")
			level, rest, _ := strings.Cut(rest, " msg=")
			if level != "error" && level != "fatal" {
				continue
			}
			line = rest
			if text, err := strconv.Unquote(rest); err == nil {
				line = text
			}
		}
		if line != "" {
			msgs = append(msgs, line)
		}
	}
	return msgs
}
