package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"moss/engine/container"
)

// Step is one command to run. Nothing of the image's config is taken over: what counts stands here.
type Step struct {
	Parent   string   // id of the image to run in
	Command  []string // the command line, with the shell
	Shown    string   // the command as errors name it
	Env      []string // NAME=value, with the build arguments that are in effect
	User     string
	WorkDir  string // made if it is not there; empty: the root
	Hostname string // as the command sees it; empty: the container's short id
	Labels   map[string]string
	Network  string // of the instruction: none, default, host; empty: that of Host
	Mounts   []Mount
	Files    []File                         // put into /dev/pipes
	Host     container.HostConfig           // limits, network, hosts
	Secrets  func(id string) ([]byte, bool) // what the build was given; nil: nothing

	Output  io.Writer                                   // gets both streams as they come; never written to by two goroutines at once
	Started func(containerID string, warnings []string) // if not nil, is called before the command runs
}

// File is one file of a heredoc.
type File struct {
	Name    string
	Content string
	Mode    uint32 // permissions
}

// Result is what a run has left: a container at rest, for Seal, Layer, Keep or Drop.
type Result struct {
	ContainerID string          // empty: nothing is left
	Config      json.RawMessage // what the container was made with, as clients know it; without secrets
}

// ExitError is a command that failed, or cannot be executed (126, or 127 if it is not there, with Err).
type ExitError struct {
	Command   string
	Code      int
	OOMKilled bool  // the kernel killed a process of it for memory
	Err       error // why it could not be started; nil for one that ran
}

// Error says what became of the command.
func (e *ExitError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("run %s: %v", e.Command, e.Err)
	}
	if e.OOMKilled {
		return fmt.Sprintf("The command '%s' returned a non-zero code: %d: out of memory", e.Command, e.Code)
	}
	return fmt.Sprintf("The command '%s' returned a non-zero code: %d", e.Command, e.Code)
}

// Unwrap returns why the command could not be started.
func (e *ExitError) Unwrap() error { return e.Err }

// Seal removes the container of a run that succeeded, after take has moved its writable layer into an image. skip are the
// paths that do not belong to it. The container is gone afterwards whatever take says, whose error is returned.
func (w *Worker) Seal(ctx context.Context, run Result, take func(ctx context.Context, skip []string) error) error {
	return w.opt.Steps.Surrender(ctx, run.ContainerID, take)
}

// Layer opens what a run has written, as a plain archive, while its container stays. The caller closes it.
func (w *Worker) Layer(ctx context.Context, run Result) (io.ReadCloser, error) {
	return w.opt.Steps.Layer(ctx, run.ContainerID)
}

// Keep leaves the container of a run as an ordinary one that has ended.
func (w *Worker) Keep(ctx context.Context, run Result) error {
	return w.opt.Steps.Keep(ctx, run.ContainerID)
}

// Drop removes the container of a run. One that is gone is no error. ctx does not end it half-way.
func (w *Worker) Drop(ctx context.Context, run Result) error {
	return w.removeContainer(ctx, run.ContainerID)
}
