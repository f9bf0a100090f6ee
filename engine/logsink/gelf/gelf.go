// Package gelf sends records as GELF 1.1 to Graylog and others, by udp or tcp. The format has no acknowledgement and no message
// without a text: a blank line is not sent. The package tries nothing twice.
package gelf

import (
	"context"
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

	connectBound = 10 * time.Second // for the name of a udp receiver
	writeBound   = 30 * time.Second
)

// Open is the logsink.OpenFunc of the driver gelf. With udp it only looks the name up. fault.Invalid: a wrong option, or more
// labels and variables than datagrams hold.
func Open(ctx context.Context, setup logsink.Setup) (logsink.Sender, error) {
	opts, err := logdriver.ParseGelf(setup.Options)
	if err != nil {
		return nil, err
	}
	enc := newEncoder(setup.Container)
	if opts.Network == "udp" {
		return openUDP(ctx, opts, enc, setup.Resume)
	}
	s := &tcpSender{opts: opts, enc: enc, target: stream.Target{Network: opts.Network, Address: opts.Address}}
	if setup.Resume {
		return s, nil
	}
	if err := s.ensureConnection(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func openUDP(ctx context.Context, opts logdriver.Gelf, enc *encoder, resume bool) (logsink.Sender, error) {
	if enc.headSize() > maxHead {
		return nil, fault.Invalid("gelf: the command, labels and variables for each line have %d bytes, more than %d: use tcp",
			enc.headSize(), maxHead)
	}
	pack, err := newPacker(opts.Compression, opts.Level)
	if err != nil {
		return nil, fmt.Errorf("gelf: %w", err)
	}
	s := &udpSender{address: opts.Address, enc: enc, pack: pack}
	if resume {
		return s, nil
	}
	if err := s.ensureSocket(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// newBatch returns the bounds of both senders.
func newBatch() logsink.Batch { return logsink.Batch{Records: batchRecords, Bytes: batchBytes} }
