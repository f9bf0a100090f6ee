// Package proc reads what the kernel tells of processes and of the machine in /proc. It knows nothing of containers.
//
// Its errors are those of the files: fs.ErrNotExist or ESRCH for a process that has ended, fault.Invalid for a text that
// is not what the kernel writes.
package proc

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
)

// Tick is the unit in which the kernel tells times of processes: the same on every platform that Go knows.
const Tick = 10 * time.Millisecond

// maxFile is how many bytes of a file are read. Longer ones are the command lines of processes, which are cut.
const maxFile = 1 << 20

// Dir is where a proc file system is mounted, /proc.
type Dir string

// Stat is what /proc/PID/stat tells. Times are in ticks, with those of all threads.
type Stat struct {
	Pid                      int
	Command                  string // at most 15 bytes, of any value but zero
	State                    byte   // a letter, R S D T t Z I …
	Parent, Group, Session   int
	TTY                      int // device number of the terminal; 0: none
	Foreground               int // the terminal's foreground process group
	MinorFaults, MajorFaults uint64
	User, System             uint64 // time of its own
	ChildMinor, ChildMajor   uint64 // of children that ended and were waited for, and theirs
	ChildUser, ChildSystem   uint64
	Priority, Nice, Threads  int
	Start                    uint64 // ticks since boot
	Virtual                  uint64 // bytes
	Resident                 uint64 // pages
	Processor                int    // that it ran on last
}

// Stat reads /proc/PID/stat.
func (d Dir) Stat(pid int) (Stat, error) {
	raw, err := d.readProcessFile(pid, "stat")
	if err != nil {
		return Stat{}, err
	}
	return parseStat(raw)
}

// parseStat finds the command between the first parenthesis and the last: it may hold anything.
func parseStat(raw []byte) (s Stat, err error) {
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 1 || end < open {
		return s, fault.Invalid("not a stat line: %.80q", raw)
	}
	fields := strings.Fields(string(raw[end+1:]))
	const processor = 36 // place of the last field that is used, counted from the state
	if len(fields) <= processor || len(fields[0]) != 1 {
		return s, fault.Invalid("stat line of %d fields: %.80q", len(fields), raw)
	}
	if s.Pid, err = strconv.Atoi(strings.TrimSpace(string(raw[:open]))); err != nil {
		return s, fault.Invalid("not a stat line: %.80q", raw)
	}
	s.Command, s.State = string(raw[open+1:end]), fields[0][0]
	for i, into := range map[int]*int{
		1: &s.Parent, 2: &s.Group, 3: &s.Session, 4: &s.TTY, 5: &s.Foreground,
		15: &s.Priority, 16: &s.Nice, 17: &s.Threads, processor: &s.Processor,
	} {
		if *into, err = strconv.Atoi(fields[i]); err != nil {
			return s, fault.Invalid("stat line with %q for a number", fields[i])
		}
	}
	for i, into := range map[int]*uint64{
		7: &s.MinorFaults, 8: &s.ChildMinor, 9: &s.MajorFaults, 10: &s.ChildMajor,
		11: &s.User, 12: &s.System, 19: &s.Start, 20: &s.Virtual, 21: &s.Resident,
	} {
		if *into, err = strconv.ParseUint(fields[i], 10, 64); err != nil {
			return s, fault.Invalid("stat line with %q for a number", fields[i])
		}
	}
	for i, into := range map[int]*uint64{13: &s.ChildUser, 14: &s.ChildSystem} { // signed in the kernel's format
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return s, fault.Invalid("stat line with %q for a number", fields[i])
		}
		*into = uint64(max(n, 0))
	}
	return s, nil
}

// Args reads the command line: the arguments that the process began with, unless it has changed them. Kernel threads and
// zombies have none.
func (d Dir) Args(pid int) ([]string, error) {
	raw, err := d.readProcessFile(pid, "cmdline")
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00"), nil
}

// IDs are the numbers that a process runs as, seen from the reader's user namespace.
type IDs struct {
	RealUser, User   int // User is the effective one
	RealGroup, Group int
}

// Status is what /proc/PID/status tells beside Stat.
type Status struct {
	IDs
	Locked, Resident uint64 // bytes of memory; Resident is exact, in Stat it may lag behind
}

// Status reads /proc/PID/status.
func (d Dir) Status(pid int) (s Status, err error) {
	raw, err := d.readProcessFile(pid, "status")
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(line, ":")
		switch fields := strings.Fields(value); {
		case key == "Uid" && len(fields) > 1:
			s.RealUser, s.User, err = parsePair(fields)
		case key == "Gid" && len(fields) > 1:
			s.RealGroup, s.Group, err = parsePair(fields)
		case key == "VmLck" && len(fields) > 0:
			s.Locked, err = parseKilobytes(fields[0])
		case key == "VmRSS" && len(fields) > 0:
			s.Resident, err = parseKilobytes(fields[0])
		}
		if err != nil {
			return s, fault.Invalid("status of process %d: %v", pid, err)
		}
	}
	return s, nil
}

func parsePair(fields []string) (int, int, error) {
	a, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0, 0, err
	}
	b, err := strconv.Atoi(fields[1])
	return a, b, err
}

func parseKilobytes(text string) (uint64, error) {
	const most = 1 << 53 // more would wrap
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil && n > most {
		err = fault.Invalid("%d kB is too much", n)
	}
	return n << 10, err
}

// Cgroups tells in which cgroup a process is, by controller; that of the unified hierarchy has the empty name, and those
// without a controller theirs. The paths are seen from the reader's cgroup namespace.
func (d Dir) Cgroups(pid int) (map[string]string, error) {
	raw, err := d.readProcessFile(pid, "cgroup")
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			return nil, fault.Invalid("not a line of a cgroup file: %.80q", line)
		}
		for name := range strings.SplitSeq(strings.TrimPrefix(fields[1], "name="), ",") {
			paths[name] = fields[2]
		}
	}
	return paths, nil
}

// SharesNetwork reports whether a process is in the reader's own network namespace.
func (d Dir) SharesNetwork(pid int) (bool, error) {
	theirs, err := os.Readlink(d.processPath(pid, "ns/net"))
	if err != nil {
		return false, err
	}
	ours, err := os.Readlink(filepath.Join(string(d), "self/ns/net"))
	return theirs == ours, err
}

func (d Dir) processPath(pid int, name string) string {
	return filepath.Join(string(d), strconv.Itoa(pid), name)
}

func (d Dir) readProcessFile(pid int, name string) ([]byte, error) {
	return readFile(d.processPath(pid, name))
}

// readFile reads a file of the kernel's, whose size is not known before.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return raw, nil
}
