// Package client is the engine's side of the shims: a task.Runner that starts one moss-shim per task and talks to it.
// Whatever it knows it can ask again, so that the next engine adopts what this one leaves.
package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"moss/engine/fault"
	"moss/engine/shim/proto"
	"moss/engine/task"
)

// Options configure a Runner.
type Options struct {
	Path string   // of the moss-shim binary
	Env  []string // passed on to every shim beside the fixed environment, such as XDG_RUNTIME_DIR for the systemd cgroup manager
}

// Runner starts and finds tasks. It is safe for several goroutines.
type Runner struct {
	path   string
	env    []string
	limits limits

	mu      sync.Mutex // guards waiting
	waiting map[*transport]struct{}
}

var (
	_ task.Runner = (*Runner)(nil)
	_ task.Task   = (*Task)(nil)
)

// New returns a Runner. fault.NotFound if there is no moss-shim at the path.
func New(opts Options) (*Runner, error) {
	info, err := os.Stat(opts.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.NotFound("no moss-shim at %q", opts.Path)
	case err != nil:
		return nil, fmt.Errorf("moss-shim: %w", err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return nil, fault.Invalid("%s is not a program", opts.Path)
	}
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, fmt.Errorf("moss-shim: %w", err)
	}
	// A shim holds little and waits most of the time: one processor and an early garbage collector keep it small.
	env := append([]string{"GOMAXPROCS=1", "GOGC=25", "PATH=" + os.Getenv("PATH")}, opts.Env...)
	return &Runner{path: path, env: env, limits: usualLimits(), waiting: map[*transport]struct{}{}}, nil
}

// Prepare starts a shim for a task and returns when it serves. fault.Unavailable when the keepalive has no writer,
// fault.Unsupported for a log driver that it does not know. On error nothing is left.
func (r *Runner) Prepare(ctx context.Context, spec task.Spec) (task.Task, error) {
	if err := removeShimFiles(spec.Dir); err != nil {
		return nil, fmt.Errorf("prepare task %s: %w", spec.ID, err)
	}
	if err := proto.WriteSpec(spec.Dir, spec); err != nil {
		return nil, fmt.Errorf("prepare task %s: %w", spec.ID, err)
	}
	t := r.newTask(spec.ID, spec.Dir)
	if err := r.launchShim(ctx, t); err != nil {
		return nil, fmt.Errorf("prepare task %s: %w", spec.ID, errors.Join(err, removeShimFiles(spec.Dir)))
	}
	return t, nil
}

// Adopt finds the task of an earlier engine: see task.Runner. A shim that was killed has left its container to be cleaned
// up; Adopt does that and returns the ended task.
func (r *Runner) Adopt(ctx context.Context, id, dir string) (task.Task, error) {
	t := r.newTask(id, dir)
	rec, err := t.queryRecord(ctx, proto.Request{Op: proto.OpStatus})
	if err == nil && rec.Exit == nil && rec.StartedAt.IsZero() {
		err = t.holdOn(ctx)
	}
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, fmt.Errorf("adopt task %s: %w", id, err)
	case err != nil:
		return t, fmt.Errorf("adopt task %s: %w", id, err)
	}
	return t, nil
}

func (r *Runner) newTask(id, dir string) *Task {
	shim := &transport{runner: r, dir: dir, calls: map[*call]struct{}{}}
	return &Task{runner: r, id: id, dir: dir, shim: shim, recovering: make(chan struct{}, 1)}
}

// recoverRecord returns the record of a task whose shim does not answer. It lets moss-shim clean up when there should be a
// record and is none. called is how the call ended; nil: there was none. fault.NotFound when the task never ran, and while a
// living shim has lost its socket.
func (r *Runner) recoverRecord(ctx context.Context, dir string, called error) (proto.Record, error) {
	rec, err := proto.ReadRecord(dir)
	if err == nil || !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
		return rec, err
	}
	if _, serr := os.Stat(filepath.Join(dir, proto.PidFile)); serr != nil {
		return rec, fault.NotFound("no task in %s", dir)
	}
	// A shim that is being killed may still seem alive, but leaves its socket. What the call found counts: a lost socket may be
	// back by now.
	if errors.Is(called, fs.ErrNotExist) {
		if alive, err := proto.ReadAlive(dir); err == nil && alive.Shim.Lives() {
			return rec, fault.NotFound("the monitor of %s is about to write its folder again", dir)
		}
	}
	if err := r.runCleanup(ctx, dir); err != nil {
		return rec, err
	}
	return proto.ReadRecord(dir)
}

// shimFiles lists the shim's files in a task's folder in the order of their removal, which a crash may cut short anywhere.
func shimFiles() []string {
	return []string{
		// A pid without an exit is a container that a shim has left behind, and needs the spec to be ended.
		proto.SocketFile, proto.LogFile, proto.PidFile, proto.AliveFile, proto.ExitFile, proto.SpecFile, proto.RuntimeLogFile,
		proto.ConsoleFile,
		proto.ResourcesFile,
		proto.SpecFile + ".new", proto.ExitFile + ".new", proto.AliveFile + ".new",
		proto.SocketFile + ".new", proto.ConsoleFile + ".new",
	}
}

// removeShimFiles removes the shim's files from a task's folder.
func removeShimFiles(dir string) error {
	// The monitor and the engine alone write there.
	errs := []error{os.RemoveAll(filepath.Join(dir, proto.ExecFolder))}
	for _, name := range shimFiles() {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lastWords returns the end of the shim's own log, for error texts.
func lastWords(dir string) string {
	const tail = 2 << 10
	data, err := os.ReadFile(filepath.Join(dir, proto.LogFile))
	if err != nil || len(data) == 0 {
		return "it left no message"
	}
	return strconv.QuoteToGraphic(string(data[max(0, len(data)-tail):]))
}
