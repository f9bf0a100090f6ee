package proc

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
)

// Memory is a process's part of the machine's memory in bytes. Pages that several processes share are divided among them,
// so that the parts can be added up.
type Memory struct {
	Anonymous, File, Shared uint64 // private and heap; mapped files; shared memory and tmpfs
}

// Memory reads /proc/PID/smaps_rollup. Kernel threads and zombies have none: their part is zero.
func (d Dir) Memory(pid int) (m Memory, err error) {
	raw, err := d.readProcessFile(pid, "smaps_rollup")
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(line, ":")
		into, wanted := map[string]*uint64{"Pss_Anon": &m.Anonymous, "Pss_File": &m.File, "Pss_Shmem": &m.Shared}[key]
		if !wanted {
			continue
		}
		fields := strings.Fields(value)
		if len(fields) == 0 {
			return m, fault.Invalid("not a line of a smaps file: %.80q", line)
		}
		if *into, err = parseKilobytes(fields[0]); err != nil {
			return m, fault.Invalid("memory of process %d: %v", pid, err)
		}
	}
	return m, nil
}

// IO reads how many bytes a process has had read from and written to storage, with those of its children that ended and
// were waited for.
func (d Dir) IO(pid int) (read, written uint64, err error) {
	raw, err := d.readProcessFile(pid, "io")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "read_bytes":
			read, err = strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		case "write_bytes":
			written, err = strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		}
		if err != nil {
			return 0, 0, fault.Invalid("io of process %d: %v", pid, err)
		}
	}
	return read, written, nil
}

// Interface is what a network interface has carried.
type Interface struct {
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
}

// Network reads the interfaces of a process's network namespace.
func (d Dir) Network(pid int) (map[string]Interface, error) {
	raw, err := d.readProcessFile(pid, "net/dev")
	if err != nil {
		return nil, err
	}
	return parseNetwork(string(raw))
}

func parseNetwork(text string) (map[string]Interface, error) {
	all := map[string]Interface{}
	for line := range strings.Lines(text) {
		name, counters, ok := strings.Cut(line, ":")
		if !ok { // the two lines of the head
			continue
		}
		const columns = 16
		fields := strings.Fields(counters)
		if len(fields) < columns {
			return nil, fault.Invalid("interface with %d counters: %.80q", len(fields), line)
		}
		var i Interface
		for at, into := range map[int]*uint64{
			0: &i.RxBytes, 1: &i.RxPackets, 2: &i.RxErrors, 3: &i.RxDropped,
			8: &i.TxBytes, 9: &i.TxPackets, 10: &i.TxErrors, 11: &i.TxDropped,
		} {
			var err error
			if *into, err = strconv.ParseUint(fields[at], 10, 64); err != nil {
				return nil, fault.Invalid("interface with %q for a counter: %.80q", fields[at], line)
			}
		}
		all[strings.TrimSpace(name)] = i
	}
	return all, nil
}

// Machine is what /proc/stat tells.
type Machine struct {
	CPU    uint64 // nanoseconds of all CPUs since boot, idle or not; large machines outgrow a time.Duration
	Online []int  // numbers of the CPUs
	Boot   time.Time
}

// Machine reads /proc/stat.
func (d Dir) Machine() (Machine, error) {
	raw, err := readFile(filepath.Join(string(d), "stat"))
	if err != nil {
		return Machine{}, err
	}
	return parseMachine(string(raw))
}

func parseMachine(text string) (m Machine, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch key := fields[0]; {
		case key == "cpu":
			// User, nice, system, idle, iowait, irq, softirq; what was stolen is not the machine's.
			const counted = 7
			for _, field := range fields[1:min(len(fields), counted+1)] {
				ticks, err := strconv.ParseUint(field, 10, 64)
				if err != nil {
					return m, fault.Invalid("CPU time of %q ticks", field)
				}
				m.CPU += ticks * uint64(Tick)
			}
		case strings.HasPrefix(key, "cpu"):
			n, err := strconv.Atoi(key[len("cpu"):])
			if err != nil || n < 0 {
				return m, fault.Invalid("not a CPU: %.80q", key)
			}
			m.Online = append(m.Online, n)
		case key == "btime":
			seconds, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return m, fault.Invalid("boot time %q", fields[1])
			}
			m.Boot = time.Unix(seconds, 0)
		}
	}
	return m, nil
}

// Uptime reads how long ago the machine was booted, as the reader's time namespace has it.
func (d Dir) Uptime() (time.Duration, error) {
	raw, err := readFile(filepath.Join(string(d), "uptime"))
	if err != nil {
		return 0, err
	}
	text, _, _ := strings.Cut(string(raw), " ")
	const most = 1 << 32 // more seconds would wrap
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds <= most) { // NaN is neither
		return 0, fault.Invalid("uptime of %.80q", raw)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// MemTotal reads how many bytes of memory the machine has.
func (d Dir) MemTotal() (uint64, error) {
	raw, err := readFile(filepath.Join(string(d), "meminfo"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if fields := strings.Fields(value); len(fields) > 0 {
				return parseKilobytes(fields[0])
			}
		}
	}
	return 0, fault.Invalid("no MemTotal in meminfo")
}
