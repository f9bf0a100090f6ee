package progress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"moss/api/client"
	"moss/cmd/moss/show"
)

// Bounds of what a build shows.
const (
	tick     = 100 * time.Millisecond // between two looks at the clock
	mostTail = 4                      // lines of its output below a step that runs
	mostKept = 256 << 10              // bytes of a step's output that are kept in case that it fails, or twice as many
	mostSeen = 8 << 10                // bytes at the end of it that its last lines are looked for in
)

// Build shows a build on a terminal: below what is done the steps that run, with their time and the last lines of what
// they write. Close must be called.
type Build struct {
	out  io.Writer
	stop func()

	mu      sync.Mutex // guards the fields below
	frame   *Screen    // its rows are the live ones; it draws into buffer
	buffer  bytes.Buffer
	done    bytes.Buffer // lines that stay, not written yet
	steps   []*step      // that run, in the order in which they started
	parts   []client.Progress
	sent    int64
	sending bool
	failed  error // of writing
}

// step is one that runs.
type step struct {
	client.BuildStep

	since time.Time
	text  []byte // the end of what it wrote
}

// NewBuild returns what shows a build on a terminal whose size is asked for whenever something is drawn.
func NewBuild(out io.Writer, size func() (height, width int)) *Build {
	b := &Build{out: out}
	b.frame = NewScreen(&b.buffer, size)
	ended, quit := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				b.mu.Lock()
				b.drawLocked()
				b.mu.Unlock()
			case <-quit:
				return
			}
		}
	}()
	b.stop = sync.OnceFunc(func() { close(quit); <-ended })
	return b
}

// Sent tells how many bytes of the context are on their way. It may be called by any goroutine.
func (b *Build) Sent(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent, b.sending = bytes, true // drawn at the next tick
}

// Show shows one message.
func (b *Build) Show(message client.Progress) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var about client.BuildStep
	b.sending = false
	if len(message.Aux) > 0 && json.Unmarshal(message.Aux, &about) == nil && about.Number > 0 {
		b.changeLocked(about)
		defer b.drawLocked() // all else has time until the next tick
	}
	switch {
	case message.Stream != "":
		b.writtenLocked(message.ID, message.Stream)
	case message.Status != "" && message.ID == "" && !hasCounts(message.ProgressDetail):
		b.parts = nil // the last word on a pull
	case message.Status != "":
		b.partLocked(message)
	}
	return b.failed
}

// Close leaves what was done on the terminal, and the cursor at the start of an empty line.
func (b *Build) Close() error {
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps, b.parts, b.sending = nil, nil, false
	b.drawLocked()
	return b.failed
}

// changeLocked takes up what became of a step.
func (b *Build) changeLocked(about client.BuildStep) {
	at := -1
	for i, s := range b.steps {
		if s.Number == about.Number && s.Stage == about.Stage {
			at = i
		}
	}
	if about.State == "started" {
		if at < 0 {
			b.steps = append(b.steps, &step{BuildStep: about, since: time.Now()})
		}
		return
	}
	var text []byte
	if at >= 0 {
		text = b.steps[at].text
		b.steps = append(b.steps[:at], b.steps[at+1:]...)
	}
	b.parts = nil
	_, width := b.frame.usableSize()
	took := fmt.Sprintf("%.1fs", about.Seconds)
	switch about.State {
	case "cached":
		took = "cached"
	case "failed":
		took = "FAILED " + took
	}
	b.done.WriteString(stepRow(about, took, width) + "\n")
	if about.State == "failed" {
		for _, line := range splitLines(text) {
			b.done.WriteString("  | " + line + "\n")
		}
	}
}

