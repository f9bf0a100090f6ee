package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is one process as far as memory goes.
type process struct {
	pid, parent int
	name        string
	userNS      string
	ended       bool // but not reaped
}

// engineProcesses returns all processes of an engine: those that descend from the one that was started, and those that
// live in their user namespaces and lost their parent (shims, conmon, the containers themselves).
func engineProcesses(all []process, root int, ownNS string) []process {
	inside := map[int]bool{root: true}
	spaces := map[string]bool{}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !inside[p.pid] && (inside[p.parent] || spaces[p.userNS]) {
				inside[p.pid], grown = true, true
			}
			if inside[p.pid] && p.userNS != "" && p.userNS != ownNS && !spaces[p.userNS] {
				spaces[p.userNS], grown = true, true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p process) bool { return !inside[p.pid] })
}

// memoryOf adds up the PSS of the engine's processes, in MiB, whole and by program. A process whose memory cannot be
// read is an error: a sum without it would flatter.
func memoryOf(root int) (total float64, byName map[string]float64, err error) {
	all, err := listProcesses()
	if err != nil {
		return 0, nil, err
	}
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return 0, nil, err
	}
	byName = map[string]float64{}
	for _, p := range engineProcesses(all, root, own) {
		raw, err := os.ReadFile(procFile(p.pid, "smaps_rollup"))
		if hasEnded(err) {
			continue
		}
		if err != nil {
			return 0, nil, fmt.Errorf("memory of %s: %w", p.name, err)
		}
		pss, err := parsePSS(raw)
		if err != nil {
			return 0, nil, fmt.Errorf("memory of %s: %w", p.name, err)
		}
		total += pss
		byName[p.name] += pss
	}
	return total, byName, nil
}

// hasEnded tells whether a file of a process cannot be read because the process has ended, reaped or not.
func hasEnded(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) }

func procFile(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

// listProcesses lists what runs. A process that ends meanwhile is left out.
func listProcesses() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(procFile(pid, "stat"))
		if err != nil {
			continue
		}
		p, err := parseStat(string(stat))
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
		p.userNS, _ = os.Readlink(procFile(pid, "ns/user")) // empty for another user's, which is not the engine's
		all = append(all, p)
	}
	return all, nil
}

// parseStat reads the beginning of /proc/PID/stat; the name in it may hold anything.
func parseStat(stat string) (process, error) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("malformed stat %q", stat)
	}
	rest := strings.Fields(stat[end+1:])
	if len(rest) < 2 {
		return process{}, fmt.Errorf("malformed stat %q", stat)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(stat[:open]))
	if err != nil {
		return process{}, err
	}
	parent, err := strconv.Atoi(rest[1])
	if err != nil {
		return process{}, err
	}
	return process{pid: pid, parent: parent, name: stat[open+1 : end], ended: rest[0] == "Z" || rest[0] == "X"}, nil
}

// parsePSS returns the Pss line of smaps_rollup in MiB. A process that has no memory any more has none.
func parsePSS(rollup []byte) (float64, error) {
	lines := bufio.NewScanner(bytes.NewReader(rollup))
	for lines.Scan() {
		value, found := strings.CutPrefix(lines.Text(), "Pss:")
		if !found {
			continue
		}
		kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(value, "kB")))
		if err != nil {
			return 0, fmt.Errorf("malformed line %q", lines.Text())
		}
		return float64(kb) / 1024, nil
	}
	return 0, lines.Err()
}
