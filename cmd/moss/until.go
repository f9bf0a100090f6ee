package main

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// errLater is what a lineWriter returns for a line after the end.
var errLater = errors.New("a line after the end")

// lineCut is where the lines of a log end, for both of its streams.
type lineCut struct {
	end       time.Time
	keepTimes bool
	last      int // lines that are shown; negative: all
	kept      []keptLine

	stdout, stderr *lineWriter
}

type keptLine struct {
	out  io.Writer
	text []byte
}

// emitLine shows a line, or keeps it while it may be among the last ones.
func (c *lineCut) emitLine(out io.Writer, line []byte) error {
	if c.last < 0 {
		_, err := out.Write(line)
		return err
	}
	c.kept = append(c.kept, keptLine{out: out, text: bytes.Clone(line)})
	if len(c.kept) > 64 && len(c.kept)/2 > c.last {
		c.kept = append(c.kept[:0:0], c.kept[len(c.kept)-c.last:]...)
	}
	return nil
}

// flushLines shows the lines that were kept, and the last ones if they had no end.
func (c *lineCut) flushLines() error {
	for _, w := range []*lineWriter{c.stdout, c.stderr} {
		if err := w.writeLine(w.part); err != nil && !errors.Is(err, errLater) {
			return err
		}
	}
	if len(c.kept) > c.last && c.last >= 0 {
		c.kept = c.kept[len(c.kept)-c.last:]
	}
	for _, line := range c.kept {
		if _, err := line.out.Write(line.text); err != nil {
			return err
		}
	}
	c.kept = nil
	return nil
}

// lineWriter shows one stream of a log whose lines start with their times.
type lineWriter struct {
	cut  *lineCut
	out  io.Writer
	part []byte // of a line whose end has not come
}

// Write shows the lines that have ended. It returns errLater for the first line after the end.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.part = append(w.part, p...)
	for {
		end := bytes.IndexByte(w.part, '\n')
		if end < 0 {
			return len(p), nil
		}
		if err := w.writeLine(w.part[:end+1]); err != nil {
			w.part = nil
			return 0, err
		}
		w.part = w.part[end+1:]
	}
}

// writeLine shows one line.
func (w *lineWriter) writeLine(line []byte) error {
	stamp, rest, found := bytes.Cut(line, []byte(" "))
	if at, err := time.Parse(time.RFC3339Nano, string(stamp)); found && err == nil {
		if at.After(w.cut.end) {
			return errLater
		}
		if !w.cut.keepTimes {
			line = rest
		}
	}
	if len(line) == 0 {
		return nil
	}
	return w.cut.emitLine(w.out, line)
}
