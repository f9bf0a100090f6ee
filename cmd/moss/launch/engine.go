package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"moss/engine/config"
	"moss/engine/pidfd"
)

// Engine is an engine that holds the folders of the default place.
type Engine struct {
	Process pidfd.ID // the outer one, whose end is that of the engine
	Hosts   []string // where clients find it; empty while it starts
}

// Root returns the data folder of an engine that is started now. Wrong settings are fault.Invalid.
func (s *Starter) Root() (string, error) {
	cfg, err := config.Load(config.Options{Environ: s.Env})
	return cfg.Root, err
}

// Running returns the engine that holds the data folder, or the folder of this boot, wherever it listens. found is false if
// there is none that this user can see. Wrong settings, which name no data folder, are fault.Invalid.
func (s *Starter) Running() (engine Engine, found bool, err error) {
	root, err := s.Root()
	if err == nil {
		engine, found = lockHolder(root)
	}
	if !found {
		engine, found = lockHolder(s.Place.RunDir)
	}
	if found {
		err = nil
	}
	return engine, found, err
}

// lockHolder returns the engine that has a folder's lock.
func lockHolder(dir string) (Engine, bool) {
	lines, info := readLock(filepath.Join(dir, lockName))
	var pid int
	if len(lines) == 0 {
		return Engine{}, false
	}
	if _, err := fmt.Sscanf(lines[0], "pid %d on", &pid); err != nil {
		return Engine{}, false
	}
	process, err := pidfd.Find(pid)
	if err != nil || !hasOpen(pid, info) {
		return Engine{}, false // it was killed, or the number is another one's by now
	}
	return Engine{Process: process, Hosts: lines[1:]}, true
}

// hasOpen reports whether a process of the user's has a file open.
func hasOpen(pid int, file os.FileInfo) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, entry := range entries {
		if info, err := os.Stat(filepath.Join(dir, entry.Name())); err == nil && os.SameFile(info, file) {
			return true
		}
	}
	return false
}

// Inner returns the number of the process that answers the API, which changes when it is replaced; 0 if there is none just
// now, or if the kernel does not tell.
func (e Engine) Inner() int {
	const generations = 3 // it is the supervisor's child, that of the process that keeps the namespaces, that of the outer one
	family := []int{e.Process.Pid}
	for range generations {
		next := make([]int, 0, len(family))
		for _, pid := range family {
			next = append(next, childrenOf(pid)...)
		}
		family = next
	}
	for _, pid := range family {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && strings.TrimSpace(string(name)) == "mossd-engine" {
			return pid
		}
	}
	return 0
}

func childrenOf(pid int) (children []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well formed
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has gone
		}
		for field := range strings.FieldsSeq(string(raw)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// Log returns where the engine writes its log, as the kernel names it: a file's path, a terminal, a pipe or a socket; empty if
// that cannot be told.
func (e Engine) Log() string {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", e.Process.Pid))
	if err != nil {
		return ""
	}
	return name
}

// Start starts the engine in the background, or the unit that is enabled for it, and waits until it answers. started is false
// if one answered already.
func (s *Starter) Start(ctx context.Context) (started bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	_, running, _ := s.Running() // what keeps it from being found keeps it from starting as well
	if s.isAnswering(ctx) {
		return !running, nil // a socket of systemd has started it
	}
	if conn, ok := s.dialHolder(ctx); ok {
		return false, conn.Close()
	}
	if s.queryUnitState(ctx) == unitEnabled {
		if err := runSystemctl(ctx, "start", socket, service); err != nil {
			return false, err
		}
	}
	return true, s.startEngine(ctx)
}

// Stop ends the engine, and its containers by their stop signals, and returns when it has ended. A socket of systemd, by which
// the next client starts another one, is closed only if sockets is true. stopped is false if none ran.
func (s *Starter) Stop(ctx context.Context, sockets bool) (stopped bool, err error) {
	var units []string
	if sockets && s.inCharge(ctx, socket) {
		units = append(units, socket)
	}
	if s.inCharge(ctx, service) {
		units, stopped = append(units, service), true
	}
	if len(units) > 0 {
		if err := runSystemctl(ctx, "stop", units...); err != nil {
			return stopped, err
		}
	}
	engine, found, err := s.Running()
	if err != nil || !found {
		return stopped, err
	}
	if err := engine.Process.Signal(int(syscall.SIGTERM)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return stopped, fmt.Errorf("stop the engine: %w", err)
	}
	return true, engine.Process.Await(ctx)
}
