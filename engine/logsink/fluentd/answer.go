package fluentd

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tinylib/msgp/msgp"

	"moss/engine/fault"
)

// maxAnswer bounds an acknowledgement, which has 31 bytes.
const maxAnswer = 4 << 10

// awaitAnswer reads the acknowledgement of a message. Anything else is fault.Unavailable.
func (s *sender) awaitAnswer(ctx context.Context, chunk string) error {
	deadline := time.Now().Add(s.opts.ReadTimeout)
	for have := 0; ; {
		n, err := s.conn.Read(ctx, time.Until(deadline), s.answer[have:])
		have += n
		ack, complete, parseErr := parseAnswer(s.answer[:have])
		switch {
		case parseErr != nil:
			return fault.Unavailable("the answer of %s is no acknowledgement: %w", s.target, parseErr)
		case complete && ack == chunk:
			return nil
		case complete:
			return fault.Unavailable("%s acknowledges %.40q instead of %q", s.target, ack, chunk)
		case errors.Is(err, io.EOF):
			return fault.Unavailable("%s has closed the connection without an acknowledgement", s.target)
		case err != nil:
			return err
		case have == len(s.answer):
			return fault.Unavailable("the answer of %s has more than %d bytes", s.target, maxAnswer)
		}
	}
}

// parseAnswer reads the acknowledgement in p: a map with the key ack. complete is false if more bytes are needed. Nothing may
// follow it, since one message at a time is sent.
func parseAnswer(p []byte) (ack string, complete bool, err error) {
	ack, rest, err := parseAck(p)
	switch {
	case errors.Is(err, msgp.ErrShortBytes):
		return "", false, nil
	case err != nil:
		return "", false, err
	case len(rest) > 0:
		return "", false, errors.New("bytes follow it")
	}
	return ack, true, nil
}

func parseAck(p []byte) (ack string, rest []byte, err error) {
	fields, rest, err := msgp.ReadMapHeaderBytes(p)
	for ; err == nil && fields > 0; fields-- {
		var key []byte
		if key, rest, err = msgp.ReadMapKeyZC(rest); err != nil {
			break
		}
		if string(key) == "ack" {
			ack, rest, err = msgp.ReadStringBytes(rest)
		} else {
			rest, err = msgp.Skip(rest)
		}
	}
	return ack, rest, err
}
