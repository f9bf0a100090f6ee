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

// oomKilled reports whether the kernel killed a process of the container for memory. It must be asked before the runtime
// deletes the cgroup, and says false of a container without one.
func oomKilled(bundle string) bool {
	path := cgroupPath(bundle)
	if path == "" {
		return false
	}
	for _, file := range []string{
		filepath.Join(cgroupRoot, path, "memory.events"),                // v2
		filepath.Join(cgroupRoot, "memory", path, "memory.oom_control"), // v1
	} {
		if data, err := os.ReadFile(file); err == nil {
			return oomKills(string(data)) > 0
		}
	}
	return false
}

// oomKills reads the oom_kill counter of memory.events or memory.oom_control, 0 if there is none.
func oomKills(text string) int {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err == nil {
				return n
			}
		}
	}
	return 0
}

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
