package stats

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/stats/proc"
)

// source tells what a container uses. ok is false for what it does not tell: the next source is asked then.
type source interface {
	readCPU(c *CPU) (ok bool, err error)
	readMemory(m *Memory) (ok bool, err error)
	readTasks(t *Tasks) (ok bool, err error)
	readBlockIO(b *BlockIO) (ok bool, err error)
}

// reading is all that one sample is read from.
type reading struct {
	proc    proc.Dir
	cgroups string
	pid     int    // of the container's first process
	id      string // of the container
	pids    func() ([]int, error)
}

// readSample reads a sample; its names and previous CPU are left to the caller.
func (r *reading) readSample() (*Sample, error) {
	s := &Sample{Read: time.Now()}
	machine, err := r.proc.Machine()
	if err != nil {
		return nil, err
	}
	s.CPU.System, s.CPU.Online = machine.CPU, len(machine.Online)
	s.CPU.PerCPU = make([]uint64, len(machine.Online))
	if s.Memory.Limit, err = r.proc.MemTotal(); err != nil {
		return nil, err
	}
	groups, err := r.proc.Cgroups(r.pid)
	if err != nil && !isGone(err) {
		return nil, fmt.Errorf("cgroup of process %d: %w", r.pid, err)
	}
	sources := []source{
		legacy{root: r.cgroups, paths: groups, id: r.id, online: machine.Online},
		unified{dir: ownGroup(r.cgroups, groups[""], r.id)},
		&processes{proc: r.proc, pids: r.pids},
	}
	for _, part := range []func(source) (bool, error){
		func(from source) (bool, error) { return from.readCPU(&s.CPU) },
		func(from source) (bool, error) { return from.readMemory(&s.Memory) },
		func(from source) (ok bool, err error) { return from.readTasks(&s.Tasks) },
		func(from source) (bool, error) { return from.readBlockIO(&s.BlockIO) },
	} {
		if err := firstOf(sources, part); err != nil {
			return nil, err
		}
	}
	s.Networks, err = r.readNetworks()
	return s, err
}

func firstOf(sources []source, part func(source) (bool, error)) error {
	for _, from := range sources {
		if ok, err := part(from); ok || err != nil {
			return err
		}
	}
	return nil
}

// readNetworks reads the interfaces of the container's network namespace: another container's that it shares, but not the
// host's.
func (r *reading) readNetworks() (map[string]Interface, error) {
	shared, err := r.proc.SharesNetwork(r.pid)
	if err != nil || shared {
		return nil, unlessGone(err)
	}
	all, err := r.proc.Network(r.pid)
	if err != nil {
		return nil, unlessGone(err)
	}
	delete(all, "lo") // carries what the container says to itself
	return all, nil
}

// ownGroup returns the folder of the container's own cgroup, which has the container's id for a name; its processes may be
// deeper. It is empty if the process at path is in none.
func ownGroup(hierarchy, path, id string) string {
	before, _, found := strings.Cut(path+"/", "/"+id+"/")
	if !found {
		return ""
	}
	return filepath.Join(hierarchy, before, id)
}

// isGone reports whether an error means that a process, a cgroup or a file of it is not there.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}

func unlessGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}
