// Package syslog brings records to a syslog receiver (RFC 3164, 5424, 5425, 5426 and 6587). It has its own formatter and knows
// nothing of retries: a connection that broke is made anew by the next Send.
//
// Syslog acknowledges nothing. What the kernel has taken is lost where the receiver, or the way to it, dies before it has read
// it. A connection that the receiver has closed, and a port of this machine where nobody listens, are noticed before records
// are given to them.
package syslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"moss/engine/fault"
	"moss/engine/logdriver"
	"moss/engine/logsink"
)

// localSockets are where a daemon of this machine may listen, in the order in which they are tried.
var localSockets = []string{"/dev/log", "/var/run/syslog", "/var/run/log"} //nolint:gochecknoglobals // a constant

const (
	mostMessage  = 8096    // bytes of a message, those before the text included: rsyslog cuts off what is longer, by default
	leastMessage = 480     // every receiver takes so many bytes (RFC 5424, 6.1)
	mostHeader   = 4096    // bytes before the text, labels and variables included: half of a message stays for the text
	batchRecords = 1024    // little enough that a failed Send repeats little
	batchBytes   = 1 << 16 // enough that a write for each batch costs little
)

// Open opens a sender. An option or a file that is not right, and labels and variables too long for a message, are
// fault.Invalid.
func Open(ctx context.Context, setup logsink.Setup) (logsink.Sender, error) {
	return openSender(ctx, setup, target{sockets: localSockets, wait: connectTime, verdict: verdictTime})
}

// openSender does the work of Open, with the sockets and times of a target whose address the options name.
func openSender(ctx context.Context, setup logsink.Setup, t target) (*sender, error) {
	options, err := logdriver.ParseSyslog(setup.Options)
	if err != nil {
		return nil, err
	}
	t.network, t.address = options.Network, options.Address
	s := &sender{layout: newLayout(options, setup.Container, os.Getpid()), target: t, limit: mostMessage}
	if n := s.layout.headerSize(); n > mostHeader {
		return nil, fault.Invalid("syslog: tag, labels and variables make %d bytes of each message: want %d at most", n, mostHeader)
	}
	if options.Network == logdriver.SyslogTLS {
		if s.target.tls, err = newTLSConfig(options); err != nil {
			return nil, err
		}
		s.counted = options.Format == logdriver.SyslogRFC5424 || options.Format == logdriver.SyslogRFC5424Micro
	}
	if !setup.Resume {
		if err := s.ensureConnection(ctx); err != nil {
			return nil, fault.Unavailable("%w", err)
		}
	}
	return s, nil
}

// sender brings the records of one container.
type sender struct {
	layout  layout
	target  target
	counted bool // each message has its length before it (RFC 5425), instead of a newline behind it
	limit   int  // bytes of a message
	conn    *connection
	closed  bool

	// Of the Send that runs.
	buf    []byte // messages one after the other, as they are sent
	frames []frame
	clean  []byte // text without what would end a message
}

// frame is a message in the buffer.
type frame struct {
	end    int // in the buffer
	record int // of which it is all, or a piece
}

// Batch returns the bounds of Send.
func (s *sender) Batch() logsink.Batch {
	return logsink.Batch{Records: batchRecords, Bytes: batchBytes}
}

// Send brings records to the receiver, and returns how many the kernel took.
func (s *sender) Send(ctx context.Context, records []logsink.Record, _ bool) (n int, err error) {
	if err := s.ensureConnection(ctx); err != nil {
		return 0, err
	}
	for n < len(records) {
		s.encodeRecords(records[n:])
		taken, err := s.conn.writeFrames(ctx, s.buf, s.frames)
		if err == nil {
			return len(records), nil
		}
		n += s.frames[min(taken, len(s.frames)-1)].record
		if errors.Is(err, syscall.EMSGSIZE) && s.lowerLimit() {
			continue
		}
		_ = s.conn.raw.Close() // a receiver that takes nothing is told nothing
		s.dropConnection()
		return n, fmt.Errorf("syslog: send to %s: %w", s.target, err)
	}
	return n, nil
}

// Close gives up the connection.
func (s *sender) Close() error {
	s.closed = true
	s.dropConnection()
	return nil
}

// ensureConnection makes a connection where there is none, or the receiver has closed it. A connection that ended otherwise is
// an error, once.
func (s *sender) ensureConnection(ctx context.Context) error {
	if s.closed {
		return errors.New("syslog: the sender is closed")
	}
	if s.conn != nil {
		over, reason := s.conn.isOver()
		if !over {
			return nil
		}
		s.dropConnection()
		if reason != nil {
			return fmt.Errorf("syslog: connection to %s: %w", s.target, reason)
		}
	}
	conn, err := s.target.connectReceiver(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("syslog: connect to %s: %w", s.target, err)
	}
	s.conn = conn
	return nil
}

// dropConnection closes the connection, if there is one.
func (s *sender) dropConnection() {
	if s.conn != nil {
		s.conn.closeAndWait()
		s.conn = nil
	}
}

// lowerLimit makes messages shorter, since one was too long for a datagram. It returns false where they are as short as can be.
func (s *sender) lowerLimit() bool {
	lower := max(s.limit/2, leastMessage)
	if lower == s.limit || lower <= s.layout.headerSize() {
		return false
	}
	s.limit = lower
	return true
}

// encodeRecords fills the buffer.
func (s *sender) encodeRecords(records []logsink.Record) {
	s.buf, s.frames = s.buf[:0], s.frames[:0]
	var header [mostHeader]byte
	for i := range records {
		text := s.cleanText(records[i].Text)
		head := s.layout.appendHeader(header[:0], records[i].Stream, records[i].At)
		for first := true; first || len(text) > 0; first = false {
			size := findCut(text, s.limit-len(head))
			s.appendFrame(head, text[:size])
			s.frames = append(s.frames, frame{end: len(s.buf), record: i})
			text = text[size:]
		}
	}
}

// appendFrame adds a message to the buffer.
func (s *sender) appendFrame(head, text []byte) {
	if s.counted {
		s.buf = strconv.AppendInt(s.buf, int64(len(head)+len(text)), 10)
		s.buf = append(s.buf, ' ')
	}
	s.buf = append(s.buf, head...)
	s.buf = append(s.buf, text...)
	if !s.counted && s.conn.stream {
		s.buf = append(s.buf, '\n')
	}
}

// cleanText returns text without bytes that end a message on its way: a newline, and NUL, at which receivers in C stop. They
// are written as rsyslog writes them. All others are the receiver's to judge. The result is good until the next call.
func (s *sender) cleanText(text []byte) []byte {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, 0) < 0 {
		return text
	}
	s.clean = s.clean[:0]
	for _, b := range text {
		if b == '\n' || b == 0 {
			s.clean = appendOctal(s.clean, b)
		} else {
			s.clean = append(s.clean, b)
		}
	}
	return s.clean
}
