// Package task is the contract between the engine and whatever runs a container's processes.
//
// The engine's lifecycle speaks to a Runner and never learns that a shim and an OCI runtime stand behind it. Package
// tasktest holds the suite that every Runner must pass, and a fake for the lifecycle's own tests.
package task

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"moss/engine/pidfd"
)

// Spec is all that a Runner needs to run one container.
type Spec struct {
	ID  string // the container's id
	Dir string // the task's folder; exists, holds config.json (OCI runtime spec); lives no longer than this boot

	Terminal   bool   // one pty instead of three pipes
	OpenStdin  bool   // keep stdin open while nobody is attached
	StdinOnce  bool   // close stdin after the first attached client has gone
	Width      uint16 // first size of the pty in characters; 0 leaves it to the kernel
	Height     uint16
	Log        Log     // where output goes beside the attached viewers
	StopSignal int     // sent when the engine's outer process dies
	Runtime    Runtime // how to call the OCI runtime
	Keepalive  string  // a FIFO whose writer is the outer process; its end ends the task. Empty: live on
}

// Runtime says how to call the OCI runtime.
type Runtime struct {
	Path       string   // of the crun or runc binary
	Root       string   // the runtime's own state folder
	GlobalArgs []string // before the verb, for example --cgroup-manager=cgroupfs
}

// Log configures the task's log file.
type Log struct {
	Driver   string // name of a row of package logdriver
	Path     string // of the log's file; with journald of the file that tells of its last entry
	MaxSize  int64  // bytes of one file before it is rotated; 0 is unlimited
	MaxFiles int    // files kept, the current one included; at least 1
	Compress bool   // files that are no longer written to are packed with gzip
	Buffer   int64  // bytes of output that wait for the log before lines are dropped; 0: the container waits for the log
	// Attrs is a JSON object of strings that every entry carries; empty for none.
	Attrs json.RawMessage `json:",omitempty"`
	// Fields go with every entry of the journal; empty for other drivers.
	Fields map[string]string `json:",omitempty"`
	// Socket is that of moss-log, for a driver with a receiver, and Target what moss-log is told of it: a logforward.Target.
	Socket string          `json:",omitempty"`
	Target json.RawMessage `json:",omitempty"`
}

// Exit is how a task ended.
type Exit struct {
	Code          int       // 0-255; 128+n for signal n
	At            time.Time // when the first process ended
	OOMKilled     bool      // the kernel killed a process of the container for memory
	Error         string    // why the engine ended it, for people; empty if it ended by itself
	KilledMonitor pidfd.ID  // that did not answer; while it lives the kernel holds it in a write. Zero: none
	DroppedLines  int64     // of output that a log with a Buffer has not got
}

// Status is what a Runner knows about a task.
type Status struct {
	Pid       int       // of the container's first process in the engine's pid namespace; 0 before it runs
	StartedAt time.Time // zero before it runs
	Paused    bool      // Pause was called and Resume was not; always false of an added process
	Exit      *Exit     // nil while it runs
}

// Attach asks for a view on a task's streams.
type Attach struct {
	Stdin, Stdout, Stderr bool
	// Mark asks for the position of the log at the moment of joining, so that a reader of the log and the viewer
	// together see every byte once.
	Mark bool
}

// Mark is a position in a task's log.
type Mark struct {
	Inode uint64 // of the current log file
	Size  int64  // its bytes at that moment
}

// Streams is a joined view. Reads give the output: raw bytes of the pty with Terminal, otherwise frames (package stdio).
// Writes are stdin. Close leaves; CloseWrite ends stdin only (and with StdinOnce, or without OpenStdin's other viewers,
// the process sees the end of its input). Read returns io.EOF when the task has ended and all output was delivered.
type Streams interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// ExecSpec is one more process for a running container.
type ExecSpec struct {
	ID      string          // 64 hexadecimal digits, unique in the container
	Process json.RawMessage // the OCI runtime spec's process object (package ocispec makes it)

	Terminal  bool   // one pty instead of three pipes
	OpenStdin bool   // take input from viewers; otherwise the process reads its end at once
	Width     uint16 // first size of the pty in characters; 0 leaves it to the kernel
	Height    uint16
}

