package gelf

import (
	"context"
	"fmt"

	"moss/engine/logdriver"
	"moss/engine/logsink"
	"moss/engine/logsink/stream"
)

// writeBytes bounds what is encoded for one write; one record may have more.
const writeBytes = 512 << 10

// tcpSender is a logsink.Sender. A message ends with a zero byte, and is never compressed.
type tcpSender struct {
	opts   logdriver.Gelf
	target stream.Target
	enc    *encoder
	conn   *stream.Conn // nil: there is none, or it is good for nothing
	buf    []byte
	ends   []int // of the messages in buf; a record that is not sent ends where the one before does
}

// Batch implements logsink.Sender.
func (s *tcpSender) Batch() logsink.Batch { return newBatch() }

// Retry implements logsink.Retrier: gelf-tcp-max-reconnect and gelf-tcp-reconnect-delay.
func (s *tcpSender) Retry() logsink.RetryPolicy {
	return logsink.RetryPolicy{First: s.opts.ReconnectDelay, Longest: s.opts.ReconnectDelay, Tries: s.opts.Tries}
}

// Send implements logsink.Sender. A record counts when the kernel took all of its message.
func (s *tcpSender) Send(ctx context.Context, records []logsink.Record, _ bool) (n int, err error) {
	for n < len(records) {
		if err := s.ensureConnection(ctx); err != nil {
			return n, err
		}
		s.encodeMessages(records[n:])
		written, err := s.conn.Write(ctx, writeBound, s.buf)
		for _, end := range s.ends {
			if end > written {
				break
			}
			n++
		}
		if err != nil {
			s.dropConnection()
			return n, fmt.Errorf("gelf: %w", err)
		}
	}
	return n, nil
}

// encodeMessages fills buf with messages of the first of the records.
func (s *tcpSender) encodeMessages(records []logsink.Record) {
	s.buf, s.ends = s.buf[:0], s.ends[:0]
	for i := range records {
		if len(records[i].Text) > 0 {
			s.buf = append(s.enc.appendMessage(s.buf, &records[i], wholeCut(&records[i])), 0)
		}
		if s.ends = append(s.ends, len(s.buf)); len(s.buf) >= writeBytes {
			return
		}
	}
}

// Close implements logsink.Sender.
func (s *tcpSender) Close() error {
	s.dropConnection()
	return nil
}

// ensureConnection makes a connection where there is none that can be used.
func (s *tcpSender) ensureConnection(ctx context.Context) error {
	if s.conn != nil {
		if s.conn.Probe() == nil {
			return nil
		}
		s.dropConnection()
	}
	conn, err := stream.Dial(ctx, s.target)
	if err != nil {
		return fmt.Errorf("gelf: %w", err)
	}
	s.conn = conn
	return nil
}

func (s *tcpSender) dropConnection() {
	if s.conn != nil {
		_ = s.conn.Close() // whether it ended well says nothing about what arrived
		s.conn = nil
	}
}
