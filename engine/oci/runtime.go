// Package oci calls an OCI runtime, crun or runc, as a program: run a bundle, add a process, ask for its state,
// pause it, delete it. It turns what the runtime says into faults. It reads nothing of a bundle but the command's name for
// an error text, and it keeps no state of its own.
package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"moss/engine/task"
)

// Runtime calls one runtime binary with one state folder.
type Runtime struct {
	rt  task.Runtime
	dir string
	env []string

	scoring sync.Mutex // held while this process has the oom_score_adj of one that it starts
}

// New returns a Runtime. Dir is a folder for temporary files of verbs that start no process; empty is the system's. Env is
// the rest of the environment of the runtime's process; a container never sees it.
//
// A call whose context ends is killed with all that it has started, also in sessions of their own, and leaves no temporary
// file.
func New(rt task.Runtime, dir string, env []string) *Runtime {
	return &Runtime{rt: rt, dir: dir, env: env}
}

// Launch says where a verb that starts a process works and which streams the process gets.
type Launch struct {
	ID  string // the container's
	Dir string // the runtime's working folder, where its temporary files are as well; for RunDetached the bundle with config.json
	// PidFile, Log and ConsoleSocket are names relative to Dir (a socket's path is limited to 107 bytes) or absolute.
	PidFile       string
	Log           string // the runtime's own messages
	ConsoleSocket string // where the runtime sends the pty's master; empty without a terminal
	// Stdin, Stdout and Stderr become the process's own streams without a terminal. Nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
}

// RunDetached creates and starts a container in one call of the runtime and returns when its first process is about to
// execute the command. The process becomes a child of the nearest subreaper. A command that does not exist gives
// fault.NotFound, one that may not be executed fault.Forbidden, any other refusal a plain error; nothing of the
// container is left then.
func (r *Runtime) RunDetached(ctx context.Context, l Launch) error {
	// Keyrings are counted per user, 200 of them over all engines: containers do without one of their own.
	if msgs, err := r.runLaunch(ctx, l, nil, "run", "--detach", "--no-new-keyring", "--bundle", l.Dir); err != nil {
		return launchFault(actionCreate, r.name(), commandOfBundle(l.Dir), msgs, err)
	}
	return nil
}

// ExecDetached starts one more process in a running container as RunDetached starts the first one. Process names the file
// with the OCI runtime spec's process object, relative to l.Dir or absolute. The process joins the container's cgroup and
// gets its seccomp filter: crun reads it from its own state folder, where run has left it compiled.
func (r *Runtime) ExecDetached(ctx context.Context, l Launch, process string) error {
	asked := readProcess(inFolder(l.Dir, process))
	if msgs, err := r.runLaunch(ctx, l, asked.OOMScoreAdj, "exec", "--detach", "--process", process); err != nil {
		return launchFault("exec", r.name(), asked.firstArg(), msgs, err)
	}
	return nil
}

// runLaunch calls a verb that starts a process, with an oom_score_adj that it inherits if there is one, and returns what the
// runtime had to say when it fails.
func (r *Runtime) runLaunch(ctx context.Context, l Launch, score *int, args ...string) (msgs []string, err error) {
	if err := os.Remove(inFolder(l.Dir, l.Log)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old runtime log: %w", err)
	}
	args = append(args, "--pid-file", l.PidFile)
	if l.ConsoleSocket != "" {
		args = append(args, "--console-socket", l.ConsoleSocket)
	}
	cmd := r.newCommand(ctx, l.Dir, l.Log, append(args, l.ID))
	cmd.Dir = l.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = readerOf(l.Stdin), writerOf(l.Stdout), writerOf(l.Stderr)
	// A runtime that goes on after its caller's death would make a process that nobody knows. The signal comes with the
	// end of the thread that forks: Go ends a thread only with a goroutine that is locked to it, and there is none here.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	start := cmd.Start
	if score != nil {
		start = func() error { return r.startScored(cmd, *score) }
	}
	if err := runCommand(ctx, cmd, start); err != nil {
		DropCopies(l.Dir)
		return readMessages(inFolder(l.Dir, l.Log)), err
	}
	return nil, nil
}

// Pause freezes a container's processes by its cgroup.
func (r *Runtime) Pause(ctx context.Context, id string) error {
	_, err := r.runVerb(ctx, "pause", id)
	return err
}

// Resume undoes Pause.
func (r *Runtime) Resume(ctx context.Context, id string) error {
	_, err := r.runVerb(ctx, "resume", id)
	return err
}

// Update changes the limits of a container's cgroup to those of a file with the OCI runtime spec's resources object.
func (r *Runtime) Update(ctx context.Context, id, file string) error {
	_, err := r.runVerb(ctx, "update", "--resources", file, id)
	return err
}

// Delete removes what the runtime keeps of a container; with force it kills what still runs. Deleting an absent
// container is not an error.
func (r *Runtime) Delete(ctx context.Context, id string, force bool) error {
	args := []string{"delete"}
	if force {
		args = append(args, "--force")
	}
	_, err := r.runVerb(ctx, append(args, id)...)
	if err != nil && isAbsent(err) {
		return nil
	}
	return err
}

// Version asks the runtime for its version.
func (r *Runtime) Version(ctx context.Context) (Version, error) {
	out, err := r.runVerb(ctx, "--version")
	if err != nil {
		return Version{}, err
	}
	return ParseVersion(string(out))
}

// runVerb runs one verb and returns what it prints. The runtime's messages join the error.
func (r *Runtime) runVerb(ctx context.Context, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := r.newCommand(ctx, r.dir, "", args)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := runCommand(ctx, cmd, cmd.Start); err != nil {
		DropCopies(r.dir)
		return nil, verbError(r.name(), args[0], stderr.String(), err)
	}
	return stdout.Bytes(), nil
}

func (r *Runtime) name() string { return filepath.Base(r.rt.Path) }

// inFolder resolves a name that the runtime sees relative to its working folder.
func inFolder(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// commandOfBundle returns the first argument of the bundle's process, for error texts; empty if it cannot be read.
func commandOfBundle(bundle string) string {
	var spec struct {
		Process process `json:"process"`
	}
	if data, err := os.ReadFile(filepath.Join(bundle, "config.json")); err != nil || json.Unmarshal(data, &spec) != nil {
		return ""
	}
	return spec.Process.firstArg()
}

// readProcess reads what counts here of a process object; nothing if it cannot be read.
func readProcess(file string) process {
	var p process
	if data, err := os.ReadFile(file); err != nil || json.Unmarshal(data, &p) != nil {
		return process{}
	}
	return p
}

type process struct {
	Args        []string `json:"args"`
	OOMScoreAdj *int     `json:"oomScoreAdj"`
}

func (p process) firstArg() string {
	if len(p.Args) == 0 {
		return ""
	}
	return p.Args[0]
}

// readMessages reads the errors in a runtime's log in order. A missing log has none.
func readMessages(path string) []string {
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
