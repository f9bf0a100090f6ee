package outage_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"moss/imagesvc/outage"
)

func TestWords(t *testing.T) {
	addr := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 443}
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: err} }
	lookup := &net.DNSError{Err: "no such host", Name: "reg.example", Server: "192.0.2.53:53", IsNotFound: true}
	for _, tc := range []struct {
		name string
		err  error
		want string // empty: not an outage
	}{
		{
			"no name", &net.OpError{Op: "dial", Net: "tcp", Err: lookup},
			"name resolution failed: lookup reg.example on 192.0.2.53:53: no such host",
		},
		{"refused", dial(os.NewSyscallError("connect", unix.ECONNREFUSED)), "connection refused: 192.0.2.7:443"},
		{"no network", dial(os.NewSyscallError("connect", unix.ENETUNREACH)), "no route: 192.0.2.7:443"},
		{"no host", dial(os.NewSyscallError("connect", unix.EHOSTUNREACH)), "no route: 192.0.2.7:443"},
		{"silent", dial(os.ErrDeadlineExceeded), "no answer in time: 192.0.2.7:443"},
		{"other", dial(unix.EADDRNOTAVAIL), "cannot assign requested address: 192.0.2.7:443"},
		{"connected", &net.OpError{Op: "read", Net: "tcp", Addr: addr, Err: unix.ECONNRESET}, ""},
		{"no network at all", errors.New("manifest unknown"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wrapped := fmt.Errorf("pull: %w", &url.Error{Op: "Get", URL: "https://reg.example/v2/", Err: tc.err})
			if got, ok := outage.Words(wrapped); got != tc.want || ok != (tc.want != "") {
				t.Errorf("Words(%v) = %q, %t, want %q", wrapped, got, ok, tc.want)
			}
		})
	}
}
