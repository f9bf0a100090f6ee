// Package outage words why a server of the network cannot be reached. It asks nothing and tries nothing again.
package outage

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Words says in words why no connection came about, and where to; ok is false for an error of any other kind.
func Words(err error) (text string, ok bool) {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		return "name resolution failed: " + lookup.Error(), true
	}
	dial, ok := errors.AsType[*net.OpError](err)
	if !ok || dial.Op != "dial" {
		return "", false
	}
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return withAddress("connection refused", dial), true
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETDOWN):
		return withAddress("no route", dial), true
	case dial.Timeout():
		return withAddress("no answer in time", dial), true
	default:
		return withAddress(dial.Err.Error(), dial), true
	}
}

func withAddress(text string, dial *net.OpError) string {
	if dial.Addr == nil {
		return text
	}
	return fmt.Sprintf("%s: %s", text, dial.Addr)
}
