package main

import (
	"fmt"
	"io"
	"sync"
)

// maxFindings is after how many findings a run ends: what comes later mostly follows from them.
const maxFindings = 20

// reporter keeps the last calls of all workers and prints them with what is found.
type reporter struct {
	out    io.Writer
	socket string
	keep   int
	halt   func() // ends the run

	mu       sync.Mutex // guards what follows, and out
	last     []string
	calls    int
	statuses map[int]int
	findings int
}

func newReporter(out io.Writer, socket string, keep int, halt func()) *reporter {
	return &reporter{out: out, socket: socket, keep: keep, halt: halt, statuses: map[int]int{}}
}

// addCall notes a call and its answer.
func (r *reporter) addCall(worker int, c *call, a *answer) {
	what := "no answer"
	if a.status != 0 {
		what = fmt.Sprintf("%d, %d bytes", a.status, a.size)
	}
	if a.err != nil {
		what += ", " + a.err.Error()
	}
	line := fmt.Sprintf("[%d] %s   #-> %s in %dms", worker, c.curlLine(r.socket), what, a.took.Milliseconds())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	r.statuses[a.status]++
	r.last = append(r.last, line)
	if over := len(r.last) - r.keep; over > 0 {
		r.last = append(r.last[:0], r.last[over:]...)
	}
}

// addFinding prints a finding with the calls before it. The run ends when there are many.
func (r *reporter) addFinding(worker int, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings++
	if r.findings > maxFindings {
		return
	}
	_, _ = fmt.Fprintf(r.out, "FINDING [%d] %s\n--- the calls before it ---\n", worker, fmt.Sprintf(format, args...))
	for _, line := range r.last {
		_, _ = fmt.Fprintln(r.out, line)
	}
	_, _ = fmt.Fprintln(r.out, "---")
	if r.findings == maxFindings {
		r.halt()
	}
}

// say prints a line of news.
func (r *reporter) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.out, format+"\n", args...)
}

// sum returns how many calls and findings there were, and the statuses.
func (r *reporter) sum() (calls, findings int, statuses map[int]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls, r.findings, r.statuses
}
