package logforward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"moss/engine/logsink"
	"moss/engine/shim/proto"
	"moss/engine/stdio"
)

// The delays before a connection to moss-log is tried again. The engine starts it again within that time.
const (
	firstDelay = 20 * time.Millisecond // doubles
	lastDelay  = time.Second
)

// helloLimit bounds the wait for the answer to a Hello of a container that runs already.
const helloLimit = 10 * time.Second

// Writer sends the output of a container to moss-log, a record per line or piece of one. It may be used by several goroutines.
type Writer struct {
	socket string
	hello  Hello

	mu      sync.Mutex // guards the fields below
	change  sync.Cond  // of any of them
	held    []byte     // frames without a mark, in their order
	sent    int        // bytes of held that conn has got
	conn    net.Conn   // nil: none
	lines   [2]line    // of stdout and stderr
	ended   bool       // the frame of the end is in held
	taken   bool       // moss-log has all
	expired bool       // nobody waits for moss-log any more
	dropped int64      // lines
}

// line is the unfinished line of a stream.
type line struct {
	text    []byte
	id      uint64 // of its pieces; 0 before the first
	ordinal int    // of its last piece
}

// Open connects to moss-log at a socket and names the target, of a container that is about to start. The error is what the driver
// says of the receiver, with its kind, or that moss-log is not there, within limit. The caller closes the writer.
func Open(socket string, target json.RawMessage, limit time.Duration) (*Writer, error) {
	w := &Writer{socket: socket, hello: Hello{Target: target}}
	w.change.L = &w.mu
	conn, err := w.dial(limit)
	if err != nil {
		return nil, err
	}
	w.hello.Resume = true
	go w.sendUntilEnd(conn)
	return w, nil
}

// dial makes a connection and says hello.
func (w *Writer) dial(limit time.Duration) (net.Conn, error) {
	deadline := time.Now().Add(limit)
	conn, err := net.DialTimeout("unix", w.socket, limit)
	if err != nil {
		return nil, fmt.Errorf("reach moss-log: %w", err)
	}
	var reply proto.Reply
	if err = conn.SetDeadline(deadline); err == nil {
		err = proto.Write(conn, w.hello)
	}
	if err == nil {
		err = proto.Read(conn, &reply)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("speak to moss-log: %w", err)
	}
	if err := reply.Err(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// Write takes a chunk of output. Records end with lines; the rest of the last one waits for the next chunk, or the end. It waits
// while moss-log has Window bytes to deal with, or is not there, until Expire: then lines are dropped. The error is os.ErrClosed.
func (w *Writer) Write(stream stdio.Stream, p []byte, at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return os.ErrClosed
	}
	l := &w.lines[0]
	if stream == stdio.Stderr {
		l = &w.lines[1]
	}
	for len(p) > 0 {
		text, after, whole := bytes.Cut(p, []byte{'\n'})
		if room := MaxText - len(l.text); len(text) > room {
			text, after, whole = p[:room], p[room:], false
		}
		p = after
		switch {
		case whole && len(l.text) == 0:
			w.holdLocked(l, stream, text, true, at) // without a copy
			continue
		case whole || len(l.text)+len(text) == MaxText:
			l.text = append(l.text, text...)
			w.holdLocked(l, stream, l.text, whole, at)
			l.text = l.text[:0]
		default:
			l.text = append(l.text, text...)
		}
	}
	w.change.Broadcast()
	return nil
}

// holdLocked holds one record for moss-log, once there is room.
func (w *Writer) holdLocked(l *line, stream stdio.Stream, text []byte, last bool, at time.Time) {
	r := logsink.Record{At: at, Stream: stream, Text: text}
	if !last || l.ordinal > 0 {
		if l.ordinal++; l.ordinal == 1 {
			l.id = uint64(at.UnixNano())<<1 | uint64(stream&1) //nolint:gosec // a number that no other line of the container has
		}
		r.LineID, r.Ordinal, r.Last = l.id, l.ordinal, last
	}
	if last {
		l.id, l.ordinal = 0, 0
	}
	for len(w.held)+headSize+len(text) > Window && !w.expired {
		w.change.Broadcast() // there is something to send
		w.change.Wait()
	}
	if w.expired {
		if last {
			w.dropped++
		}
		return
	}
	w.held = appendFrame(w.held, &r)
}

// Flush does nothing: an unfinished line waits for its rest.
func (w *Writer) Flush() error { return nil }

// Mark returns no position: what was sent cannot be read again.
func (w *Writer) Mark() (inode uint64, size int64) { return 0, 0 }

// Expire lets writes and Close wait for moss-log that much longer and no more.
func (w *Writer) Expire(after time.Duration) {
	time.AfterFunc(after, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.expired = true
		w.change.Broadcast()
	})
}

