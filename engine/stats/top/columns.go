package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// column is one column of a table.
type column struct {
	title string
	show  func(h *host, p *process) string
}

// columnNamed finds a column by one of the names that ps has for it.
func columnNamed(name string) (column, bool) {
	show, known := shows[name]
	title := titles[name]
	if title == "" {
		title = strings.ToUpper(name)
	}
	return column{title: title, show: show}, known
}

// titles are those that are not the name in capitals.
var titles = map[string]string{ //nolint:gochecknoglobals // a constant table
	"args": "COMMAND", "comm": "COMMAND", "command": "COMMAND", "ucmd": "CMD", "ucomm": "COMMAND", "pcpu": "%CPU", "pmem": "%MEM",
	"nice": "NI", "state": "S", "s": "S", "tty": "TT", "tname": "TTY", "tt": "TT", "thcount": "THCNT", "etime": "ELAPSED",
	"etimes": "ELAPSED", "cputime": "TIME", "cputimes": "TIME", "times": "TIME", "bsdtime": "TIME", "euser": "EUSER",
	"uname": "USER",
	"sess":  "SESS", "session": "SESS", "rssize": "RSS", "rsz": "RSZ", "vsize": "VSZ", "lstart": "STARTED", "start_time": "START",
	"pgrp": "PGRP", "psr": "PSR", "bsdstart": "START",
}

// shows makes the texts of the columns.
var shows = map[string]func(h *host, p *process) string{ //nolint:gochecknoglobals // a constant table
	"pid":  func(_ *host, p *process) string { return strconv.Itoa(p.Pid) },
	"ppid": func(_ *host, p *process) string { return strconv.Itoa(p.Parent) },
	"pgid": processGroup, "pgrp": processGroup, "sid": sessionID, "sess": sessionID, "session": sessionID,
	"user": userName, "uname": userName, "euser": userName, "uid": userID, "euid": userID,
	"ruser":  func(h *host, p *process) string { return h.userName(p.status.RealUser) },
	"ruid":   func(_ *host, p *process) string { return strconv.Itoa(p.status.RealUser) },
	"egroup": groupName, "group": groupName, "gid": groupID, "egid": groupID,
	"rgroup": func(h *host, p *process) string { return h.groupName(p.status.RealGroup) },
	"rgid":   func(_ *host, p *process) string { return strconv.Itoa(p.status.RealGroup) },
	"comm":   shortCommand, "ucmd": shortCommand, "ucomm": shortCommand,
	"args": fullCommand, "cmd": fullCommand, "command": fullCommand,
	"%cpu": percentCPU, "pcpu": percentCPU, "%mem": percentMemory, "pmem": percentMemory,
	"c":   func(h *host, p *process) string { return strconv.FormatUint(min(h.cpuShare(p)/10, 99), 10) },
	"vsz": virtualSize, "vsize": virtualSize, "rss": residentSize, "rssize": residentSize, "rsz": residentSize,
	"tty": terminalName, "tt": terminalName, "tname": terminalName, "stat": longState,
	"s": shortState, "state": shortState, "ni": niceValue, "nice": niceValue,
	"pri":  func(_ *host, p *process) string { return strconv.Itoa(39 - p.Priority) },
	"psr":  func(_ *host, p *process) string { return strconv.Itoa(p.Processor) },
	"nlwp": threadCount, "thcount": threadCount,
	"time": usedTime, "cputime": usedTime, "times": usedSeconds, "cputimes": usedSeconds, "bsdtime": usedMinutes,
	"stime": startText, "start_time": startText, "bsdstart": startText,
	"lstart": func(h *host, p *process) string { return h.startTime(p).Format("Mon Jan _2 15:04:05 2006") },
	"etime":  func(h *host, p *process) string { return formatElapsed(h.processAge(p)) },
	"etimes": func(h *host, p *process) string { return formatSeconds(h.processAge(p)) },
}

