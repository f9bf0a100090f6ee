package progress

import (
	"io"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/show"
)

// Lines shows messages where nothing can be written over: a line for each change of an object, no counts.
type Lines struct {
	out  io.Writer
	last map[string]string // status by object
}

// NewLines returns what shows messages as lines.
func NewLines(out io.Writer) *Lines { return &Lines{out: out, last: map[string]string{}} }

// Show shows one message.
func (l *Lines) Show(message client.Progress) error {
	if message.Stream != "" {
		_, err := io.WriteString(l.out, message.Stream)
		return err
	}
	if hasCounts(message.ProgressDetail) {
		return nil
	}
	text := messageTitle(message)
	if text == "" || (message.ID != "" && l.last[message.ID] == text) {
		return nil
	}
	l.last[message.ID] = text
	_, err := io.WriteString(l.out, text+"\n")
	return err
}

// Close has nothing to do.
func (l *Lines) Close() error { return nil }

// messageTitle returns what a message says without its counts, empty for nothing.
func messageTitle(message client.Progress) string {
	text := show.Plain(message.Status)
	if message.ID != "" && text != "" {
		text = show.Plain(message.ID) + ": " + text
	}
	return text
}

// hasCounts reports whether a message tells how far something is.
func hasCounts(detail *types.ProgressDetail) bool {
	return detail != nil && (detail.Current > 0 || detail.Total > 0)
}
