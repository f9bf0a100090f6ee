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

// family is the first process of a container and the processes that belong to it.
type family struct {
	bundle string // the task's folder
	first  *process

	// Set before the first process runs, and not changed any more.
	ownPids bool   // the container has a pid namespace of its own
	mounts  string // the mount namespace of the first process. Empty: it ended at once
	since   uint64 // when the first process began, as in stat
}

// noteFirst notes what the container's other processes are found by, once the first one runs.
func (f *family) noteFirst(pid int) {
	f.ownPids = isInit(pid)
	if f.ownPids {
		return
	}
	f.mounts = mountsOf(pid)
	if st, ok := pidfd.ReadStat(pid); ok {
		f.since = st.Start
	}
}

// listPids lists the container's processes, ascending and without zombies.
func (f *family) listPids() ([]int, error) {
	if !f.first.inState(running) {
		return nil, f.first.notRunning()
	}
	pids := cgroupPids(f.bundle)
	if len(pids) == 0 {
		pids = f.familyPids()
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
// a parent that was listed already: only two equal lists in a row are believed.
func (f *family) familyPids() []int {
	last := f.lookAtFamily()
	for range listTries {
		next := f.lookAtFamily()
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
func (f *family) lookAtFamily() []int {
	own := mountsOf(os.Getpid())
	var pids []int
	first := f.first.runningPid()
	if first != 0 {
		pids = appendTree(pids, first)
	}
	for _, child := range childPids() {
		if child != first && mountsOf(child) != own {
			pids = appendTree(pids, child)
		}
	}
	if !f.ownPids {
		pids = append(pids, f.insidePids()...)
	}
	slices.Sort(pids)
	return slices.Compact(pids)
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
func (f *family) insidePids() []int {
	if f.mounts == "" {
		return rootedPids(rootOf(f.bundle), f.since)
	}
	if f.mounts == mountsOf(os.Getpid()) {
		return nil // should a runtime leave it there: none is better than all
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/mnt")
	if err != nil {
		return nil
	}
	var pids []int
	for _, link := range links {
		if id, err := os.Readlink(link); err == nil && id == f.mounts {
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
