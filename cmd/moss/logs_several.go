package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"moss/api/client"
)

// showContainerLogs shows the logs of containers as showContainerLog does that of one. One that fails leaves the others to go on.
func (a *app) showContainerLogs(ctx context.Context, refs []string, opts client.LogsOptions) error {
	logs := make([]namedLog, 0, len(refs))
	for _, ref := range refs {
		logs = append(logs, namedLog{ref: ref, name: ref})
	}
	return a.showNamedLogs(ctx, logs, opts)
}

// namedLog is the log of a container, and what its lines begin with; empty: nothing.
type namedLog struct{ ref, name string }

func (a *app) showNamedLogs(ctx context.Context, logs []namedLog, opts client.LogsOptions) error {
	width := 0
	for _, log := range logs {
		width = max(width, len(log.name))
	}
	if _, err := a.engineClient(); err != nil {
		return err
	}
	var mu sync.Mutex
	failed := false
	one := func(log namedLog) {
		name := ""
		if log.name != "" {
			name = log.name + strings.Repeat(" ", width-len(log.name)) + " | "
		}
		stdout, stderr := &namedLines{out: a.stdout, mu: &mu, name: name}, &namedLines{out: a.stderr, mu: &mu, name: name}
		err := errors.Join(a.showContainerLog(ctx, log.ref, opts, stdout, stderr), stdout.endLastLine(), stderr.endLastLine())
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = true
			a.printError(err)
		}
	}
	var all sync.WaitGroup
	for _, log := range logs {
		if opts.Follow {
			all.Go(func() { one(log) })
		} else {
			one(log)
		}
	}
	all.Wait()
	if failed {
		return &exit{code: exitFailed}
	}
	return nil
}

// maxPart bounds how much of a line waits for its end, in bytes. A longer one is shown as several.
const maxPart = 1 << 20

// namedLines passes on whole lines with a name before each. Several of them may share an output and its mu.
type namedLines struct {
	out  io.Writer
	mu   *sync.Mutex
	name string
	part []byte // of a line whose end has not come
}

// Write passes on the lines that have ended, in one piece.
func (n *namedLines) Write(p []byte) (int, error) {
	end := bytes.LastIndexByte(p, '\n') + 1
	if end == 0 {
		n.part = append(n.part, p...)
		if len(n.part) > maxPart {
			return len(p), n.endLastLine()
		}
		return len(p), nil
	}
	var text []byte
	n.part = append(n.part, p[:end]...)
	for line := range bytes.Lines(n.part) {
		text = append(append(text, n.name...), line...)
	}
	n.part = append(n.part[:0], p[end:]...)
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.out.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// endLastLine ends a last line that has no end.
func (n *namedLines) endLastLine() error {
	if len(n.part) == 0 {
		return nil
	}
	_, err := n.Write([]byte("\n"))
	return err
}
