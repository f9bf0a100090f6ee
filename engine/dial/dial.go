// Package dial connects to sockets whose listeners may be slow.
package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Connect is DialContext of the dialer. A unix socket whose queue of connections is full is waited for as long as ctx lasts, as
// connect(2) does by itself where it may block. The caller closes the connection.
func Connect(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, time.Second) {
		conn, err := dialer.DialContext(ctx, network, address)
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: the queue of connections is full: %w", address, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}
