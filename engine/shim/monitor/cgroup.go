package monitor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroupPath returns the container's path in each hierarchy, empty if it has none.
func cgroupPath(bundle string) string {
	var spec struct {
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
		} `json:"linux"`
	}
	data, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil || json.Unmarshal(data, &spec) != nil || spec.Linux.CgroupsPath == "" {
		return ""
	}
	return filepath.Join("/", spec.Linux.CgroupsPath)
}

// hasFreezer reports whether the container's processes can be frozen by their cgroup.
func hasFreezer(bundle string) bool {
	path := cgroupPath(bundle)
	if path == "" {
		return false
	}
	for _, file := range []string{
		filepath.Join(cgroupRoot, path, "cgroup.freeze"),            // v2
		filepath.Join(cgroupRoot, "freezer", path, "freezer.state"), // v1
	} {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	return false
}

// isFrozen reports whether a cgroup with a freezer is frozen, not only about to be.
func isFrozen(path string) bool {
	if data, err := os.ReadFile(filepath.Join(cgroupRoot, path, "cgroup.events")); err == nil { // v2
		return strings.Contains("\n"+string(data), "\nfrozen 1\n")
	}
	data, err := os.ReadFile(filepath.Join(cgroupRoot, "freezer", path, "freezer.state")) // v1
	return err == nil && string(data) == "FROZEN\n"
}

// cgroupPids lists the processes of the container's cgroup and of those below it; nothing if it has none.
func cgroupPids(bundle string) []int {
	path := cgroupPath(bundle)
	if path == "" {
		return nil
	}
	dirs, err := filepath.Glob(cgroupRoot + "/*" + path) // v1: any hierarchy will do
	if err != nil {
		return nil
	}
	for _, dir := range append([]string{cgroupRoot + path}, dirs...) {
		if pids := treePids(dir); len(pids) > 0 {
			return pids
		}
	}
	return nil
}

// treePids collects cgroup.procs in a folder and all below it. A group that goes meanwhile has no processes.
func treePids(dir string) []int {
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	pids := parsePids(string(data))
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() {
			pids = append(pids, treePids(filepath.Join(dir, entry.Name()))...)
		}
	}
	return pids
}

// parsePids reads numbers between white space and skips what is none, or 0, which stands for a process that cannot be
// seen from here.
func parsePids(text string) []int {
	var pids []int
	for field := range strings.FieldsSeq(text) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// dropCgroup removes the container's cgroups if they are empty: crun 1.8 leaves them when a start fails on a limit that
// the kernel refuses.
func dropCgroup(bundle string) {
	path := cgroupPath(bundle)
	if path == "" {
		return
	}
	dirs, err := filepath.Glob(cgroupRoot + "/*" + path) // v1
	if err != nil {
		return
	}
	for _, dir := range append(dirs, cgroupRoot+path) {
		unix.Rmdir(dir) //nolint:errcheck // most of the time the runtime has done so
	}
}
