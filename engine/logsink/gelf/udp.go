package gelf

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"moss/engine/fault"
	"moss/engine/logsink"
	"moss/engine/stdio"
)

// Bounds of datagrams, in bytes. The format allows 8192; these pass an Ethernet without being split on their way.
const (
	maxDatagram = 1420
	chunkHeader = 12
	maxChunks   = 128
	maxPayload  = maxChunks * (maxDatagram - chunkHeader)

	// maxHead bounds what goes with each message, so that a few thousand bytes of any text fit beside it.
	maxHead = 64 << 10
)

// udpSender is a logsink.Sender. Its socket is made with the first record, or by Open.
type udpSender struct {
	address  string
	enc      *encoder
	pack     *packer
	conn     net.Conn // nil: there is none
	message  []byte
	datagram [maxDatagram]byte
}

// Batch implements logsink.Sender.
func (s *udpSender) Batch() logsink.Batch { return newBatch() }

// Send implements logsink.Sender. A record counts when the kernel took all of its datagrams. What a receiver that is away does
// not get is lost.
func (s *udpSender) Send(ctx context.Context, records []logsink.Record, _ bool) (n int, err error) {
	if err := s.ensureSocket(ctx); err != nil {
		return 0, err
	}
	for n = range records {
		if err := s.sendRecord(ctx, &records[n]); err != nil {
			_ = s.Close()
			return n, fault.Unavailable("gelf: send to udp://%s: %w", s.address, err)
		}
	}
	return len(records), nil
}

// Close implements logsink.Sender.
func (s *udpSender) Close() error {
	if s.conn == nil {
		return nil
	}
	conn := s.conn
	s.conn = nil
	return conn.Close()
}

// ensureSocket looks the name up and makes a socket, where there is none.
func (s *udpSender) ensureSocket(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectBound)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "udp", s.address)
	if err != nil {
		return fault.Unavailable("gelf: connect to udp://%s: %w", s.address, err)
	}
	s.conn = conn
	return nil
}

func (s *udpSender) sendRecord(ctx context.Context, r *logsink.Record) error {
	if len(r.Text) == 0 {
		return nil
	}
	payload, err := s.encodePart(r, wholeCut(r))
	if err != nil {
		return err
	}
	if len(payload) <= maxPayload {
		return s.sendPayload(ctx, payload)
	}
	part := 0
	return s.sendHalves(ctx, r, r.Text, &part, true)
}

// sendHalves sends a text of a record that is too large for one message as two, or as more where those are too large again.
// last is set if the text is the record's end.
func (s *udpSender) sendHalves(ctx context.Context, r *logsink.Record, text []byte, part *int, last bool) error {
	middle := stdio.WholeRunes(text[:len(text)/2])
	if middle == 0 {
		return fmt.Errorf("a message of %d bytes does not fit into %d", len(text), maxPayload) // maxHead makes it impossible
	}
	for _, c := range []cut{{text: text[:middle]}, {text: text[middle:], last: last}} {
		c.part = *part + 1
		payload, err := s.encodePart(r, c)
		if err != nil {
			return err
		}
		if len(payload) <= maxPayload {
			*part++
			err = s.sendPayload(ctx, payload)
		} else {
			err = s.sendHalves(ctx, r, c.text, part, c.last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// encodePart returns a message as it goes into datagrams. It is overwritten by the next call.
func (s *udpSender) encodePart(r *logsink.Record, c cut) ([]byte, error) {
	s.message = s.enc.appendMessage(s.message[:0], r, c)
	return s.pack.compressMessage(s.message)
}

// sendPayload sends a message in one datagram, or in several that the receiver puts together.
func (s *udpSender) sendPayload(ctx context.Context, payload []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeBound)); err != nil {
		return err
	}
	if len(payload) <= maxDatagram {
		return s.writeDatagram(payload)
	}
	const size = maxDatagram - chunkHeader
	d := s.datagram[:]
	d[0], d[1] = 0x1e, 0x0f
	_, _ = rand.Read(d[2:10]) // the message's id; never fails
	d[11] = byte((len(payload) + size - 1) / size)
	for d[10] = 0; len(payload) > 0; d[10]++ {
		n := copy(d[chunkHeader:], payload)
		if err := s.writeDatagram(d[:chunkHeader+n]); err != nil {
			return err
		}
		payload = payload[n:]
	}
	return nil
}

// writeDatagram sends one datagram. That an earlier one met a closed port is no reason not to send this one, and is all that the
// kernel says then: it takes the datagram with the next call.
func (s *udpSender) writeDatagram(datagram []byte) error {
	_, err := s.conn.Write(datagram)
	if errors.Is(err, syscall.ECONNREFUSED) {
		_, err = s.conn.Write(datagram)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return err
}
