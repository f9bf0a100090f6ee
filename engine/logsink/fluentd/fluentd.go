// Package fluentd sends records to a receiver of the Forward protocol, version 1: fluentd, fluent-bit and others. A message has
// many records (PackedForward). It does no handshake with a shared key, and tries nothing twice.
package fluentd

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"moss/engine/fault"
	"moss/engine/logdriver"
	"moss/engine/logsink"
	"moss/engine/logsink/stream"
)

const (
	batchRecords = 4096
	batchBytes   = 1 << 20

	// messageBytes bounds a message; one record may have more. fluent-bit takes 6 MB by default.
	messageBytes = 512 << 10

	// longestWait is what the waits between tries grow up to, unless the first is longer.
	longestWait = time.Minute
)

// sender is a logsink.Sender. Its connection is made with the first record, or by Open.
type sender struct {
	opts   logdriver.Fluentd
	target stream.Target
	enc    *encoder
	conn   *stream.Conn // nil: there is none, or it is good for nothing
	answer []byte
}

// Open is the logsink.OpenFunc of the driver fluentd. fault.Invalid: a wrong option. With the option fluentd-async the receiver
// is not asked.
func Open(ctx context.Context, setup logsink.Setup) (logsink.Sender, error) {
	opts, err := logdriver.ParseFluentd(setup.Options)
	if err != nil {
		return nil, err
	}
	s := &sender{
		opts:   opts,
		target: stream.Target{Network: opts.Network, Address: opts.Address},
		enc:    newEncoder(setup.Container, opts.SubSecond),
		answer: make([]byte, maxAnswer),
	}
	if setup.Resume || opts.Async {
		return s, nil
	}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Batch implements logsink.Sender.
func (s *sender) Batch() logsink.Batch {
	return logsink.Batch{Records: batchRecords, Bytes: batchBytes}
}

// Retry implements logsink.Retrier: fluentd-retry-wait and fluentd-max-retries.
func (s *sender) Retry() logsink.RetryPolicy {
	return logsink.RetryPolicy{First: s.opts.RetryWait, Longest: max(s.opts.RetryWait, longestWait), Tries: s.opts.Tries}
}

// Send implements logsink.Sender. Without fluentd-request-ack a record counts when the kernel took all of its message.
func (s *sender) Send(ctx context.Context, records []logsink.Record, _ bool) (n int, err error) {
	for n < len(records) {
		if err := s.connect(ctx); err != nil {
			return n, err
		}
		count, err := s.deliver(ctx, records[n:])
		if err != nil {
			s.disconnect()
			return n, fmt.Errorf("fluentd: %w", err)
		}
		n += count
	}
	return n, nil
}

// Close implements logsink.Sender.
func (s *sender) Close() error {
	s.disconnect()
	return nil
}

// connect makes a connection where there is none that can be used.
func (s *sender) connect(ctx context.Context) error {
	if s.conn != nil && s.isOld() {
		s.disconnect()
	}
	if s.conn != nil {
		err := s.conn.Probe()
		if err == nil {
			return nil
		}
		s.disconnect()
		if errors.Is(err, stream.ErrSpoke) {
			return fault.Unavailable("fluentd: %w, as one does that wants a shared key, which is not supported", err)
		}
	}
	conn, err := stream.Dial(ctx, s.target)
	if err != nil {
		return fmt.Errorf("fluentd: %w", err)
	}
	s.conn = conn
	return nil
}

// isOld tells whether fluentd-async-reconnect-interval asks for a new connection.
func (s *sender) isOld() bool {
	return s.opts.Async && s.opts.ReconnectInterval > 0 && time.Since(s.conn.Made()) >= s.opts.ReconnectInterval
}

func (s *sender) disconnect() {
	if s.conn != nil {
		_ = s.conn.Close() // whether it ended well says nothing about what arrived
		s.conn = nil
	}
}

// deliver sends one message with the first of the records, and returns how many it had.
func (s *sender) deliver(ctx context.Context, records []logsink.Record) (count int, err error) {
	chunk := ""
	if s.opts.RequestAck {
		chunk = newChunkID()
	}
	message, count := s.enc.encodeMessage(records, chunk)
	if _, err := s.conn.Write(ctx, s.opts.WriteTimeout, message); err != nil {
		return 0, err
	}
	if chunk == "" {
		return count, nil
	}
	if err := s.awaitAnswer(ctx, chunk); err != nil {
		return 0, err
	}
	return count, nil
}

// newChunkID names a message: 128 bits in base64, as the protocol asks.
func newChunkID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return base64.StdEncoding.EncodeToString(id)
}
