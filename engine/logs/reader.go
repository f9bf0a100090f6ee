package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"moss/engine/fault"
	"moss/engine/stdio"
)

const (
	readSize = 128 << 10 // of the first buffer; one that holds no whole line grows
	restSize = 4 << 10   // of the buffer of a follower at rest, of which there may be thousands
	maxEntry = 1 << 20   // a line of the file longer than this is damage and skipped: ours end near 100 KiB
	// untilSlack is how far entries may be out of order: their times are taken by two readers of pipes before the
	// entries queue for the file.
	untilSlack = 2 * time.Second
)

// Mark is a position in a log: see Writer.Mark. The zero value is no position.
type Mark struct {
	Inode uint64
	Size  int64
}

// ReadOptions say what to read of a log.
type ReadOptions struct {
	Stdout, Stderr bool      // the streams; at least one
	Since          time.Time // entries from then on; zero is no bound
	Until          time.Time // entries up to then; a Follow ends then; zero is no bound
	Tail           int       // the last lines of the chosen streams up to Until; 0 is none, negative all
	Follow         bool      // go on with what is written later
	// End is closed when the writer has written its last. A Follow then ends once all is read; with a nil End it goes
	// on until its context or Until ends it.
	End <-chan struct{}
	// StopAt ends the reading at a position of the log, also with Follow. If that file is gone, all there is lies
	// behind the position, and nothing is read.
	StopAt *Mark
	// Watcher tells a Follow of changes; nil: it has its own.
	Watcher *Watcher
}

// Read calls fn with the entries of the log at path, in the order in which they were written, older files first; an
// entry's Line is valid during the call only. It returns nil at the end of what was asked for, ctx's error, or fn's.
//
// An unfinished last line, as a crash leaves it, and lines that are no entries are passed over. A log that does not
// exist yet is empty, but a missing folder gives fault.NotFound. Files may be rotated meanwhile: nothing is lost or read
// twice, as long as the reader is not slower than the writer by more than the files that are kept.
func Read(ctx context.Context, path string, opts ReadOptions, fn func(Entry) error) error {
	if !opts.Stdout && !opts.Stderr {
		return fault.Invalid("a reader of logs must choose at least one stream")
	}
	r := &reader{path: path, opts: opts, fn: fn}
	r.growBuffer()
	defer r.shrinkBuffer()
	var changes *watch
	if opts.Follow && opts.StopAt == nil {
		w := opts.Watcher
		if w == nil {
			w = &Watcher{}
		}
		var err error
		if changes, err = w.newWatch(path); err != nil { // before the first look, so that no change falls between
			return err
		}
		defer changes.close()
	}
	chain, err := openChain(ctx, path, 0)
	if err != nil {
		return err
	}
	defer func() { r.closeAll() }()
	if r.segments, err = r.makeSegments(chain); err != nil {
		return err
	}
	err = r.readSegments(ctx)
	if err == nil && changes != nil {
		err = r.follow(ctx, changes)
	}
	if errors.Is(err, errUntil) {
		return nil
	}
	return err
}

// errUntil ends the reading at ReadOptions.Until.
var errUntil = errors.New("until")

// segment is what is still to read of one file.
type segment struct {
	logFile
	pos   int64 // the beginning of a line
	limit int64 // negative: the end of the file
	skip  bool  // nothing of it
}

// unpackSegment makes the segment's file one that can be read. A packed one is unpacked when its turn comes and not before.
func (r *reader) unpackSegment(s *segment) error {
	if !s.packed {
		return nil
	}
	file, err := unpackFile(s.file, filepath.Dir(r.path))
	if err != nil {
		return err
	}
	_ = s.file.Close() // only read from
	s.file, s.packed = file, false
	return nil
}

type reader struct {
	path     string
	opts     ReadOptions
	fn       func(Entry) error
	parser   parser
	buf      []byte
	skipping bool      // inside a line that is too long
	segments []segment // the first is being read; with Follow the last stays open at its end
}

// makeSegments makes segments of the files, which it takes over, and applies StopAt and Tail.
func (r *reader) makeSegments(chain []logFile) ([]segment, error) {
	segments := make([]segment, 0, len(chain))
	for _, f := range chain {
		segments = append(segments, segment{logFile: f, limit: -1})
	}
	r.segments = segments // closed by Read if what follows fails
	if r.opts.StopAt != nil {
		segments = stopAt(segments, *r.opts.StopAt)
		r.segments = segments
	}
	if r.opts.Tail >= 0 {
		if err := r.seekTail(segments); err != nil {
			return r.segments, err
		}
	}
	return segments, nil
}

