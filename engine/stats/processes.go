package stats

import (
	"os"

	"moss/engine/stats/proc"
)

// processes adds up what the container's processes use, for what no cgroup tells.
type processes struct {
	proc proc.Dir
	pids func() ([]int, error)

	asked bool // guards the fields below: they are filled once
	stats []proc.Stat
	err   error
}

// readStats reads the processes, once. Those that end meanwhile are left out.
func (p *processes) readStats() ([]proc.Stat, error) {
	if p.asked {
		return p.stats, p.err
	}
	p.asked = true
	pids, err := p.pids()
	if err != nil {
		p.err = err
		return nil, err
	}
	for _, pid := range pids {
		stat, err := p.proc.Stat(pid)
		if err != nil {
			if p.err = unlessGone(err); p.err != nil {
				return nil, p.err
			}
			continue
		}
		p.stats = append(p.stats, stat)
	}
	return p.stats, nil
}

// readCPU counts what processes have waited for with them, so that a short-lived one is not lost.
func (p *processes) readCPU(c *CPU) (bool, error) {
	all, err := p.readStats()
	for i := range all {
		c.User += (all[i].User + all[i].ChildUser) * uint64(proc.Tick)
		c.Kernel += (all[i].System + all[i].ChildSystem) * uint64(proc.Tick)
	}
	c.Total = c.User + c.Kernel
	return true, err
}

func (p *processes) readMemory(m *Memory) (bool, error) {
	all, err := p.readStats()
	if err != nil {
		return false, err
	}
	var anonymous, file, faults, major uint64
	for i := range all {
		part, err := p.proc.Memory(all[i].Pid)
		switch {
		case isGone(err):
			continue
		case err != nil: // it may not be looked into
			part = proc.Memory{Anonymous: all[i].Resident * uint64(os.Getpagesize())}
		}
		anonymous += part.Anonymous
		file += part.File + part.Shared
		faults += all[i].MinorFaults + all[i].MajorFaults + all[i].ChildMinor + all[i].ChildMajor
		major += all[i].MajorFaults + all[i].ChildMajor
	}
	m.Usage = anonymous + file
	m.Details = map[string]uint64{}
	for name, n := range map[string]uint64{"rss": anonymous, "mapped_file": file, "pgfault": faults, "pgmajfault": major} {
		m.Details[name], m.Details["total_"+name] = n, n
	}
	return true, nil
}

func (p *processes) readTasks(t *Tasks) (ok bool, err error) {
	all, err := p.readStats()
	for i := range all {
		t.Count += uint64(max(all[i].Threads, 1))
	}
	return true, err
}

func (p *processes) readBlockIO(b *BlockIO) (bool, error) {
	all, err := p.readStats()
	if err != nil {
		return false, err
	}
	var read, written uint64
	for i := range all {
		r, w, err := p.proc.IO(all[i].Pid)
		if err != nil {
			continue // it has ended, or may not be looked into
		}
		read, written = read+r, written+w
	}
	b.Bytes = []IO{{Op: "Read", Value: read}, {Op: "Write", Value: written}}
	return true, nil
}