// ErrSilent says that a task's monitor did not answer in time. Nothing is known of the task then but that it is not over.
var ErrSilent = errors.New("the container's monitor does not answer")

// Process is a process that can be watched and spoken to: a container's first one, or one that was added to it.
//
// The order of life is any number of Attach, Start, Wait, Delete. Every method may be called by several goroutines.
type Process interface {
	// Attach joins the streams. It may come before Start: nothing the process writes is lost to a view joined then.
	// fault.Conflict when the process has ended. An added process has no log, and its Mark is zero.
	Attach(ctx context.Context, req Attach) (Streams, Mark, error)
	// Start runs the process and returns its pid once it has been executed. A command that cannot be executed gives
	// fault.NotFound (no such file) or fault.Forbidden (not executable), other refusals of the runtime a plain error; the
	// process has then ended (126, 127 or 128) and only Delete is left.
	Start(ctx context.Context) (pid int, err error)
	// Signal sends a signal to the process; 0 only asks whether it lives. fault.Conflict when it has ended.
	Signal(ctx context.Context, signal int) error
	// Resize sets the size of the pty in characters. fault.Conflict without a pty or after the end.
	Resize(ctx context.Context, width, height uint16) error
	// Wait blocks until the process has ended, its output is drained and its log is complete.
	Wait(ctx context.Context) (Exit, error)
	// Status does not block on the process.
	Status(ctx context.Context) (Status, error)
	// Delete removes what the runtime and the shim keep of an ended or never started process. A second Delete is no error.
	Delete(ctx context.Context) error
}

// Task is one container's process tree, running or about to. As a Process it is the tree's first one, whose end is that of
// all.
type Task interface {
	Process
	Group
	Monitored
}

// Monitored is what is done about a monitor that does not answer. A task's own Signal and Wait know of that as well: Signal
// goes to the process by its id then, with SIGKILL as Destroy does, and Wait ends with ErrSilent when another call has met
// the silence.
type Monitored interface {
	// Reach is Status that waits for the answer as long as ctx does.
	Reach(ctx context.Context) (Status, error)
	// Destroy ends the task without its monitor: it kills the first process, then the monitor, each known by the number and
	// the time of its start, and whatever else there is of the container. The exit is 137. A plain error when the process is
	// not known or does not end; the monitor is left alone then. No error when the task is over.
	Destroy(ctx context.Context) error
}

// Group is what is done to all processes of a running container at once. Without one all of it is fault.Conflict.
type Group interface {
	// Exec makes one more process ready; nothing runs yet. Its streams are its own and go nowhere but to those attached. It
	// ends, with 137, when the container's first process does; an engine's death does not touch it. The end of a viewer's
	// input is that of the process's. Its Start in a paused container is fault.Conflict and may be tried again.
	Exec(ctx context.Context, spec ExecSpec) (Process, error)
	// AdoptExec finds a process that an earlier engine has added, alive or ended and not yet deleted, also when the
	// container has ended since. fault.NotFound if there is none of that id.
	AdoptExec(ctx context.Context, id string) (Process, error)
	// Pause freezes all processes: by the cgroup freezer where the container has one, otherwise with SIGSTOP to each.
	// Pausing what is paused is no error.
	Pause(ctx context.Context) error
	// Resume undoes Pause. Resuming what is not paused is no error.
	Resume(ctx context.Context) error
	// Update changes the limits of the container's cgroup: an OCI runtime spec's linux.resources object. fault.Unsupported
	// without a cgroup.
	Update(ctx context.Context, resources json.RawMessage) error
	// Pids lists the container's processes in the engine's pid namespace, ascending.
	Pids(ctx context.Context) ([]int, error)
}

// Runner makes tasks and finds those that an earlier engine left.
type Runner interface {
	// Prepare makes everything ready up to the process itself. On error nothing is left.
	Prepare(ctx context.Context, spec Spec) (Task, error)
	// Adopt finds the task of an earlier engine in its folder: running, or ended with the exit that its shim recorded.
	// fault.NotFound when there is neither a living shim nor a recorded exit. Any other error says that what became of the
	// task is not known, and comes with the task, to be reached or destroyed.
	Adopt(ctx context.Context, id, dir string) (Task, error)
}
