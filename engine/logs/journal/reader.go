package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
	"moss/engine/logs"
	"moss/engine/stdio"
)

const (
	settleLimit = 10 * time.Second      // how long the journal gets to store what was sent to it, and for each entry to come
	settleStep  = 50 * time.Millisecond // between two looks
	maxEntry    = 4 << 20               // bytes of one entry in journalctl's JSON: every byte of a line may take four
)

// Source says whose entries to read.
type Source struct {
	Program string // empty: journalctl of the search path
	ID      string // of the container
	EndFile string // of the Writer
}

// Read calls fn with the container's entries in the order in which they were written; an entry's Line is valid during the
// call only. StopAt is a Writer's Mark. It returns nil at the end of what was asked for, ctx's error, or
// fn's. fault.Unavailable if there is no journalctl, or it cannot read.
//
// A user reads what the journal lets them read: their own entries, where it is kept on disk.
func Read(ctx context.Context, src Source, opts logs.ReadOptions, fn func(logs.Entry) error) error {
	if !opts.Stdout && !opts.Stderr {
		return fault.Invalid("a reader of logs must choose at least one stream")
	}
	if opts.Tail == 0 && !opts.Follow {
		return nil
	}
	if src.Program == "" {
		src.Program = "journalctl"
	}
	r := &reader{src: src, opts: opts, fn: fn}
	if opts.Follow && opts.StopAt == nil {
		return r.follow(ctx)
	}
	last, ok := r.readEnd()
	if at := opts.StopAt; at != nil && at.Size > 0 {
		last, ok = end{strconv.FormatUint(at.Inode, 10), strconv.FormatInt(at.Size, 10)}, true
	}
	if ok {
		if err := r.waitStored(ctx, last); err != nil {
			return err
		}
	}
	return r.runJournalctl(ctx, nil)
}

type reader struct {
	src  Source
	opts logs.ReadOptions
	fn   func(logs.Entry) error
}

// end is the last entry that a writer has sent.
type end struct{ run, ordinal string }

// readEnd returns the container's last entry; there is none while a writer is at work.
func (r *reader) readEnd() (end, bool) {
	if r.src.EndFile == "" {
		return end{}, false
	}
	text, err := os.ReadFile(r.src.EndFile)
	if err != nil {
		return end{}, false
	}
	run, ordinal, ok := strings.Cut(string(text), " ")
	return end{run, ordinal}, ok
}

// waitStored waits until the journal has stored an entry. It gives up after a time: the journal may have dropped it.
func (r *reader) waitStored(ctx context.Context, last end) error {
	deadline := time.Now().Add(settleLimit)
	for {
		cmd := r.journalctlCommand(ctx, "--lines=1", "--output=cat",
			fieldID+"="+r.src.ID, fieldEpoch+"="+last.run, fieldOrdinal+"="+last.ordinal, "--output-fields="+fieldOrdinal)
		out, err := cmd.Output()
		if err != nil {
			return r.readError(ctx, err, "")
		}
		if len(out) > 0 || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-time.After(settleStep):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow reads on until the writer has ended and its last entry has come.
func (r *reader) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan end, 1)
	if r.opts.End != nil {
		go func() {
			select {
			case <-r.opts.End:
			case <-ctx.Done():
				return
			}
			last, ok := r.readEnd()
			if ok {
				_ = r.waitStored(ctx, last) // what does not come is not waited for
			}
			over <- last
		}()
	}
	return r.runJournalctl(ctx, over)
}

// entry is what is read of journalctl's JSON.
type entry struct {
	Message  message `json:"MESSAGE"`
	Priority string  `json:"PRIORITY"`
	At       string  `json:"SYSLOG_TIMESTAMP"`
	Stored   string  `json:"__REALTIME_TIMESTAMP"` // microseconds
	Partial  string  `json:"CONTAINER_PARTIAL_MESSAGE"`
	Run      string  `json:"CONTAINER_LOG_EPOCH"`
	Ordinal  string  `json:"CONTAINER_LOG_ORDINAL"`
}

// message is a value that may hold any bytes: journalctl writes what is no text as a list of numbers.
type message []byte

// UnmarshalJSON takes a string, a list of bytes or null.
func (m *message) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		*m = message(text)
		return nil
	}
	var list []byte
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	*m = list
	return nil
}

// runJournalctl calls journalctl and passes its entries on. With over it follows, until that tells which entry is the last.
func (r *reader) runJournalctl(ctx context.Context, over <-chan end) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := r.journalctlCommand(reading, r.journalctlArgs(over != nil)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return r.readError(ctx, err, "")
	}
	lines := make(chan entry)
	scanned := make(chan error, 1)
	go func() {
		defer close(lines)
		scanned <- scanEntries(reading, out, lines)
	}()
	done, err := r.passEntries(lines, over)
	if done || err != nil {
		cancel()
	}
	for range lines { // none comes after a cancel; without one they have ended
	}
	failed := <-scanned
	waited := cmd.Wait()
	if err != nil || done {
		return err
	}
	return r.readError(ctx, errors.Join(failed, waited), stderr.String())
}

