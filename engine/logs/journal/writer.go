// Package journal writes a container's output to the systemd journal and reads it back. It speaks the journal's native
// protocol itself (systemd.io/JOURNAL_NATIVE_PROTOCOL) and asks journalctl for what is stored; it knows nothing of
// containers but the fields that it is given.
package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/stdio"
)

// Socket is where journald listens.
const Socket = "/run/systemd/journal/socket"

// The fields of every entry, as other engines' journald drivers name them, so that queries people have go on working.
const (
	fieldID        = "CONTAINER_ID_FULL"
	fieldPartial   = "CONTAINER_PARTIAL_MESSAGE"
	fieldEpoch     = "CONTAINER_LOG_EPOCH"
	fieldOrdinal   = "CONTAINER_LOG_ORDINAL"
	fieldTimestamp = "SYSLOG_TIMESTAMP"
	fieldPriority  = "PRIORITY"
	fieldMessage   = "MESSAGE"
)

// Syslog priorities of the two streams.
const (
	priorityOut = "6" // information
	priorityErr = "3" // error
)

// maxLine is the longest piece of a line in one entry, as in the json-file format; it is far below what one datagram
// carries.
const maxLine = 16 << 10

// Options say where to write and what every entry carries.
type Options struct {
	Socket string            // empty: Socket
	ID     string            // of the container
	Fields map[string]string // more of every entry; names are made fit for the journal
	// EndFile gets the number of the last entry when the writer closes, so that a reader can tell whether the journal, which
	// takes entries in its own time, has them all.
	EndFile string
}

// Writer sends a container's output to the journal, an entry per line. It may be used by several goroutines.
type Writer struct {
	opts Options
	head []byte // the fields that every entry carries
	run  uint64 // tells the entries of this writer from those of the container's earlier runs

	mu      sync.Mutex // guards the fields below
	socket  *os.File   // nil once closed
	ordinal uint64     // of the last entry
	partial [2][]byte  // the unfinished line of each stream
	buf     []byte
}

// Open connects to the journal. fault.Unavailable if nothing listens there. The caller closes it.
func Open(opts Options) (*Writer, error) {
	if opts.Socket == "" {
		opts.Socket = Socket
	}
	if opts.EndFile != "" {
		if err := os.Remove(opts.EndFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open journal: %w", err)
		}
	}
	w := &Writer{opts: opts, run: uint64(time.Now().UnixNano())} //nolint:gosec // after 1970
	if err := w.connectLocked(); err != nil {
		return nil, err
	}
	w.head = appendField(w.head, fieldID, []byte(opts.ID))
	w.head = appendField(w.head, fieldEpoch, strconv.AppendUint(nil, w.run, 10))
	names := make([]string, 0, len(opts.Fields))
	for name := range opts.Fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if clean := FieldName(name); clean != "" {
			w.head = appendField(w.head, clean, []byte(opts.Fields[name]))
		}
	}
	return w, nil
}

func (w *Writer) connectLocked() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: w.opts.Socket}); err != nil {
		_ = unix.Close(fd) // the first error says more
		return fault.Unavailable("log driver journald: no journal listens at %s: %v", w.opts.Socket, err)
	}
	if w.socket != nil {
		_ = w.socket.Close() // nothing is buffered in it
	}
	w.socket = os.NewFile(uintptr(fd), w.opts.Socket)
	return nil
}

// Write adds a chunk of a stream's output, with the time at which it was read. Chunks need not be whole lines: the rest of
// the last one waits for the next chunk, for Flush, Mark or Close. It blocks as long as the journal takes nothing. An
// error costs the entries of this chunk.
func (w *Writer) Write(stream stdio.Stream, p []byte, at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.socket == nil {
		return os.ErrClosed
	}
	var failed error
	rest := &w.partial[stream.OutputIndex()]
	for len(p) > 0 {
		line, after, whole := bytes.Cut(p, []byte{'\n'})
		if room := maxLine - len(*rest); len(line) > room {
			line, after, whole = p[:room], p[room:], false
		}
		*rest, p = append(*rest, line...), after
		if whole || len(*rest) == maxLine {
			failed = errors.Join(failed, w.sendLocked(stream, *rest, !whole, at))
			*rest = (*rest)[:0]
		}
	}
	return failed
}

// sendLocked sends one entry. The journal may have been started anew since the last one.
func (w *Writer) sendLocked(stream stdio.Stream, line []byte, partial bool, at time.Time) error {
	priority := priorityOut
	if stream == stdio.Stderr {
		priority = priorityErr
	}
	w.ordinal++
	b := w.buf[:0]
	b = append(b, w.head...)
	b = appendField(b, fieldPriority, []byte(priority))
	b = appendField(b, fieldTimestamp, at.UTC().AppendFormat(nil, time.RFC3339Nano))
	b = appendField(b, fieldOrdinal, strconv.AppendUint(nil, w.ordinal, 10))
	if partial {
		b = appendField(b, fieldPartial, []byte("true"))
	}
	w.buf = appendField(b, fieldMessage, line)
	_, err := w.socket.Write(w.buf)
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.EPIPE) {
		if err = w.connectLocked(); err == nil {
			_, err = w.socket.Write(w.buf)
		}
	}
	if err != nil {
		return fmt.Errorf("write to the journal: %w", err)
	}
	return nil
}

// Flush sends unfinished lines, as entries that say so: a prompt is to be seen before its answer.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.restLocked()
}

// Mark sends unfinished lines too and returns the number of this run and of its last entry: the position that
// logs.ReadOptions.StopAt takes.
func (w *Writer) Mark() (run uint64, ordinal int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.restLocked()             // an entry that the journal does not take is lost either way
	return w.run, int64(w.ordinal) //nolint:gosec // lines of one run
}

// restLocked sends the unfinished lines.
func (w *Writer) restLocked() error {
	var failed error
	for i, stream := range []stdio.Stream{stdio.Stdout, stdio.Stderr} {
		if len(w.partial[i]) > 0 && w.socket != nil {
			failed = errors.Join(failed, w.sendLocked(stream, w.partial[i], true, time.Now()))
			w.partial[i] = nil
		}
	}
	return failed
}

// Close sends unfinished lines and notes which entry was the last. A second Close does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.socket == nil {
		return nil
	}
	failed := errors.Join(w.restLocked(), w.socket.Close())
	w.socket = nil
	if w.opts.EndFile != "" && w.ordinal > 0 {
		end := strconv.FormatUint(w.run, 10) + " " + strconv.FormatUint(w.ordinal, 10)
		failed = errors.Join(failed, os.WriteFile(w.opts.EndFile, []byte(end), 0o600))
	}
	return failed
}

// appendField adds one field: as text where the value has no newline, with its length otherwise.
func appendField(b []byte, name string, value []byte) []byte {
	b = append(b, name...)
	if bytes.IndexByte(value, '\n') < 0 {
		b = append(b, '=')
		b = append(b, value...)
		return append(b, '\n')
	}
	b = append(b, '\n')
	b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
	b = append(b, value...)
	return append(b, '\n')
}

// FieldName makes a label's or a variable's name fit for the journal: upper case letters, digits and underscores, a letter
// first, 64 of them at most. Empty if nothing of it is left.
func FieldName(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		default:
			return '_'
		}
	}, name)
	clean = strings.TrimLeft(clean, "_0123456789") // a leading underscore is the journal's own
	return clean[:min(len(clean), 64)]
}
