// Package monitor is the inside of moss-shim: it runs one container through the OCI runtime, holds its streams, writes
// its log, serves the engines that come and go, and leaves a record of the end. It outlives its engine and knows nothing
// of images, networks or the API.
//
// Locks, in this order: children (no runtime call while reaping, no reaping during a runtime call), mu (the state),
// hub.mu (log and viewers), viewer.mu (one connection). None but children and viewer.mu is held while something blocks.
package monitor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/oci"
	"moss/engine/shim/proto"
	"moss/engine/task"
)

const (
	orphanAfter  = 5 * time.Second         // a shim whose task was never started waits so long for another engine
	runtimeLimit = 2 * time.Minute         // a call of the runtime that takes longer is killed
	drainLimit   = 1500 * time.Millisecond // for output of a process that outlived the container's first one
	trimAfter    = time.Second             // memory goes back to the system so long after the start
)

type state int

const (
	prepared state = iota
	starting
	running
	ended   // the first process has ended or never started; the record follows
	deleted // given up before the start; there is no record
)

type monitor struct {
	dir     string
	spec    task.Spec
	runtime *oci.Runtime
	socket  *listener
	hub     *hub
	stdin   *stdin

	children sync.Mutex // held during every runtime call and while reaping: each waits for its own processes only

	mu      sync.Mutex // guards the fields down to the next blank line
	state   state
	pid     int
	record  proto.Record
	reason  string // why the engine's side ended the task
	tty     *terminal
	width   uint16
	height  uint16
	holders int // connections that keep a task alive that was never started

	pumps    []*source
	pumping  sync.WaitGroup
	handlers sync.WaitGroup
	started  chan struct{} // closed when the first process runs
	over     chan struct{} // closed when the record is written, or the task was given up
	overOnce sync.Once
}

// Run is the life of one shim: it serves the task whose SpecFile lies in dir, says on control that it is ready (or why
// not), and returns when the task has ended and everybody who was connected has what they came for. It takes over the
// process: signals, children, process-wide settings.
func Run(ctx context.Context, dir string, control *os.File) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return refuse(control, fmt.Errorf("become a subreaper: %w", err))
	}
	// Huge pages would turn a heap of some hundred kilobytes into megabytes. A kernel without them has nothing to disable.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)

	m, err := prepare(dir)
	if err != nil {
		return refuse(control, err)
	}
	defer m.socket.close()
	shieldFromSignals(m.spec.Runtime.Path)
	alive, err := openKeepalive(m.spec.Keepalive)
	if err != nil {
		m.hub.close()
		return refuse(control, err)
	}
	if err := proto.Write(control, proto.Reply{}); err != nil {
		m.hub.close()
		return fmt.Errorf("tell the engine: %w", err)
	}
	m.serve(ctx, control, alive)
	<-m.over
	if alive != nil {
		_ = alive.Close()
	}
	m.handlers.Wait()
	return nil
}

// refuse tells the engine why there will be no task. The engine reports the error, so the shim itself does not.
func refuse(control *os.File, err error) error {
	if werr := proto.Write(control, proto.Fail(err)); werr != nil {
		return err
	}
	return nil
}

func prepare(dir string) (*monitor, error) {
	spec, err := proto.ReadSpec(dir)
	if err != nil {
		return nil, err
	}
	spec.Dir = dir
	log, err := openLog(spec.Log)
	if err != nil {
		return nil, err
	}
	m := &monitor{
		dir:     dir,
		spec:    spec,
		runtime: oci.New(spec.Runtime, runtimeEnv()),
		hub:     newHub(log, !spec.Terminal),
		stdin:   newStdin(),
		width:   spec.Width,
		height:  spec.Height,
		holders: 1, // the control connection
		started: make(chan struct{}),
		over:    make(chan struct{}),
	}
	if m.socket, err = listen(dir, proto.SocketFile); err != nil {
		m.hub.close()
		return nil, err
	}
	return m, nil
}

// runtimeEnv is the fixed environment of the OCI runtime, with what its systemd cgroup manager needs.
func runtimeEnv() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, name := range []string{"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// serve starts the goroutines that live until the task is over.
func (m *monitor) serve(ctx context.Context, control, alive *os.File) {
	go m.accept(ctx)
	go func() {
		defer m.leave()
		drainFile(control)
	}()
	if alive != nil {
		go m.watchKeepalive(alive)
	}
}

// enter and leave count the connections. When the last one leaves a task that was never started, its engine has died;
// the shim follows unless another engine comes.
func (m *monitor) enter() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holders++
}

func (m *monitor) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holders--
	if m.holders == 0 && m.state == prepared {
		time.AfterFunc(orphanAfter, func() { _ = m.giveUp(true) })
	}
}

// giveUp ends a task that was never started; with ifAlone only if nobody is connected. It is a conflict while the task
// runs, and no error when it has ended.
func (m *monitor) giveUp(ifAlone bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.state {
	case starting, running:
		return fault.Conflict("task %s is running", m.spec.ID)
	case ended, deleted:
		return nil
	case prepared:
	}
	if ifAlone && m.holders > 0 {
		return nil
	}
	m.state = deleted
	go func() {
		m.hub.end()
		m.hub.close()
		m.finishOver()
	}()
	return nil
}

// finishOver lets everybody know that the task is over. The socket goes first: once a waiting engine knows, the folder
// may belong to the task's next run.
func (m *monitor) finishOver() {
	m.overOnce.Do(func() {
		m.stdin.close()
		m.socket.close()
		close(m.over)
	})
}

// status returns what there is to know now.
func (m *monitor) status() proto.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record
}