// writtenLocked takes up text: of a stage's running step, or the build's own. What the steps' rows say already is left out.
func (b *Build) writtenLocked(stage, text string) {
	if strings.HasPrefix(text, "Step ") || strings.HasPrefix(text, " ---> ") || strings.HasPrefix(text, "Removing intermediate container ") {
		return
	}
	for _, s := range b.steps {
		if stage != strconv.Itoa(s.Stage) || strings.HasPrefix(text, "[Warning] ") {
			continue
		}
		s.text = append(s.text, text...)
		if over := len(s.text) - mostKept; over > mostKept {
			s.text = append(s.text[:0], s.text[over:]...)
		}
		return
	}
	for _, line := range splitLines([]byte(text)) {
		b.done.WriteString(line + "\n")
	}
}

// partLocked takes up how far a layer of an image is that is fetched.
func (b *Build) partLocked(message client.Progress) {
	for i := range b.parts {
		if b.parts[i].ID == message.ID {
			b.parts[i] = message
			return
		}
	}
	b.parts = append(b.parts, message)
}

// drawLocked brings the terminal up to date, in one write.
func (b *Build) drawLocked() {
	height, width := b.frame.usableSize()
	rows := b.rowsLocked(height, width)
	var err error
	if b.done.Len() > 0 {
		err = b.frame.drawRows(nil, height, width)
		b.buffer.Write(b.done.Bytes())
		b.done.Reset()
	}
	if err == nil {
		err = b.frame.drawRows(rows, height, width)
	}
	if err == nil && b.buffer.Len() > 0 {
		_, err = b.buffer.WriteTo(b.out)
	}
	if b.failed == nil {
		b.failed = err
	}
}

// rowsLocked makes the live rows, at most height of them.
func (b *Build) rowsLocked(height, width int) []string {
	var rows []string
	if b.sending {
		rows = append(rows, cutToWidth("Sending the context "+show.Size(b.sent), width))
	}
	tail := mostTail
	if n := len(b.steps); n > 0 {
		tail = min(max((height-len(rows)-n)/n, 0), mostTail)
	}
	for _, s := range b.steps {
		rows = append(rows, stepRow(s.BuildStep, fmt.Sprintf("%.1fs", time.Since(s.since).Seconds()), width))
		written := splitLines(s.text[max(len(s.text)-mostSeen, 0):])
		for _, line := range written[max(len(written)-tail, 0):] {
			rows = append(rows, cutToWidth("  | "+line, width))
		}
	}
	for _, part := range b.parts {
		rows = append(rows, messageRow(part, width))
	}
	if len(rows) > height {
		more := len(rows) - height + 1
		rows = append(rows[:height-1], cutToWidth(fmt.Sprintf("%d more lines", more), width))
	}
	return rows
}

// stepRow writes a step with its time, or what else became of it, at the right end.
func stepRow(s client.BuildStep, right string, width int) string {
	place := fmt.Sprintf("%d/%d", s.Number, s.Total)
	switch {
	case s.StageName != "":
		place = s.StageName + " " + place
	case s.Stage > 0:
		place = fmt.Sprintf("stage-%d %s", s.Stage, place)
	}
	text, _, more := strings.Cut(strings.TrimRight(s.Instruction, "\n"), "\n")
	if more {
		text += " ..."
	}
	text = cutToWidth(show.Plain("["+place+"] "+text), max(width-len(right)-1, 1))
	return cutToWidth(text+strings.Repeat(" ", max(width-countCells(text)-len(right), 1))+right, width)
}

// splitLines cuts output into lines that a terminal can show: of one that was written over the last state, without escape
// sequences.
func splitLines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	var list []string
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\r\n"), "\n") {
		line = strings.TrimRight(line, "\r")
		line = line[strings.LastIndexByte(line, '\r')+1:]
		list = append(list, show.Plain(strings.ReplaceAll(withoutEscapes(line), "\t", "        ")))
	}
	return list
}

// withoutEscapes drops the escape sequences that set colours and the like.
func withoutEscapes(text string) string {
	if !strings.Contains(text, "\x1b") {
		return text
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "\x1b")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		text = after
		if rest, long := strings.CutPrefix(after, "["); long {
			end := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
			text = rest[end+1:]
		}
	}
}
