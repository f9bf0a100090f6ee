package top

import (
	"os/user"
	"strconv"
	"time"

	"moss/engine/stats/proc"
)

// host is what the columns need to know beside the process. It is for one table.
type host struct {
	proc          proc.Dir
	now           time.Time
	boot          time.Time     // in whole seconds, which startTime is reckoned from as in ps
	uptime        time.Duration // exact
	memory        uint64        // bytes
	users, groups map[int]string
}

// process is one line of a table.
type process struct {
	proc.Stat
	status proc.Status
	args   []string
}

func readHost(dir proc.Dir) (*host, error) {
	machine, err := dir.Machine()
	if err != nil {
		return nil, err
	}
	uptime, err := dir.Uptime()
	if err != nil {
		return nil, err
	}
	memory, err := dir.MemTotal()
	return &host{
		proc: dir, now: time.Now(), boot: machine.Boot, uptime: uptime, memory: memory, users: map[int]string{},
		groups: map[int]string{},
	}, err
}

func (h *host) readProcess(pid int) (p *process, err error) {
	p = &process{}
	if p.Stat, err = h.proc.Stat(pid); err != nil {
		return nil, err
	}
	if p.status, err = h.proc.Status(pid); err != nil {
		return nil, err
	}
	p.args, err = h.proc.Args(pid)
	return p, err
}

// userName is the name that the host has for an id, as its ps would show, or the id.
func (h *host) userName(id int) string {
	name, known := h.users[id]
	if !known {
		name = strconv.Itoa(id)
		if u, err := user.LookupId(name); err == nil {
			name = u.Username
		}
		h.users[id] = name
	}
	return name
}

func (h *host) groupName(id int) string {
	name, known := h.groups[id]
	if !known {
		name = strconv.Itoa(id)
		if g, err := user.LookupGroupId(name); err == nil {
			name = g.Name
		}
		h.groups[id] = name
	}
	return name
}

func (h *host) startTime(p *process) time.Time {
	return h.boot.Add((time.Duration(p.Start) * proc.Tick).Truncate(time.Second)).In(h.now.Location())
}

func (h *host) processAge(p *process) time.Duration {
	return max(h.uptime-time.Duration(p.Start)*proc.Tick, 0)
}

// cpuShare is the part of its life that a process has spent on CPUs, in thousandths.
func (h *host) cpuShare(p *process) uint64 {
	life := uint64(h.processAge(p) / proc.Tick)
	if life == 0 {
		return 0
	}
	return (p.User + p.System) * 1000 / life
}

// cpuTime returns what the process has spent on CPUs.
func (p *process) cpuTime() time.Duration { return time.Duration(p.User+p.System) * proc.Tick }
