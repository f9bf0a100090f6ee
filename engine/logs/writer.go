// Package logs writes and reads the log file of one container in the json-file format: one JSON object per line, with
// older files beside it as path.1, path.2 and so on. It knows nothing of containers, and starts nothing that outlives a
// call.
package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"moss/engine/stdio"
)

const (
	// maxLine is the longest piece of a line in one entry; what is longer goes into several, of which only the last
	// ends with a newline. Clients that join entries expect this size.
	maxLine = 16 << 10
	// flushSize is the size of encoded lines from which they are written: enough for one write per chunk of a pipe, and
	// little enough to stay small in a shim that lives as long as its container.
	flushSize = 128 << 10
)

// Options bound the log. The zero value is one file without a limit.
type Options struct {
	MaxSize  int64  // bytes of one file before the next is begun; 0 is unlimited
	MaxFiles int    // files kept, the current one included; less than 1 means 1
	Compress bool   // files that are no longer written to are packed with gzip, beside the writing
	Attrs    []byte // a JSON object of strings that every entry carries; empty for none
}

// Writer appends to a log. It may be used by several goroutines.
type Writer struct {
	path string
	opts Options

	// turn is held while a chunk is encoded and written: the file takes one write at a time, and only writers of this
	// log wait for it.
	turn    sync.Mutex
	file    *os.File // nil once closed
	size    int64    // of file
	torn    int64    // bytes at the end of file that are no whole line; cut off before the next write
	buf     []byte   // whole encoded lines, not yet written
	partial [2]partial
	middle  [2][]byte // of the entries of each stream
	tail    []byte    // of the entries of a chunk
	packing *packing  // the latest; nil before the first
}

// partial is the unfinished line of one stream.
type partial struct {
	bytes []byte
	at    time.Time // of its latest chunk
}

// Open opens the log at path for appending, or creates it with mode 0600 in its existing folder. An unfinished line that
// a crash left at its end is cut off. There must be one Writer per path. The caller closes it.
func Open(path string, opts Options) (*Writer, error) {
	opts.MaxFiles = max(opts.MaxFiles, 1)
	for _, left := range []string{nextName(path), packingName(path)} {
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	size, err := cutUnfinishedLine(f)
	if err != nil {
		_ = f.Close() // the first error says more
		return nil, fmt.Errorf("repair log: %w", err)
	}
	w := &Writer{path: path, opts: opts, file: f, size: size}
	for i, stream := range streams {
		w.middle[i] = entryMiddle(stream, opts.Attrs)
	}
	return w, nil
}

// Write adds a chunk of a stream's output, with the time at which it was read. Chunks need not be whole lines: the rest
// of the last line waits for the next chunk, for Mark or for Flush. p may be used again after the call.
//
// An error (a full disk, say) costs whole lines of this chunk and nothing else: no piece of a line stays in the file,
// later chunks are tried afresh, and when only the rotation failed, the lines are in the old file.
func (w *Writer) Write(stream stdio.Stream, p []byte, at time.Time) error {
	w.turn.Lock()
	defer w.turn.Unlock()
	if err := w.checkOutput(stream); err != nil || len(p) == 0 {
		return err
	}
	i := stream.OutputIndex()
	part := &w.partial[i]
	part.at = at
	w.tail = appendTail(w.tail[:0], w.middle[i], at)
	var first error
	for len(p) > 0 {
		var line []byte
		line, p = part.nextLine(p)
		if line == nil {
			break
		}
		if err := w.addEntry(line, w.tail); err != nil && first == nil {
			first = err
		}
	}
	if err := w.flush(); err != nil && first == nil {
		first = err
	}
	return first
}

// Flush writes the unfinished lines, without a newline. It is for the end of the streams.
func (w *Writer) Flush() error {
	w.turn.Lock()
	defer w.turn.Unlock()
	return w.flushPartials(false)
}

// Mark returns the position that the log has now: a reader that stops there (ReadOptions.StopAt) gets every byte that
// was written before, since unfinished lines are written first, as Flush does. What cannot be written is not waited for.
func (w *Writer) Mark() (inode uint64, size int64) {
	w.turn.Lock()
	defer w.turn.Unlock()
	_ = w.flushPartials(true) // the bytes stay lost to the log either way; the next Write reports the same trouble
	if w.file == nil {
		return 0, 0
	}
	info, err := w.file.Stat()
	if err != nil {
		return 0, 0
	}
	return inodeOf(info), info.Size() - w.torn
}

// Close writes the unfinished lines and closes the file. A second Close does nothing.
func (w *Writer) Close() error {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.file == nil {
		return nil
	}
	err := w.flushPartials(false)
	w.packing.cancel()
	if cerr := w.file.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close log: %w", cerr)
	}
	w.file = nil
	return err
}

// streams are the outputs in the order of Writer.partial.
var streams = [2]stdio.Stream{stdio.Stdout, stdio.Stderr} //nolint:gochecknoglobals // a constant table

