package monitor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

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
