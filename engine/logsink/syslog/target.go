package syslog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/dial"
	"moss/engine/logdriver"
)

const (
	connectTime = 10 * time.Second // for a name, a connection and TLS together
	silentTime  = time.Minute      // after which a machine that confirms nothing is gone: TCP's own limit is a quarter of an hour
)

// target is where connections lead.
type target struct {
	network string        // of the options; empty: one of the sockets
	address string        // of the options
	sockets []string      // paths
	tls     *tls.Config   // nil: without
	wait    time.Duration // connectTime
	verdict time.Duration // verdictTime
}

// String returns the target as the options name it.
func (t target) String() string {
	if t.network == "" {
		return "the syslog socket of this machine"
	}
	return t.network + "://" + t.address
}

// connectReceiver connects in bounded time. The caller closes the connection.
func (t target) connectReceiver(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, t.wait)
	defer cancel()
	if t.network == "" {
		return t.connectLocal(ctx)
	}
	network, _, _ := strings.Cut(t.network, "+")
	raw, err := dialReceiver(ctx, network, t.address)
	if err != nil {
		return nil, err
	}
	if t.tls == nil {
		return newConnection(raw, raw), nil
	}
	c, err := shakeHands(ctx, raw, t.tls, t.verdict)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return c, nil
}

// connectLocal connects to the first socket that takes it, whichever kind it is.
func (t target) connectLocal(ctx context.Context) (*connection, error) {
	var failed []string
	for _, path := range t.sockets {
		raw, err := dialReceiver(ctx, logdriver.SyslogUnixgram, path)
		if errors.Is(err, syscall.EPROTOTYPE) {
			raw, err = dialReceiver(ctx, logdriver.SyslogUnix, path)
		}
		if err == nil {
			return newConnection(raw, raw), nil
		}
		failed = append(failed, err.Error())
	}
	return nil, errors.New(strings.Join(failed, "; "))
}

// dialReceiver connects without TLS.
func dialReceiver(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Control: func(network, _ string, c syscall.RawConn) (err error) {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silentTime.Milliseconds()))
		})
		return errors.Join(failed, err)
	}}
	return dial.Connect(ctx, &dialer, network, address)
}