// stopAt limits the segment that the mark is in and closes those behind it. It looks at the newest first: the inode of a
// file that was packed may be another's by now. A mark without an inode is no position: nothing is limited.
func stopAt(segments []segment, mark Mark) []segment {
	if mark.Inode == 0 {
		return segments
	}
	keep := 0
	for i := len(segments) - 1; i >= 0; i-- {
		if segments[i].inode == mark.Inode {
			segments[i].limit = mark.Size
			keep = i + 1
			break
		}
	}
	for _, s := range segments[keep:] {
		_ = s.file.Close() // only read from
	}
	return segments[:keep]
}

// readSegments reads all segments up to their present ends. All but the last are closed and dropped.
func (r *reader) readSegments(ctx context.Context) error {
	for len(r.segments) > 0 {
		if err := r.readFile(ctx, &r.segments[0]); err != nil {
			return err
		}
		if len(r.segments) == 1 {
			return nil
		}
		_ = r.segments[0].file.Close() // only read from
		r.segments = r.segments[1:]
		r.skipping = false
	}
	return nil
}

// readFile reads whole lines up to the present end of the file or the segment's limit. A line without an end is left for
// the next time, and then read from its beginning: a writer that runs into a full disk takes such pieces back.
func (r *reader) readFile(ctx context.Context, s *segment) error {
	if s.skip {
		return nil
	}
	if err := r.unpackSegment(s); err != nil {
		return err
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		want := len(r.buf)
		if s.limit >= 0 {
			want = int(min(int64(want), s.limit-s.pos))
		}
		if want <= 0 {
			return nil
		}
		n, err := s.file.ReadAt(r.buf[:want], s.pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read log: %w", err)
		}
		used, err := r.emitLines(r.buf[:n])
		s.pos += int64(used)
		if err != nil {
			return err
		}
		if n < len(r.buf) { // the end of the file, or the limit
			return nil
		}
		if len(r.buf) < readSize {
			r.growBuffer()
			continue
		}
		if used == 0 {
			if len(r.buf) < maxEntry {
				r.buf = make([]byte, 2*len(r.buf))
				continue
			}
			s.pos += int64(n)
			r.skipping = true
		}
	}
}

// growBuffer takes a buffer of readSize.
func (r *reader) growBuffer() {
	if r.opts.Watcher != nil {
		if buf, ok := r.opts.Watcher.buffers.Get().(*[readSize]byte); ok {
			r.buf = buf[:]
			return
		}
	}
	r.buf = new([readSize]byte)[:]
}

// shrinkBuffer gives a large buffer up while nothing comes.
func (r *reader) shrinkBuffer() {
	if len(r.buf) == readSize && r.opts.Watcher != nil {
		r.opts.Watcher.buffers.Put((*[readSize]byte)(r.buf))
	}
	if len(r.buf) > restSize {
		r.buf = make([]byte, restSize)
	}
}

// emitLines hands the whole lines of block over and returns how many bytes they are.
func (r *reader) emitLines(block []byte) (used int, err error) {
	for {
		n := bytes.IndexByte(block[used:], '\n')
		if n < 0 {
			return used, nil
		}
		line := block[used : used+n]
		used += n + 1
		if r.skipping {
			r.skipping = false
			continue
		}
		e, ok := r.parser.parse(line)
		if !ok {
			continue
		}
		if !r.opts.Until.IsZero() && e.Time.After(r.opts.Until.Add(untilSlack)) {
			return used, errUntil
		}
		if !r.wantsEntry(&e) || e.Time.Before(r.opts.Since) {
			continue
		}
		if err := r.fn(e); err != nil {
			return used, err
		}
	}
}

// wantsEntry reports whether the entry is of a chosen stream and not after Until.
func (r *reader) wantsEntry(e *Entry) bool {
	if !r.opts.Until.IsZero() && e.Time.After(r.opts.Until) {
		return false
	}
	if e.Stream == stdio.Stdout {
		return r.opts.Stdout
	}
	return r.opts.Stderr
}

func (r *reader) closeAll() {
	for _, s := range r.segments {
		_ = s.file.Close() // only read from
	}
	r.segments = nil
}
