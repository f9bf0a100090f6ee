// Package monitor is the inside of moss-shim: it runs one container through the OCI runtime, adds processes to it, holds
// their streams, writes its log, serves the engines that come and go, and leaves a record of every end. It outlives its
// engine and knows nothing of images, networks or the API.
//
// Locks, in this order: container.children (shared by runtime calls, held alone while strangers are collected or all
// processes changed), taskFolder.mu (its files), the mutexes of monitor, execTable and taskFolder.watch, process.mu (one
// state), hub.mu (log and viewers), viewer.mu (one connection). container.mu and reaper.mu are held with no other after them.
// Only children, taskFolder.mu and viewer.mu are held during calls that block.
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
	"moss/engine/pidfd"
	"moss/engine/shim/proto"
	"moss/engine/task"
)

const (
	orphanAfter  = 5 * time.Second         // a shim whose task was never started waits so long for another engine
	runtimeLimit = time.Minute             // a call of the runtime that takes longer is killed
	drainLimit   = 1500 * time.Millisecond // for output of a process that outlived the one that is over
)

// monitor is one task: its container, its processes and its folder, and the connections of the engines.
type monitor struct {
	dir       string
	spec      task.Spec
	socket    *listener
	first     *process
	container *container
	execs     *execTable
	reaper    *reaper
	folder    *taskFolder

	mu      sync.Mutex // guards holders
	holders int        // connections that keep a task alive that was never started

	handlers sync.WaitGroup
}

// Run is the life of one shim: it serves the task whose SpecFile lies in dir, says on control that it is ready (or why
// not), and returns when the task has ended and everybody who was connected has what they came for. It takes over the
// process: signals, children, process-wide settings.
func Run(ctx context.Context, dir string, control *os.File) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return refuseTask(control, fmt.Errorf("become a subreaper: %w", err))
	}
	// Huge pages would turn a heap of some hundred kilobytes into megabytes. A kernel without them has nothing to disable.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)

	m, err := newMonitor(dir)
	if err != nil {
		return refuseTask(control, err)
	}
	defer m.socket.close()
	shieldFromSignals(m.spec.Runtime.Path)
	alive, err := openKeepalive(m.spec.Keepalive)
	if err != nil {
		m.first.hub.close()
		return refuseTask(control, err)
	}
	if err := proto.Write(control, proto.Reply{}); err != nil {
		m.first.hub.close()
		return fmt.Errorf("tell the engine: %w", err)
	}
	m.startServing(ctx, control, alive)
	<-m.first.over
	if alive != nil {
		_ = alive.Close()
	}
	m.handlers.Wait()
	return nil
}

// refuseTask tells the engine why there will be no task. The engine reports the error, so the shim itself does not.
func refuseTask(control *os.File, err error) error {
	if werr := proto.Write(control, proto.Fail(err)); werr != nil {
		return err
	}
	return nil
}

func newMonitor(dir string) (*monitor, error) {
	spec, err := proto.ReadSpec(dir)
	if err != nil {
		return nil, err
	}
	spec.Dir = dir
	self, err := pidfd.Find(os.Getpid())
	if err != nil {
		return nil, err
	}
	hub, err := openHub(spec.ID, spec.Log, !spec.Terminal)
	if err != nil {
		return nil, err
	}
	m := &monitor{dir: dir, spec: spec, holders: 1} // the control connection
	m.first = newProcess(&process{
		m: m, name: "task " + spec.ID, dir: dir, terminal: spec.Terminal, openStdin: spec.OpenStdin, stdinOnce: spec.StdinOnce,
		hub: hub, width: spec.Width, height: spec.Height,
	})
	m.container = &container{
		id: spec.ID, dir: dir, runtime: oci.New(spec.Runtime, dir, runtimeEnv()), first: m.first,
		family: &family{bundle: dir, first: m.first}, ending: make(chan struct{}),
	}
	m.execs = &execTable{first: m.first, byID: map[string]*process{}}
	m.reaper = &reaper{container: m.container, execs: m.execs}
	m.folder = &taskFolder{dir: dir, spec: spec, self: self, first: m.first, execs: m.execs}
	if err = m.folder.noteAlive(0); err == nil {
		m.socket, err = openListener(dir, proto.SocketFile)
		m.folder.socket = m.socket
	}
	if err != nil {
		m.first.hub.close()
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

// startServing starts the goroutines that live until the task is over.
func (m *monitor) startServing(ctx context.Context, control, alive *os.File) {
	go m.acceptConns(ctx)
	go func() {
		defer m.removeHolder()
		drainFile(control)
	}()
	if alive != nil {
		go m.watchKeepalive(ctx, alive)
	}
}

// addHolder and removeHolder count the connections. When the last one leaves a task that was never started, its engine has
// died; the shim follows unless another engine comes.
func (m *monitor) addHolder() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holders++
}

func (m *monitor) removeHolder() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holders--
	if m.holders == 0 && m.first.inState(prepared) {
		time.AfterFunc(orphanAfter, func() { _ = m.giveUp(true) })
	}
}

// giveUp ends a task that was never started; with ifAlone only without a connection. It is a conflict while the task
// runs, and no error when it has ended.
func (m *monitor) giveUp(ifAlone bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.first
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.state {
	case starting, running:
		return fault.Conflict("%s is running", p.name)
	case ended, deleted:
		return nil
	case prepared:
	}
	if ifAlone && m.holders > 0 {
		return nil
	}
	p.state = deleted
	go p.releaseWaiters()
	return nil
}
