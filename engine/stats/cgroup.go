package stats

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
	"moss/engine/stats/proc"
)

// group is the folder of a cgroup; empty if there is none.
type group string

// readText reads a file of the group. It is not ok if the group or the file is not there.
func (g group) readText(file string) (text string, ok bool, err error) {
	if g == "" {
		return "", false, nil
	}
	raw, err := os.ReadFile(filepath.Join(string(g), file))
	if err != nil {
		return "", false, unlessGone(err)
	}
	return string(raw), true, nil
}

// readNumber reads a file that holds one number. The word max is the largest one.
func (g group) readNumber(file string) (n uint64, ok bool, err error) {
	text, ok, err := g.readText(file)
	if err != nil || !ok {
		return 0, false, err
	}
	text = strings.TrimSpace(text)
	if text == "max" {
		return ^uint64(0), true, nil
	}
	if n, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, false, fault.Invalid("%s/%s: got %q, want a number", g, file, text)
	}
	return n, true, nil
}

// readCounters reads a file of names and numbers, one of each on a line.
func (g group) readCounters(file string) (map[string]uint64, error) {
	text, _, err := g.readText(file)
	if err != nil {
		return nil, err
	}
	all, err := parseCounters(text)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", g, file, err)
	}
	return all, nil
}

func parseCounters(text string) (map[string]uint64, error) {
	all := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil, fault.Invalid("got %.80q, want a name and a number", line)
		}
		all[name] = n
	}
	return all, nil
}

// parseDevice reads MAJOR:MINOR.
func parseDevice(text string) (major, minor uint64, err error) {
	a, b, _ := strings.Cut(text, ":")
	if major, err = strconv.ParseUint(a, 10, 32); err == nil {
		minor, err = strconv.ParseUint(b, 10, 32)
	}
	if err != nil {
		return 0, 0, fault.Invalid("got %.80q, want the number of a device", text)
	}
	return major, minor, nil
}

// legacy reads cgroups of version 1, those of the controllers in whose hierarchy the container has its own.
type legacy struct {
	root   string            // where a folder for each controller is
	paths  map[string]string // of the container's process, by controller
	id     string
	online []int
}

func (l legacy) groupOf(controller string) group {
	return group(ownGroup(filepath.Join(l.root, controller), l.paths[controller], l.id))
}

func (l legacy) readCPU(c *CPU) (bool, error) {
	own := l.groupOf("cpuacct")
	each, ok, err := own.readText("cpuacct.usage_percpu")
	if err != nil || !ok {
		return false, err
	}
	if err := l.perCPU(c, each); err != nil {
		return false, fmt.Errorf("%s/cpuacct.usage_percpu: %w", own, err)
	}
	split, err := own.readCounters("cpuacct.stat")
	if err != nil {
		return false, err
	}
	c.User, c.Kernel = split["user"]*uint64(proc.Tick), split["system"]*uint64(proc.Tick)
	quota, err := l.groupOf("cpu").readCounters("cpu.stat")
	c.Periods, c.ThrottledPeriods, c.ThrottledTime = quota["nr_periods"], quota["nr_throttled"], quota["throttled_time"]
	return true, err
}

// perCPU takes the time on every CPU that the machine could have. Their sum is the total: one that is read beside them would be
// of another moment.
func (l legacy) perCPU(c *CPU, times string) error {
	for number, field := range strings.Fields(times) {
		time, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return fault.Invalid("got %q, want a number", field)
		}
		c.Total += time
		if i := slices.Index(l.online, number); i >= 0 {
			c.PerCPU[i] = time
		}
	}
	return nil
}

func (l legacy) readMemory(m *Memory) (ok bool, err error) {
	own := l.groupOf("memory")
	if m.Usage, ok, err = own.readNumber("memory.usage_in_bytes"); err != nil || !ok {
		return false, err
	}
	if m.MaxUsage, _, err = own.readNumber("memory.max_usage_in_bytes"); err != nil {
		return false, err
	}
	if m.Failures, _, err = own.readNumber("memory.failcnt"); err != nil {
		return false, err
	}
	limit, ok, err := own.readNumber("memory.limit_in_bytes")
	if err != nil {
		return false, err
	}
	if ok {
		m.Limit = min(m.Limit, limit)
	}
	m.Details, err = own.readCounters("memory.stat")
	return true, err
}

func (l legacy) readTasks(t *Tasks) (bool, error) { return l.groupOf("pids").readTasks(t) }

func (g group) readTasks(t *Tasks) (ok bool, err error) {
	if t.Limit, _, err = g.readNumber("pids.max"); err != nil {
		return false, err
	}
	t.Count, ok, err = g.readNumber("pids.current")
	return ok, err
}

