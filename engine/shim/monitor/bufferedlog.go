package monitor

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"time"

	"moss/engine/stdio"
)

// markPatience bounds how long a new viewer waits for a log that does not keep up.
const markPatience = time.Second

// bufferedLog writes a log beside the container (log option mode=non-blocking): it holds what the log has not taken yet, up
// to a number of bytes, and drops whole lines beyond that. It may be used by several goroutines.
type bufferedLog struct {
	log  logWriter
	most int // bytes held

	mu      sync.Mutex // guards the fields below
	held    []heldOutput
	size    int        // bytes in held and in what is being written
	streams [2]lineGap // of stdout and stderr
	dropped int64      // lines
	flush   bool       // the log is flushed once all that is held is written
	closed  bool       // nothing more is taken
	err     error      // of the latest write, until Write, Flush or Close returns it
	// idle is closed while the log has all that was taken.
	idle chan struct{}

	news chan struct{} // of capacity 1: there is work, or none will come
	done chan struct{} // closed when the last is written
}

// heldOutput is a piece of output that the log has not taken.
type heldOutput struct {
	stream stdio.Stream
	data   []byte
	at     time.Time
}

// lineGap is where a stream's output stands beside its lines.
type lineGap struct {
	inLine  bool // the last byte that was taken ended no line
	skip    bool // the beginning of the present line was dropped: its rest is dropped too
	endLine bool // the end of the line that was taken last was dropped: a newline takes its place
}

// newBufferedLog starts to write to log, which it closes with itself.
func newBufferedLog(log logWriter, most int64) *bufferedLog {
	b := &bufferedLog{
		log: log, most: int(most), idle: make(chan struct{}), news: make(chan struct{}, 1), done: make(chan struct{}),
	}
	close(b.idle)
	go b.writeHeld()
	return b
}

// Write takes a chunk of output, or as many of its lines as there is room for. It never waits for the log. The error is that of
// an earlier write to the log.
func (b *bufferedLog) Write(stream stdio.Stream, p []byte, at time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return os.ErrClosed
	}
	if data := b.fitLocked(&b.streams[stream.OutputIndex()], p); len(data) > 0 {
		b.held = append(b.held, heldOutput{stream, data, at})
		b.size += len(data)
		b.wakeWriterLocked()
	}
	return b.takeErrorLocked()
}

// fitLocked returns a copy of what is taken of a chunk, and counts the lines that are dropped.
func (b *bufferedLog) fitLocked(gap *lineGap, p []byte) []byte {
	if gap.skip {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			return nil
		}
		gap.skip, p = false, p[end+1:]
	}
	if len(p) == 0 {
		return nil
	}
	room := b.most - b.size
	if gap.endLine {
		room--
	}
	taken := p
	if len(p) > room {
		taken = p[:bytes.LastIndexByte(p[:max(room, 0)], '\n')+1]
		lost := p[len(taken):]
		b.dropped += int64(bytes.Count(lost, []byte{'\n'}))
		if gap.skip = lost[len(lost)-1] != '\n'; gap.skip {
			b.dropped++
		}
	}
	if len(taken) == 0 {
		gap.endLine = gap.endLine || gap.inLine
		gap.inLine = false
		return nil
	}
	data := make([]byte, 0, len(taken)+1)
	if gap.endLine {
		data = append(data, '\n')
	}
	data = append(data, taken...)
	gap.endLine, gap.inLine = false, taken[len(taken)-1] != '\n'
	return data
}

// Flush has the log flushed once it has all that is held. The error is that of an earlier write.
func (b *bufferedLog) Flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush = true
	b.wakeWriterLocked()
	return b.takeErrorLocked()
}

// Mark returns the log's position behind all that was taken, or none where the log does not keep up within markPatience: a
// viewer then sees some lines twice.
func (b *bufferedLog) Mark() (inode uint64, size int64) {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	select {
	case <-idle:
		return b.log.Mark()
	case <-time.After(markPatience):
		return 0, 0
	}
}

// Close waits until the log has all that was taken, as a log in blocking mode does, and closes it. A second Close does nothing.
func (b *bufferedLog) Close() error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.wakeWriterLocked()
	b.mu.Unlock()
	<-b.done
	if !first {
		return nil
	}
	return errors.Join(b.takeError(), b.log.Close())
}

// droppedLines returns how many lines the log has not got.
func (b *bufferedLog) droppedLines() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

func (b *bufferedLog) takeError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.takeErrorLocked()
}

func (b *bufferedLog) takeErrorLocked() error {
	err := b.err
	b.err = nil
	return err
}

func (b *bufferedLog) wakeWriterLocked() {
	select {
	case <-b.idle:
		b.idle = make(chan struct{})
	default:
	}
	select {
	case b.news <- struct{}{}:
	default: // it will look
	}
}

// writeHeld writes what is held until the end.
func (b *bufferedLog) writeHeld() {
	defer close(b.done)
	for range b.news {
		for b.writeBatch() {
		}
		if b.isOver() {
			return
		}
	}
}

// writeBatch writes what is held now. It reports whether there was anything.
func (b *bufferedLog) writeBatch() bool {
	b.mu.Lock()
	held, flush := b.held, b.flush
	b.held, b.flush = nil, false
	if len(held) == 0 && !flush {
		select {
		case <-b.idle:
		default:
			close(b.idle)
		}
	}
	b.mu.Unlock()
	for _, o := range held {
		b.noteWritten(len(o.data), b.log.Write(o.stream, o.data, o.at))
	}
	if flush {
		b.noteWritten(0, b.log.Flush())
	}
	return len(held) > 0 || flush
}

// isOver reports whether nothing more will come.
func (b *bufferedLog) isOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed && len(b.held) == 0 && !b.flush
}

// noteWritten gives the room of a piece back.
func (b *bufferedLog) noteWritten(size int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size -= size
	if err != nil {
		b.err = err
	}
}
