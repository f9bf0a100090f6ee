package monitor

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"moss/engine/stdio"
)

// slowLog is a log that takes nothing while it is held up.
type slowLog struct {
	gate sync.Mutex // held by the test while the log takes nothing

	mu      sync.Mutex // guards the fields below
	text    [2]strings.Builder
	flushes int
	closed  bool
	err     error // of the next write
}

func (l *slowLog) Write(stream stdio.Stream, p []byte, _ time.Time) error {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text[stream.OutputIndex()].Write(p)
	err := l.err
	l.err = nil
	return err
}

func (l *slowLog) Flush() error {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushes++
	return nil
}

func (l *slowLog) Mark() (uint64, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 7, int64(l.text[0].Len())
}

func (l *slowLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

func (l *slowLog) written(stream stdio.Stream) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text[stream.OutputIndex()].String()
}

func writeOutput(t *testing.T, b *bufferedLog, stream stdio.Stream, text string) {
	t.Helper()
	p := []byte(text)
	if err := b.Write(stream, p, time.Now()); err != nil {
		t.Fatalf("Write(%q) = %v", text, err)
	}
	clear(p) // the caller may use it again
}

// awaitIdle waits until the log has all that was taken, longer than Mark does.
func awaitIdle(b *bufferedLog) {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	<-idle
}

func closeLog(t *testing.T, b *bufferedLog) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
}

func TestBufferedLogTakesAll(t *testing.T) {
	log := &slowLog{}
	b := newBufferedLog(log, 1<<20)
	var want strings.Builder
	for i := range 1000 {
		line := strconv.Itoa(i) + " of a stream"
		want.WriteString(line + "\n")
		writeOutput(t, b, stdio.Stdout, line)
		writeOutput(t, b, stdio.Stdout, "\n")
		writeOutput(t, b, stdio.Stderr, "x")
	}
	closeLog(t, b)
	closeLog(t, b)
	if got := log.written(stdio.Stdout); got != want.String() {
		t.Errorf("stdout has %d bytes, want %d", len(got), want.Len())
	}
	if got := log.written(stdio.Stderr); got != strings.Repeat("x", 1000) {
		t.Errorf("stderr = %q", got)
	}
	if n := b.droppedLines(); n != 0 || !log.closed {
		t.Errorf("%d lines dropped, closed: %v", n, log.closed)
	}
	if err := b.Write(stdio.Stdout, []byte("late"), time.Now()); err == nil {
		t.Error("Write after Close = nil, want an error")
	}
}

// TestBufferedLogDrops holds the log up, so that what does not fit is dropped by whole lines.
func TestBufferedLogDrops(t *testing.T) {
	for _, tc := range []struct {
		name    string
		pieces  []string
		after   []string // once the log goes on
		want    string
		dropped int64
	}{
		{"fits", []string{"12345678\n"}, nil, "12345678\n", 0},
		{"the last lines", []string{"1234\n", "12\n", "a\nb\nc\n", "d\n"}, nil, "1234\n12\na\n", 3},
		{"a line in pieces, all of it", []string{"123456789\n", "lo", "st", "\n"}, []string{"after\n"}, "123456789\nafter\n", 1},
		{"the end of a line", []string{"12345678", "90abcd", "ef\n"}, []string{"after\n"}, "12345678\nafter\n", 1},
		{"the middle of a line", []string{"1234\nbeg", "in, middle"}, []string{", end\nafter\n"}, "1234\nbeg\nafter\n", 1},
		{"a line that has room later", []string{"123456789\n", "too long\nand "}, []string{"so on\n", "x\n"}, "123456789\nx\n", 2},
		{"a line without an end", []string{"12345678\n", strings.Repeat("x", 50), strings.Repeat("x", 50)}, []string{"y", "y"}, "12345678\n", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := &slowLog{}
			b := newBufferedLog(log, 10)
			log.gate.Lock()
			for _, p := range tc.pieces {
				writeOutput(t, b, stdio.Stdout, p)
			}
			log.gate.Unlock()
			awaitIdle(b)
			for _, p := range tc.after {
				writeOutput(t, b, stdio.Stdout, p)
				awaitIdle(b)
			}
			closeLog(t, b)
			if got := log.written(stdio.Stdout); got != tc.want {
				t.Errorf("the log has %q, want %q", got, tc.want)
			}
			if got := b.droppedLines(); got != tc.dropped {
				t.Errorf("%d lines dropped, want %d", got, tc.dropped)
			}
		})
	}
}

func TestBufferedLogMark(t *testing.T) {
	log := &slowLog{}
	b := newBufferedLog(log, 100)
	writeOutput(t, b, stdio.Stdout, "seen\n")
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	awaitIdle(b)
	if inode, size := b.Mark(); inode != 7 || size != 5 || log.flushes == 0 {
		t.Errorf("Mark = %d, %d after %d flushes, want 7, 5 after one", inode, size, log.flushes)
	}
	log.gate.Lock()
	writeOutput(t, b, stdio.Stdout, "held\n")
	if inode, size := b.Mark(); inode != 0 || size != 0 {
		t.Errorf("Mark of a log that is held up = %d, %d, want none", inode, size)
	}
	log.gate.Unlock()
	closeLog(t, b)
}

func TestBufferedLogTellsErrors(t *testing.T) {
	full := errors.New("disk full")
	log := &slowLog{err: full}
	b := newBufferedLog(log, 100)
	writeOutput(t, b, stdio.Stdout, "lost\n")
	awaitIdle(b)
	if err := b.Write(stdio.Stdout, []byte("kept\n"), time.Now()); !errors.Is(err, full) {
		t.Errorf("the next Write = %v, want %v", err, full)
	}
	closeLog(t, b)
	if got := log.written(stdio.Stdout); !strings.HasSuffix(got, "kept\n") {
		t.Errorf("the log has %q, want what came after the error", got)
	}
}
