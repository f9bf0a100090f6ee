package executor

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

// bounds is what cgroups leave to this process and to the containers, which are below the same ones; 0: all there is.
type bounds struct {
	nanoCPUs int64 // per second
	memory   int64 // bytes
}

// readBounds reads the bounds of a process's cgroup and of those above it, as far as they are seen. self is the process's
// /proc/PID/cgroup. A machine with cgroup v1, or without any, has none.
func readBounds(root, self string) bounds {
	var least bounds
	group, ok := findGroup(self)
	if !ok {
		return least
	}
	for dir := group; ; dir = path.Dir(dir) {
		if memory, ok := readWords(path.Join(root, dir, "memory.max"), 1); ok {
			least.memory = lesserBound(least.memory, memory[0])
		}
		if cpu, ok := readWords(path.Join(root, dir, "cpu.max"), 2); ok && cpu[1] > 0 {
			least.nanoCPUs = lesserBound(least.nanoCPUs, int64(float64(cpu[0])/float64(cpu[1])*1e9))
		}
		if dir == "/" {
			return least
		}
	}
}

// findGroup returns the cgroup v2 of a process, as it sees it.
func findGroup(self string) (string, bool) {
	raw, err := os.ReadFile(self)
	if err != nil {
		return "", false
	}
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		if group, ok := strings.CutPrefix(lines.Text(), "0::/"); ok {
			return path.Clean("/" + group), true
		}
	}
	return "", false
}

// readWords reads so many numbers from a file of cgroup v2. A file that says "max", or that is not there, has none.
func readWords(name string, count int) ([]int64, bool) {
	raw, err := os.ReadFile(name)
	words := strings.Fields(string(raw))
	if err != nil || len(words) != count {
		return nil, false
	}
	numbers := make([]int64, count)
	for i, word := range words {
		if numbers[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			return nil, false
		}
	}
	return numbers, true
}

// lesserBound returns the smaller of two bounds, of which the first may be none.
func lesserBound(bound, other int64) int64 {
	if bound == 0 {
		return other
	}
	return min(bound, other)
}
