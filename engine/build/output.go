package build

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"moss/engine/stdio"
)

const (
	// outputInMemory is how much of a step's output is kept in memory, in bytes; the rest goes to an unlinked file.
	outputInMemory = 64 << 10
	// outputKept bounds the output of one step, in bytes: a step that many builds wait for may be read from its start at any
	// time, and nobody reads that of a stage whose turn has not come.
	outputKept = 128 << 20
	// outputPiece is the most that goes out in one message, in bytes.
	outputPiece = 32 << 10
)

// outputCut ends an output that is longer than outputKept.
const outputCut = "\n[Warning] the output of this step is longer than 128 MiB: the rest is not shown\n"

// output is what a step tells, from its start, for everyone who waits for it, at each one's own pace. Writing never waits
// for readers. It is closed when the step is done, and freed when nobody reads it any more.
type output struct {
	dir string

	mu      sync.Mutex // guards the fields below
	memory  []byte
	file    *os.File // holds what comes after memory; may be nil
	length  int64
	edges   []int64 // where lines of the engine's own begin and end, ascending
	closed  bool
	cut     bool
	changed chan struct{} // closed at each change
}

func newOutput(dir string) *output { return &output{dir: dir, changed: make(chan struct{})} }

// Write adds to the output. What cannot be kept is lost rather than stop the step.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writeLocked(p)
	return len(p), nil
}

func (o *output) writeLocked(p []byte) {
	if o.closed || o.cut || len(p) == 0 {
		return
	}
	keep := p
	if o.length+int64(len(p)) > outputKept {
		keep, o.cut = append(append([]byte(nil), p[:outputKept-o.length]...), outputCut...), true
	}
	o.appendLocked(keep)
	close(o.changed)
	o.changed = make(chan struct{})
}

// writeLine adds a line of the engine's own. It is a message by itself, as clients look for it, however late it is read.
func (o *output) writeLine(s string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	from := o.length
	o.writeLocked([]byte(s))
	if o.length > from {
		o.edges = append(o.edges, from, o.length)
	}
}

// appendLocked keeps p. The file is in the page cache: that is memory work but for a disk that is full.
func (o *output) appendLocked(p []byte) {
	if room := outputInMemory - len(o.memory); room > 0 && o.file == nil {
		n := min(room, len(p))
		o.memory = append(o.memory, p[:n]...)
		o.length += int64(n)
		p = p[n:]
	}
	if len(p) == 0 {
		return
	}
	if o.file == nil {
		var err error
		if o.file, err = createUnlinked(o.dir); err != nil {
			o.cut = true
			return
		}
	}
	n, err := o.file.WriteAt(p, o.length-int64(len(o.memory)))
	o.length += int64(n)
	if err != nil {
		o.cut = true
	}
}

// createUnlinked creates a file without a name.
func createUnlinked(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "output-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// close says that nothing more comes.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.changed)
	}
}

// freeSpool gives the file up. Nobody reads any more.
func (o *output) freeSpool() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.memory = true, nil
	if o.file != nil {
		_ = o.file.Close() // it was unlinked: nothing is lost with it
		o.file = nil
	}
	o.length = 0
}

// copyTo sends the output from its start to its end, piece by piece, cut between characters where that is possible.
func (o *output) copyTo(ctx context.Context, send func(string) error) error {
	buf := make([]byte, outputPiece)
	for at := int64(0); ; {
		n, whole, changed := o.readAt(buf, at)
		piece := buf[:n]
		if !whole {
			piece = piece[:stdio.WholeRunes(piece)]
		}
		if len(piece) > 0 {
			if err := send(string(piece)); err != nil {
				return err
			}
			at += int64(len(piece))
			continue
		}
		if whole {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readAt reads the output from an offset on, to the next edge at most; whole is set if nothing that belongs to it comes
// after it, without bytes if that is the end.
func (o *output) readAt(buf []byte, at int64) (n int, whole bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, edge := range o.edges {
		if edge > at {
			buf = buf[:min(int64(len(buf)), edge-at)]
			whole = int64(len(buf)) == edge-at
			break
		}
	}
	if at < int64(len(o.memory)) {
		n = copy(buf, o.memory[at:])
	}
	// A character may begin in memory and end in the file.
	if from := at + int64(n); o.file != nil && from < o.length && n < len(buf) {
		more, err := o.file.ReadAt(buf[n:min(int64(len(buf)), o.length-at)], from-int64(len(o.memory)))
		if n += more; n == 0 && err != nil && err != io.EOF {
			return 0, true, o.changed
		}
	}
	whole = whole && n == len(buf) || o.closed && at+int64(n) >= o.length
	return n, whole, o.changed
}