func processGroup(_ *host, p *process) string { return strconv.Itoa(p.Group) }
func sessionID(_ *host, p *process) string    { return strconv.Itoa(p.Session) }
func userName(h *host, p *process) string     { return h.userName(p.status.User) }
func userID(_ *host, p *process) string       { return strconv.Itoa(p.status.User) }
func groupID(_ *host, p *process) string      { return strconv.Itoa(p.status.Group) }
func groupName(h *host, p *process) string    { return h.groupName(p.status.Group) }
func niceValue(_ *host, p *process) string    { return strconv.Itoa(p.Nice) }
func threadCount(_ *host, p *process) string  { return strconv.Itoa(p.Threads) }
func virtualSize(_ *host, p *process) string  { return strconv.FormatUint(p.Virtual>>10, 10) }
func residentSize(_ *host, p *process) string { return strconv.FormatUint(p.status.Resident>>10, 10) }

func shortCommand(_ *host, p *process) string {
	if p.State == 'Z' {
		return p.Command + " <defunct>"
	}
	return p.Command
}

// fullCommand returns the command line, or the name in brackets of a process that has none.
func fullCommand(_ *host, p *process) string {
	switch {
	case p.State == 'Z':
		return "[" + p.Command + "] <defunct>"
	case len(p.args) == 0:
		return "[" + p.Command + "]"
	default:
		return strings.Join(p.args, " ")
	}
}

func percentCPU(h *host, p *process) string { return formatTenths(h.cpuShare(p)) }

func percentMemory(h *host, p *process) string {
	if h.memory == 0 {
		return formatTenths(0)
	}
	return formatTenths(min(p.status.Resident*1000/h.memory, 999))
}

func formatTenths(n uint64) string { return fmt.Sprintf("%d.%d", n/10, n%10) }

// terminalName names the controlling terminal as the host would (devices.txt of the kernel).
func terminalName(_ *host, p *process) string {
	major, minor := unix.Major(uint64(uint32(p.TTY))), unix.Minor(uint64(uint32(p.TTY)))
	const firstPts, lastPts, perMajor, consoles, console = 136, 143, 256, 64, 4
	switch {
	case p.TTY == 0:
		return "?"
	case major >= firstPts && major <= lastPts:
		return fmt.Sprintf("pts/%d", (major-firstPts)*perMajor+minor)
	case major == console && minor < consoles:
		return fmt.Sprintf("tty%d", minor)
	case major == console:
		return fmt.Sprintf("ttyS%d", minor-consoles)
	default:
		return "?"
	}
}

func shortState(_ *host, p *process) string { return string(rune(p.State)) }

// longState adds what ps does: priority, locked memory, session leader, threads, foreground.
func longState(_ *host, p *process) string {
	state := []byte{p.State}
	for _, mark := range []struct {
		set    bool
		letter byte
	}{
		{p.Nice < 0, '<'},
		{p.Nice > 0, 'N'},
		{p.status.Locked > 0, 'L'},
		{p.Session == p.Pid, 's'},
		{p.Threads > 1, 'l'},
		{p.Foreground == p.Group, '+'},
	} {
		if mark.set {
			state = append(state, mark.letter)
		}
	}
	return string(state)
}

func usedTime(_ *host, p *process) string {
	t := p.cpuTime()
	days := t / (24 * time.Hour)
	clock := fmt.Sprintf("%02d:%02d:%02d", t/time.Hour%24, t/time.Minute%60, t/time.Second%60)
	if days > 0 {
		return fmt.Sprintf("%d-%s", days, clock)
	}
	return clock
}

func usedSeconds(_ *host, p *process) string { return formatSeconds(p.cpuTime()) }

func usedMinutes(_ *host, p *process) string {
	return fmt.Sprintf("%d:%02d", p.cpuTime()/time.Minute, p.cpuTime()/time.Second%60)
}

func formatSeconds(t time.Duration) string { return strconv.FormatInt(int64(t/time.Second), 10) }

func formatElapsed(t time.Duration) string {
	days, hours := t/(24*time.Hour), t/time.Hour%24
	clock := fmt.Sprintf("%02d:%02d", t/time.Minute%60, t/time.Second%60)
	switch {
	case days > 0:
		return fmt.Sprintf("%d-%02d:%s", days, hours, clock)
	case hours > 0:
		return fmt.Sprintf("%02d:%s", hours, clock)
	default:
		return clock
	}
}

// startText returns the start as exactly as there is room: the time, the day, or the year.
func startText(h *host, p *process) string {
	start := h.startTime(p)
	switch {
	case start.Year() != h.now.Year():
		return start.Format("2006")
	case start.YearDay() != h.now.YearDay():
		return start.Format("Jan02")
	default:
		return start.Format("15:04")
	}
}
