// Package top lists the processes of a container as ps would (API document 2, 4.1). It reads /proc itself, so that neither
// image nor host need a ps; only arguments that it does not know go to the host's.
package top

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/stats/proc"
	"moss/engine/task"
)

// containers is where the containers are found.
type containers interface {
	// Running returns the task of a container whose process runs or is frozen. fault.NotFound if there is no such
	// container, fault.Conflict if nothing of it runs.
	Running(ref string) (*container.Record, task.Task, error)
}

// events is told that somebody looked.
type events interface {
	Publish(e event.Event)
}

// Options is what a Service is made of.
type Options struct {
	Containers containers
	Events     events
	Proc       string // where proc is mounted, /proc
	Path       string // where the host's ps is looked for, as in PATH
}

// Service lists processes.
type Service struct {
	opt  Options
	proc proc.Dir
}

// New returns a service.
func New(opt Options) *Service { return &Service{opt: opt, proc: proc.Dir(opt.Proc)} }

// Table is a list of processes: the titles of the columns, and for each process a text in each of them. Texts hold no
// control characters, whatever processes call themselves.
type Table struct {
	Titles []string
	Rows   [][]string
}

// Top lists the processes of a container, which may be frozen, for the arguments of a ps: those of the engine's pid
// namespace. fault.NotFound and fault.Conflict (not running) as Running, fault.Invalid for arguments that no ps
// understands or that leave out the column PID, fault.Unsupported for those that need the host's ps where there is none.
func (s *Service) Top(ctx context.Context, ref, args string) (*Table, error) {
	r, t, err := s.opt.Containers.Running(ref)
	if err != nil {
		return nil, err
	}
	asked, err := parseArgs(args)
	if err != nil {
		return nil, err
	}
	pids, err := t.Pids(ctx)
	if err != nil {
		return nil, err
	}
	var table *Table
	if asked.columns != nil {
		table, err = s.procTable(pids, asked.columns)
	} else {
		table, err = s.hostPS(ctx, pids, asked.words)
	}
	if err != nil {
		return nil, err
	}
	attributes := maps.Clone(r.Config.Labels)
	if attributes == nil {
		attributes = map[string]string{}
	}
	attributes["name"], attributes["image"] = r.Name, r.Image
	s.opt.Events.Publish(event.Event{
		Type: event.TypeContainer, Action: "top", ID: r.ID, Attributes: attributes, Time: time.Now(),
	})
	return table, nil
}

// errNoPid is the answer to a table without the column by which the container's processes are found.
func errNoPid() error { return fault.Invalid("Couldn't find PID field in ps output") }

// procTable makes the table from /proc. Processes that end meanwhile are left out.
func (s *Service) procTable(pids []int, columns []column) (*Table, error) {
	host, err := readHost(s.proc)
	if err != nil {
		return nil, err
	}
	table := &Table{Rows: [][]string{}}
	hasPid := false
	for _, c := range columns {
		table.Titles = append(table.Titles, c.title)
		hasPid = hasPid || c.title == "PID"
	}
	if !hasPid {
		return nil, errNoPid()
	}
	for _, pid := range pids {
		p, err := host.readProcess(pid)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
				continue
			}
			return nil, err
		}
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = toPrintable(c.show(host, p))
		}
		table.Rows = append(table.Rows, row)
	}
	return table, nil
}

// toPrintable replaces what would move a cursor or end a line, and what is no text at all.
func toPrintable(s string) string {
	clean := true
	for _, r := range s {
		clean = clean && unicode.IsPrint(r) && r != unicode.ReplacementChar
	}
	if clean {
		return s
	}
	out := make([]rune, 0, len(s))
	for _, r := range s { // each byte that is no UTF-8 is one replacement character
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			r = '?'
		}
		out = append(out, r)
	}
	return string(out)
}
