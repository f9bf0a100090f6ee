package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"moss/engine/stdio"
)

// seekTail moves the segments' positions to the first of the last opts.Tail lines, reading backwards and no further than it
// must.
func (r *reader) seekTail(segments []segment) error {
	t := &tailer{reader: r, left: r.opts.Tail}
	for i := len(segments) - 1; i >= 0; i-- {
		s := &segments[i]
		if t.done && s.packed {
			s.skip = true
			continue
		}
		if err := r.unpackSegment(s); err != nil {
			return err
		}
		end := s.limit
		if end < 0 {
			info, err := s.file.Stat()
			if err != nil {
				return fmt.Errorf("read log: %w", err)
			}
			end = info.Size()
		}
		end, err := lastLineEnd(s.file, end)
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		if s.pos, err = t.tailStart(s.file, end); err != nil {
			return fmt.Errorf("read log: %w", err)
		}
	}
	return nil
}

// tailer counts lines from the end. A line in several entries counts once, and one that was never finished counts too.
type tailer struct {
	*reader
	left    int
	started [2]bool // an entry of stdout, of stderr has been met
	done    bool
}

// tailStart returns where the tail begins in a file whose whole lines end at end.
func (t *tailer) tailStart(f io.ReaderAt, end int64) (int64, error) {
	for end > 0 && !t.done {
		if t.left == 0 && !t.mayContinue() {
			t.done = true
			break
		}
		start := max(end-int64(len(t.buf)), 0)
		block := t.buf[:end-start]
		if n, err := f.ReadAt(block, start); n < len(block) {
			if err == nil || errors.Is(err, io.EOF) { // truncated meanwhile: take what comes
				return 0, nil
			}
			return 0, err
		}
		first := t.backLines(block, start == 0)
		if first == len(block) && !t.done { // no line begins in it
			if len(t.buf) < maxEntry {
				t.buf = make([]byte, 2*len(t.buf))
				continue
			}
			first = 0 // damage: pass over
		}
		end = start + int64(first)
	}
	return end, nil
}

// backLines goes backwards through the lines of a block that ends with a newline, and returns where the first line
// begins that is to be read. Unless whole, the block's first line may have begun before it and is left.
func (t *tailer) backLines(block []byte, whole bool) int {
	end := len(block)
	for end > 0 {
		begin := bytes.LastIndexByte(block[:end-1], '\n') + 1
		if begin == 0 && !whole {
			return end
		}
		if !t.countLine(block[begin : end-1]) {
			t.done = true
			return end
		}
		end = begin
	}
	return end
}

// countLine counts a line of the file and reports whether it belongs to the tail.
func (t *tailer) countLine(line []byte) bool {
	e, ok := t.parser.parse(line)
	if !ok || !t.wantsEntry(&e) {
		return true
	}
	started := &t.started[0]
	if e.Stream == stdio.Stderr {
		started = &t.started[1]
	}
	if *started && !bytes.HasSuffix(e.Line, []byte("\n")) {
		return true // belongs to the line that was counted with its last piece
	}
	if t.left == 0 {
		return false
	}
	*started = true
	t.left--
	return true
}

// mayContinue reports whether a line that was counted might have pieces further back.
func (t *tailer) mayContinue() bool { return t.started[0] || t.started[1] }