// Close sends unfinished lines and the end, and waits until moss-log has all, or until Expire. A second Close does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return nil
	}
	for i, stream := range []stdio.Stream{stdio.Stdout, stdio.Stderr} {
		if l := &w.lines[i]; len(l.text) > 0 || l.ordinal > 0 {
			w.holdLocked(l, stream, l.text, true, time.Now())
		}
	}
	w.ended = true
	w.held = append(w.held, endFrame()...)
	w.change.Broadcast()
	for !w.taken && !w.expired {
		w.change.Wait()
	}
	w.expired = true
	if !w.taken {
		w.dropped += w.countUnsentLocked()
	}
	if w.conn != nil {
		_ = w.conn.Close() // all that matters was said
	}
	w.change.Broadcast()
	w.mu.Unlock()
	return nil
}

// DroppedLines returns how many lines moss-log has not got, once the writer is closed.
func (w *Writer) DroppedLines() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// countUnsentLocked counts the lines that moss-log has not got.
func (w *Writer) countUnsentLocked() (lines int64) {
	rest := w.held
	if w.conn != nil {
		for n := 0; n < w.sent; {
			n += frameSize(rest)
			rest = rest[frameSize(rest):]
		}
	}
	for len(rest) > 0 {
		var r logsink.Record
		size, end, err := ParseFrame(rest, &r)
		if err != nil || size == 0 || end {
			break
		}
		if r.Ordinal == 0 || r.Last {
			lines++
		}
		rest = rest[size:]
	}
	return lines
}

// sendUntilEnd sends what is held, over one connection after the other, until the writer is closed.
func (w *Writer) sendUntilEnd(conn net.Conn) {
	for conn != nil {
		w.sendOver(conn)
		conn = w.redial()
	}
}

// sendOver sends over one connection until it breaks or the writer is closed.
func (w *Writer) sendOver(conn net.Conn) {
	w.mu.Lock()
	w.conn, w.sent = conn, 0
	w.mu.Unlock()
	marks := make(chan struct{})
	go func() {
		defer close(marks)
		w.readMarks(conn)
	}()
	buf := make([]byte, 0, 64<<10)
	for {
		buf = w.nextUnsent(conn, buf)
		if len(buf) == 0 {
			break
		}
		if _, err := conn.Write(buf); err != nil {
			break
		}
	}
	_ = conn.Close() // readMarks ends with it
	<-marks
}

// nextUnsent waits for something to send over a connection and copies it into buf, as much as there is room for. It returns
// nothing once the connection is broken or the writer closed.
func (w *Writer) nextUnsent(conn net.Conn, buf []byte) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.conn == conn && w.sent == len(w.held) && !w.isOverLocked() {
		w.change.Wait()
	}
	if w.conn != conn || w.isOverLocked() {
		return nil
	}
	n := min(cap(buf), len(w.held)-w.sent)
	buf = append(buf[:0], w.held[w.sent:w.sent+n]...)
	w.sent += n
	return buf
}

// isOverLocked reports whether nothing is sent any more.
func (w *Writer) isOverLocked() bool { return w.ended && (w.taken || w.expired) }

// readMarks takes what moss-log says until the connection ends.
func (w *Writer) readMarks(conn net.Conn) {
	buf := make([]byte, 0, 16*MarkSize)
	var done uint64
	for {
		n, err := conn.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		w.mu.Lock()
		for ; len(buf) >= MarkSize && err == nil; buf = buf[:copy(buf, buf[MarkSize:])] {
			mark := ParseMark(buf)
			err = w.dropDoneLocked(mark.Done - done)
			done, w.taken = mark.Done, mark.Taken && w.ended
		}
		if err != nil {
			w.conn = nil
		}
		w.change.Broadcast()
		w.mu.Unlock()
		if err != nil {
			_ = conn.Close() // wakes a write
			return
		}
	}
}

// dropDoneLocked drops the first records, which were dealt with.
func (w *Writer) dropDoneLocked(records uint64) error {
	n := 0
	for ; records > 0; records-- {
		size := frameSize(w.held[n:])
		if size == 0 || n+size > w.sent {
			return errors.New("moss-log marks more than it got")
		}
		n += size
	}
	w.held, w.sent = w.held[:copy(w.held, w.held[n:])], w.sent-n
	return nil
}

// redial makes the next connection, however often that fails. It returns nil once the writer is closed.
func (w *Writer) redial() net.Conn {
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		w.mu.Lock()
		over := w.isOverLocked()
		w.mu.Unlock()
		if over {
			return nil
		}
		conn, err := w.dial(helloLimit)
		if err == nil {
			return conn
		}
		w.sleep(delay)
	}
}

// sleep waits, but no longer than the writer is used.
func (w *Writer) sleep(d time.Duration) {
	passed := false
	timer := time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		passed = true
		w.change.Broadcast()
	})
	defer timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !passed && !w.isOverLocked() {
		w.change.Wait()
	}
}
