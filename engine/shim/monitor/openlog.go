package monitor

import (
	"time"

	"moss/engine/fault"
	"moss/engine/logdriver"
	"moss/engine/logforward"
	"moss/engine/logs"
	"moss/engine/logs/journal"
	"moss/engine/stdio"
	"moss/engine/task"
)

// logWriter is a log of either driver.
type logWriter interface {
	Write(stream stdio.Stream, p []byte, at time.Time) error
	Flush() error
	Mark() (inode uint64, size int64)
	Close() error
}

// remoteLog is a log at a receiver, which may be away.
type remoteLog interface {
	logWriter
	Expire(after time.Duration)
	DroppedLines() int64
}

// The bounds of waiting for moss-log.
const (
	openLimit = 20 * time.Second // at the start: the receiver is asked
	lastWait  = 5 * time.Second  // after the end of the process, for output that moss-log has not got
)

// openHub opens the log of a task, and makes the hub that has it. The error is fault.Unsupported for a driver that this monitor,
// which may be older than its engine, does not know.
func openHub(id string, l task.Log, framed bool) (*hub, error) {
	h := newHub(framed)
	driver, err := logdriver.Find(l.Driver)
	if err != nil {
		return nil, fault.Unsupported("open log: %w", err)
	}
	buffer := l.Buffer
	if driver.Writes == logdriver.Remote {
		if err := h.openRemote(l); err != nil {
			return nil, err
		}
		buffer = 0 // of the copy
	}
	switch {
	case driver.Writes == logdriver.Journal:
		h.log, err = journal.Open(journal.Options{ID: id, Fields: l.Fields, EndFile: l.Path})
	case driver.Writes != logdriver.Nowhere && l.Path != "":
		h.log, err = logs.Open(l.Path, logs.Options{MaxSize: l.MaxSize, MaxFiles: l.MaxFiles, Compress: l.Compress, Attrs: l.Attrs})
	}
	if err != nil {
		h.log = nil // one of no value is not none
		h.close()
		return nil, err
	}
	if buffer > 0 && h.log != nil {
		h.log = newBufferedLog(h.log, buffer)
	}
	return h, nil
}

// openRemote opens the way to moss-log.
func (h *hub) openRemote(l task.Log) error {
	w, err := logforward.Open(l.Socket, l.Target, openLimit)
	if err != nil {
		return err
	}
	h.remote = w
	if l.Buffer > 0 {
		h.remote = &bufferedRemote{newBufferedLog(w, l.Buffer), w}
	}
	return nil
}

// bufferedRemote is a remoteLog beside which the container goes on.
type bufferedRemote struct {
	*bufferedLog
	writer *logforward.Writer
}

// Expire is that of the writer.
func (b *bufferedRemote) Expire(after time.Duration) { b.writer.Expire(after) }

// DroppedLines returns how many lines were dropped before the writer and by it.
func (b *bufferedRemote) DroppedLines() int64 { return b.droppedLines() + b.writer.DroppedLines() }