// passEntries hands entries to fn. It reports whether the end was reached on purpose.
func (r *reader) passEntries(lines <-chan entry, over <-chan end) (done bool, err error) {
	var last, seen end
	var late, until <-chan time.Time // the last entry is stored, and the next must come soon; a Follow's own bound
	if over != nil && !r.opts.Until.IsZero() {
		until = time.After(time.Until(r.opts.Until))
	}
	for {
		if late != nil && seen == last {
			return true, nil
		}
		select {
		case e, ok := <-lines:
			if !ok {
				return over != nil && late != nil, nil
			}
			seen = end{e.Run, e.Ordinal}
			if r.isPastStop(seen) {
				return true, nil
			}
			if done, err := r.emitEntry(e); err != nil || done {
				return true, err
			}
			if late != nil { // a busy machine has a long rest to pass on
				late = time.After(settleLimit)
			}
		case last = <-over:
			if last == (end{}) { // nothing was ever written
				return true, nil
			}
			over, late = nil, time.After(settleLimit)
		case <-late:
			return true, nil
		case <-until:
			return true, nil
		}
	}
}

// isPastStop reports whether an entry lies behind ReadOptions.StopAt.
func (r *reader) isPastStop(e end) bool {
	at := r.opts.StopAt
	if at == nil || e.run != strconv.FormatUint(at.Inode, 10) {
		return false
	}
	ordinal, err := strconv.ParseInt(e.ordinal, 10, 64)
	return err == nil && ordinal > at.Size
}

// emitEntry passes one entry on if it is asked for. It reports true behind ReadOptions.Until.
func (r *reader) emitEntry(e entry) (done bool, err error) {
	at, err := time.Parse(time.RFC3339Nano, e.At)
	if err != nil {
		micros, err := strconv.ParseInt(e.Stored, 10, 64)
		if err != nil {
			return false, nil //nolint:nilerr // an entry without a time is not one of ours
		}
		at = time.UnixMicro(micros)
	}
	stream := stdio.Stdout
	if e.Priority == priorityErr {
		stream = stdio.Stderr
	}
	switch {
	case stream == stdio.Stdout && !r.opts.Stdout, stream == stdio.Stderr && !r.opts.Stderr, at.Before(r.opts.Since):
		return false, nil
	case !r.opts.Until.IsZero() && at.After(r.opts.Until):
		return true, nil
	}
	line := []byte(e.Message)
	if e.Partial != "true" {
		line = append(line, '\n')
	}
	return false, r.fn(logs.Entry{Stream: stream, Time: at, Line: line})
}

// journalctlArgs returns the arguments that say to journalctl what to read.
func (r *reader) journalctlArgs(follow bool) []string {
	args := []string{
		"--output=json", "--all",
		"--output-fields=" + strings.Join([]string{
			fieldMessage, fieldPriority, fieldTimestamp, fieldPartial, fieldEpoch,
			fieldOrdinal,
		}, ","),
	}
	if follow {
		args = append(args, "--follow")
	}
	switch {
	case r.opts.Tail >= 0:
		args = append(args, "--lines="+strconv.Itoa(r.opts.Tail))
	case follow:
		args = append(args, "--no-tail")
	}
	// The journal's own times are those of its reception: later than ours, but not by much.
	if !r.opts.Since.IsZero() {
		args = append(args, "--since=@"+strconv.FormatInt(r.opts.Since.Unix(), 10))
	}
	if !r.opts.Until.IsZero() && !follow {
		args = append(args, "--until=@"+strconv.FormatInt(r.opts.Until.Add(settleLimit).Unix(), 10))
	}
	args = append(args, fieldID+"="+r.src.ID)
	if !r.opts.Stderr {
		args = append(args, fieldPriority+"="+priorityOut)
	}
	if !r.opts.Stdout {
		args = append(args, fieldPriority+"="+priorityErr)
	}
	return args
}

func (r *reader) journalctlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.src.Program, append([]string{"--quiet", "--no-pager"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	return cmd
}

// readError returns what went wrong with journalctl; nil if nothing did.
func (r *reader) readError(ctx context.Context, err error, said string) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return nil
	case said != "":
		return fault.Unavailable("read the journal: %s", strings.TrimSpace(said))
	default:
		return fault.Unavailable("read the journal: %v", err)
	}
}

// scanEntries reads entries until the end of r or of ctx. Lines that are no entries are passed over.
func scanEntries(ctx context.Context, r io.Reader, lines chan<- entry) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxEntry)
	for in.Scan() {
		var e entry
		if json.Unmarshal(in.Bytes(), &e) != nil {
			continue
		}
		select {
		case lines <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := in.Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("read journalctl's output: %w", err)
	}
	return nil
}