// readBlockIO takes bytes and operations from where all devices are counted, whatever their scheduler, and the rest from the
// scheduler's own files, where it has them. Linux 6.10 and later count nothing there before some group of the machine has
// a rate: then it does not tell.
func (l legacy) readBlockIO(b *BlockIO) (bool, error) {
	own := l.groupOf("blkio")
	for _, part := range []struct {
		into  *[]IO
		files []string
	}{
		{&b.Bytes, []string{"blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"}},
		{&b.Operations, []string{"blkio.throttle.io_serviced_recursive", "blkio.throttle.io_serviced"}},
		{&b.Queued, []string{"blkio.io_queued_recursive", "blkio.bfq.io_queued_recursive"}},
		{&b.ServiceTime, []string{"blkio.io_service_time_recursive", "blkio.bfq.io_service_time_recursive"}},
		{&b.WaitTime, []string{"blkio.io_wait_time_recursive", "blkio.bfq.io_wait_time_recursive"}},
		{&b.Merged, []string{"blkio.io_merged_recursive", "blkio.bfq.io_merged_recursive"}},
		{&b.Time, []string{"blkio.time_recursive", "blkio.bfq.time_recursive"}},
		{&b.Sectors, []string{"blkio.sectors_recursive", "blkio.bfq.sectors_recursive"}},
	} {
		for _, file := range part.files {
			text, found, err := own.readText(file)
			if err != nil {
				return false, err
			}
			if !found {
				continue
			}
			if *part.into, err = parseBlkio(text); err != nil {
				return false, fmt.Errorf("%s/%s: %w", own, file, err)
			}
			break
		}
	}
	return len(b.Bytes) > 0, nil
}

// parseBlkio reads lines of a device, an operation where there are several, and a number. The last line is a sum.
func parseBlkio(text string) ([]IO, error) {
	var all []IO
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "Total" {
			continue
		}
		var c IO
		var err error
		if c.Major, c.Minor, err = parseDevice(fields[0]); err != nil {
			return nil, err
		}
		if len(fields) > 2 {
			c.Op = fields[1]
		}
		if c.Value, err = strconv.ParseUint(fields[len(fields)-1], 10, 64); err != nil {
			return nil, fault.Invalid("got %.80q, want a number at the end", line)
		}
		all = append(all, c)
	}
	return all, nil
}

// unified reads the cgroup of version 2.
type unified struct{ dir string }

// microseconds are what version 2 counts time in.
const microseconds = 1000

func (u unified) readCPU(c *CPU) (bool, error) {
	all, err := group(u.dir).readCounters("cpu.stat")
	total, ok := all["usage_usec"]
	if err != nil || !ok {
		return false, err
	}
	c.Total, c.User, c.Kernel = total*microseconds, all["user_usec"]*microseconds, all["system_usec"]*microseconds
	c.Periods, c.ThrottledPeriods = all["nr_periods"], all["nr_throttled"]
	c.ThrottledTime = all["throttled_usec"] * microseconds
	return true, nil
}

// legacyNames gives the counters of version 2 that mean the same as one of version 1 the name that clients know.
var legacyNames = map[string]string{ //nolint:gochecknoglobals // a constant table
	"file": "cache", "anon": "rss", "file_mapped": "mapped_file", "anon_thp": "rss_huge", "file_writeback": "writeback",
	"pgfault": "pgfault", "pgmajfault": "pgmajfault", "unevictable": "unevictable", "active_anon": "active_anon",
	"inactive_anon": "inactive_anon", "active_file": "active_file", "inactive_file": "inactive_file",
}

func (u unified) readMemory(m *Memory) (ok bool, err error) {
	own := group(u.dir)
	if m.Usage, ok, err = own.readNumber("memory.current"); err != nil || !ok {
		return false, err
	}
	if m.MaxUsage, _, err = own.readNumber("memory.peak"); err != nil {
		return false, err
	}
	limit, ok, err := own.readNumber("memory.max")
	if err != nil {
		return false, err
	}
	if ok {
		m.Limit = min(m.Limit, limit)
	}
	events, err := own.readCounters("memory.events")
	if err != nil {
		return false, err
	}
	m.Failures = events["max"]
	all, err := own.readCounters("memory.stat")
	if err != nil {
		return false, err
	}
	m.Details = maps.Clone(all)
	for name, known := range legacyNames {
		if n, ok := all[name]; ok {
			m.Details[known], m.Details["total_"+known] = n, n // version 2 always counts the groups below, too
		}
	}
	m.Details["hierarchical_memory_limit"] = m.Limit
	return true, nil
}

func (u unified) readTasks(t *Tasks) (bool, error) { return group(u.dir).readTasks(t) }

func (u unified) readBlockIO(b *BlockIO) (bool, error) {
	text, ok, err := group(u.dir).readText("io.stat")
	if err != nil || !ok {
		return false, err
	}
	if b.Bytes, b.Operations, err = parseIOStat(text); err != nil {
		return false, fmt.Errorf("%s/io.stat: %w", u.dir, err)
	}
	return true, nil
}

// parseIOStat reads lines of a device and counters KEY=NUMBER. Keys that are not known are left out.
func parseIOStat(text string) (transferred, operations []IO, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		major, minor, err := parseDevice(fields[0])
		if err != nil {
			return nil, nil, err
		}
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			op := map[byte]string{'r': "Read", 'w': "Write", 'd': "Discard"}[(key + " ")[0]]
			if op == "" || key[1:] != "bytes" && key[1:] != "ios" {
				continue
			}
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return nil, nil, fault.Invalid("got %.80q, want a number", field)
			}
			if c := (IO{Major: major, Minor: minor, Op: op, Value: n}); key[1:] == "bytes" {
				transferred = append(transferred, c)
			} else {
				operations = append(operations, c)
			}
		}
	}
	return transferred, operations, nil
}