// checkOutput reports a log that is closed, and a stream that is no output.
func (w *Writer) checkOutput(stream stdio.Stream) error {
	if w.file == nil {
		return fmt.Errorf("write log %s: %w", w.path, os.ErrClosed)
	}
	if stream != stdio.Stdout && stream != stdio.Stderr {
		return fmt.Errorf("write log %s: no such output: %v", w.path, stream)
	}
	return nil
}

// nextLine takes one entry's bytes from the kept bytes and p, and returns what is left of p. Without a whole entry it keeps
// p and returns nil. The line is valid until the next call.
func (t *partial) nextLine(p []byte) (line, rest []byte) {
	room := maxLine - len(t.bytes)
	end := bytes.IndexByte(p[:min(len(p), room)], '\n') + 1
	old := len(t.bytes)
	switch {
	case end > 0 && old == 0:
		return p[:end], p[end:]
	case end > 0:
		return t.joinKept(p[:end]), p[end:]
	case len(p) < room:
		t.bytes = append(t.bytes, p...)
		return nil, nil
	case old == 0:
		cut := stdio.WholeRunes(p[:room])
		return p[:cut], p[cut:]
	}
	line = t.joinKept(p[:room])
	cut := stdio.WholeRunes(line)
	if cut < old { // a rune that began in the kept bytes does not fit
		t.bytes = bytes.Clone(line[cut:old])
		return line[:cut], p
	}
	return line[:cut], p[cut-old:]
}

// joinKept returns the kept bytes and p in one piece, which is valid until the next call of nextLine.
func (t *partial) joinKept(p []byte) []byte {
	t.bytes = append(t.bytes, p...)
	line := t.bytes
	t.bytes = line[:0]
	return line
}

// addEntry encodes one entry. Room is made before it is needed: a full buffer is written, a full file rotated.
func (w *Writer) addEntry(line, tail []byte) (err error) {
	start := len(w.buf)
	w.buf = appendEntry(w.buf, line, tail)
	if w.opts.MaxSize > 0 && w.size+int64(len(w.buf)) > w.opts.MaxSize && w.size+int64(start) > 0 {
		entry := w.buf[start:]
		err = w.writeLines(w.buf[:start])
		if rerr := w.rotate(); err == nil {
			err = rerr
		}
		w.buf = append(w.buf[:0], entry...)
	}
	if len(w.buf) >= flushSize {
		if ferr := w.flush(); err == nil {
			err = ferr
		}
	}
	return err
}

func (w *Writer) flush() error {
	err := w.writeLines(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *Writer) flushPartials(keepRunes bool) error {
	if w.file == nil {
		return nil
	}
	var first error
	for i := range w.partial {
		t := &w.partial[i]
		cut := len(t.bytes)
		if keepRunes {
			cut = stdio.WholeRunes(t.bytes)
		}
		if cut == 0 {
			continue
		}
		w.tail = appendTail(w.tail[:0], w.middle[i], t.at)
		if err := w.addEntry(t.bytes[:cut], w.tail); err != nil && first == nil {
			first = err
		}
		t.bytes = append(t.bytes[:0], t.bytes[cut:]...)
	}
	if err := w.flush(); err != nil && first == nil {
		first = err
	}
	return first
}

// writeLines appends whole lines to the file. When only some fit, the file ends behind the last whole one.
func (w *Writer) writeLines(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	if err := w.cutTornLine(); err != nil {
		return err
	}
	n, err := w.file.Write(lines)
	w.size += int64(n)
	if err == nil {
		return nil
	}
	w.torn = int64(n - (bytes.LastIndexByte(lines[:n], '\n') + 1))
	_ = w.cutTornLine() // if it fails now, the next write tries again before it adds anything
	return fmt.Errorf("write log: %w", err)
}

// cutTornLine cuts off the piece of a line that a failed write left. It asks for the real size, since people truncate logs.
func (w *Writer) cutTornLine() error {
	if w.torn == 0 {
		return nil
	}
	info, err := w.file.Stat()
	if err != nil {
		return fmt.Errorf("mend log: %w", err)
	}
	size := max(info.Size()-w.torn, 0)
	if err := w.file.Truncate(size); err != nil {
		return fmt.Errorf("mend log: %w", err)
	}
	w.size, w.torn = size, 0
	return nil
}

// cutUnfinishedLine cuts off an unfinished last line and returns the size of what stays.
func cutUnfinishedLine(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end, err := lastLineEnd(f, info.Size())
	if err != nil || end == info.Size() {
		return end, err
	}
	return end, f.Truncate(end)
}

// Check tells why the log at path cannot be gone on with; nil if it can. One that does not exist yet can.
func Check(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = lastLineEnd(f, info.Size())
	return err
}

// lastLineEnd returns the offset behind the last newline before limit, 0 if there is none.
func lastLineEnd(f io.ReaderAt, limit int64) (int64, error) {
	var block [4096]byte
	for end := limit; end > 0; {
		start := max(end-int64(len(block)), 0)
		n, err := f.ReadAt(block[:end-start], start)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(block[:n], '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

func inodeOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
