package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errFailed says that a part failed, which has been told by then.
var errFailed = errors.New("failed")

// endTime is what a part gets to clean up in when the run is interrupted.
const endTime = 30 * time.Second

// runner runs parts and writes what came of each when it ends.
type runner struct {
	began  time.Time
	budget time.Duration // parts that are bound do not begin later

	mu      sync.Mutex // guards the fields below
	w       io.Writer
	passed  int
	failed  int
	err     error    // of writing
	late    []string // packages for whose tests there was no time
	leftOut []string
}

// runLanes runs both lanes to their end.
func (r *runner) runLanes(ctx context.Context, p plan) {
	r.leftOut = append(r.leftOut, p.leftOut...)
	built := make(chan bool, 1) // gets one value: whether the first part of the engine's lane passed
	var code sync.WaitGroup
	code.Go(func() {
		waited, good := false, false
		for _, part := range p.code {
			if part.built && !waited {
				waited, good = true, <-built
			}
			if part.built && !good {
				r.skipPart(part)
			} else {
				r.runPart(ctx, part)
			}
		}
	})
	good := true
	for i, part := range p.engine {
		if !good {
			r.skipPart(part)
			continue
		}
		good = r.runPart(ctx, part)
		if i == 0 {
			built <- good
		}
	}
	code.Wait()
}

// skipPart notes a part that cannot run because the build failed.
func (r *runner) skipPart(p part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leftOut = append(r.leftOut, p.label()+": the build failed")
}

// runPart runs one part and tells whether it passed.
func (r *runner) runPart(ctx context.Context, p part) bool {
	if ctx.Err() != nil {
		return r.finishPart(p, 0, nil, ctx.Err())
	}
	if len(p.bound) > 0 && time.Since(r.began) > r.budget {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.late = append(r.late, p.bound...)
		return true
	}
	var out bytes.Buffer
	began := time.Now()
	var err error
	if p.check != nil {
		err = p.check(&out)
	} else {
		cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
		cmd.Env = append(os.Environ(), p.env...)
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = endTime
		err = cmd.Run()
	}
	if err == nil && p.silent && out.Len() > 0 {
		err = errFailed
	}
	return r.finishPart(p, time.Since(began), out.Bytes(), err)
}

// finishPart counts a part and writes its line; what it said only if it failed.
func (r *runner) finishPart(p part, took time.Duration, out []byte, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := p.label()
	word := "ok"
	if err == nil {
		r.passed++
	} else {
		r.failed++
		word = "FAILED"
		r.printLocked("%s\n", bytes.TrimRight(out, "\n"))
		if !errors.Is(err, errFailed) {
			name += ": " + err.Error()
		}
	}
	r.printLocked("%-7s %6.1f s  %s\n", word, took.Seconds(), name)
	return err == nil
}

// label is the part's name, with what it is about where several parts have that name.
func (p part) label() string {
	if len(p.bound) == 0 {
		return p.name
	}
	return p.name + ": " + strings.Join(p.bound, " ")
}

// writeClosing writes what was left out and the closing line.
func (r *runner) writeClosing(sel selection) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.late) > 0 {
		r.leftOut = append(r.leftOut, fmt.Sprintf("no time within %v for the unit tests of %d of %d dependants: %s",
			r.budget, len(r.late), len(sel.dependants), strings.Join(r.late, " ")))
	}
	if len(sel.dependants) > len(r.late) {
		r.leftOut = append(r.leftOut, "the race detector for dependants")
	}
	r.leftOut = append(r.leftOut, "all other bats files, users without sub-ids, delegated cgroups, guest: make test guest")
	for _, reason := range append(sel.leftOut, r.leftOut...) {
		r.printLocked("left out: %s\n", reason)
	}
	r.printLocked("%s\n", closingLine(r.passed, r.failed, time.Since(r.began)))
	if r.err != nil {
		return r.err
	}
	if r.failed > 0 {
		return errFailed
	}
	return nil
}

func (r *runner) printLocked(format string, args ...any) {
	_, err := fmt.Fprintf(r.w, format, args...)
	r.err = errors.Join(r.err, err)
}

func closingLine(passed, failed int, took time.Duration) string {
	return fmt.Sprintf("quick: %d parts passed, %d failed in %.0f s", passed, failed, took.Seconds())
}
