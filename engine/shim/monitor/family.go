package monitor

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"moss/engine/pidfd"
)

// noteFamily notes what the container's other processes are found by, once the first one runs.
func (m *monitor) noteFamily(pid int) {
	m.ownPids = isInit(pid)
	if m.ownPids {
		return
	}
	m.mounts = mountsOf(pid)
	if st, ok := pidfd.ReadStat(pid); ok {
		m.since = st.Start
	}
}

// listPids lists the container's processes, ascending and without zombies.
func (m *monitor) listPids() ([]int, error) {
	if !m.first.inState(running) {
		return nil, m.first.notRunning()
	}
	pids := cgroupPids(m.dir)
	if len(pids) == 0 {
		pids = m.familyPids()
	}
	slices.Sort(pids)
	return slices.DeleteFunc(slices.Compact(pids), func(pid int) bool {
		st, ok := pidfd.ReadStat(pid)
		return !ok || st.Dead()
	}), nil
}

// listTries bounds how often what may have been misread is read again: a container may change faster than it is listed.
const listTries = 8

// familyPids finds the container's processes without a cgroup. A process whose parent ends while they are listed moves to
// where nobody looks any more: only two equal lists in a row are believed.
func (m *monitor) familyPids() []int {
	last := m.lookAtFamily()
	for range listTries {
		next := m.lookAtFamily()
		if slices.Equal(next, last) {
			break
		}
		last = next
	}
	return last
}

// lookAtFamily lists the first process, and the shim's descendants but for the runtime's own, which have not left the
// shim's mount namespace. In another container's pid namespace orphans go to its first process, so what is in the
// container's mount namespace counts as well.
func (m *monitor) lookAtFamily() []int {
	own := mountsOf(os.Getpid())
	var pids []int
	first := m.firstPid()
	if first != 0 {
		pids = appendTree(pids, first)
	}
	for _, child := range childPids() {
		if child != first && mountsOf(child) != own {
			pids = appendTree(pids, child)
		}
	}
	if !m.ownPids {
		pids = append(pids, m.insidePids()...)
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// firstPid returns the first process; 0 if it does not run.
func (m *monitor) firstPid() int {
	p := m.first
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != running {
		return 0
	}
	return p.pid
}

// isFirstAlive reports whether the first process has not ended. The kernel knows of an end before the shim does.
func (m *monitor) isFirstAlive() bool {
	st, ok := pidfd.ReadStat(m.firstPid())
	return ok && !st.Dead()
}

// appendTree adds a process and all below it.
func appendTree(pids []int, pid int) []int {
	pids = append(pids, pid)
	for _, child := range childrenOf(pid) {
		pids = appendTree(pids, child)
	}
	return pids
}

// childPids lists what became the shim's child without having been forked by it, zombies included. The kernel gives it to
// the shim's first thread.
func childPids() []int {
	self := strconv.Itoa(os.Getpid())
	return readChildren("/proc/"+self+"/task/"+self+"/children", os.ReadFile)
}

// readChildren reads one of the kernel's lists of children. The kernel leaves some out if one before them is collected
// while it writes the list (proc(5)), but never all of them: only an empty list, and two equal ones in a row, are believed.
func readChildren(file string, read func(string) ([]byte, error)) []int {
	last, _ := read(file) // a thread that has ended has none, and a kernel without has nothing to offer instead
	for try := 0; try < listTries && len(last) > 0; try++ {
		next, _ := read(file)
		if bytes.Equal(next, last) {
			break
		}
		last = next
	}
	return parsePids(string(last))
}

// childrenOf lists the children of all threads of a process.
func childrenOf(pid int) []int {
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		return nil
	}
	var pids []int
	for _, file := range files {
		pids = append(pids, readChildren(file, os.ReadFile)...)
	}
	return pids
}

// insidePids lists the processes in the mount namespace of the first one. If that one ended before it could be asked, they
// are known by their root folder.
func (m *monitor) insidePids() []int {
	if m.mounts == "" {
		return rootedPids(rootOf(m.dir), m.since)
	}
	if m.mounts == mountsOf(os.Getpid()) {
		return nil // should a runtime leave it there: none is better than all
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/mnt")
	if err != nil {
		return nil
	}
	var pids []int
	for _, link := range links {
		if id, err := os.Readlink(link); err == nil && id == m.mounts {
			pids = append(pids, parsePids(strings.Split(link, "/")[2])...)
		}
	}
	return pids
}

// mountsOf names a process's mount namespace; empty if it has ended.
func mountsOf(pid int) string {
	id, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/mnt")
	if err != nil {
		return ""
	}
	return id
}

// isInit reports whether a process is surely the first one of its pid namespace.
func isInit(pid int) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 1024) // the line is not far from the top; every start pays for the rest
	n, err := f.Read(head)
	return err == nil && innermostPid(string(head[:n])) == 1
}

// innermostPid reads a process's number in its own pid namespace from /proc/PID/status, 0 if it is not there.
func innermostPid(status string) int {
	for line := range strings.Lines(status) {
		rest, ok := strings.CutPrefix(line, "NSpid:")
		if !ok || !strings.HasSuffix(line, "\n") { // cut off
			continue
		}
		if pids := parsePids(rest); len(pids) > 0 {
			return pids[len(pids)-1]
		}
	}
	return 0
}
