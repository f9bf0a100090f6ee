package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"

	"moss/engine/fault"
)

// take makes listeners of sockets that listen already.
func (s *Server) take(files []*os.File, certificates *certificates) error {
	for _, f := range files {
		l, err := net.FileListener(f)
		if err != nil {
			return fmt.Errorf("take over %s: %w", f.Name(), err)
		}
		_ = f.Close() // It was duplicated.
		one, err := s.prepare(l, certificates)
		if err != nil {
			return errors.Join(fmt.Errorf("serve %s: %w", address(l), err), l.Close())
		}
		s.listeners = append(s.listeners, one)
		s.addresses = append(s.addresses, address(l))
	}
	return nil
}

func address(l net.Listener) string { return l.Addr().Network() + "://" + l.Addr().String() }

// prepare says who answers on a listener. Whoever opened one of TCP on the loopback has allowed that everybody on this
// machine uses it; beyond the machine a certificate is asked for.
func (s *Server) prepare(l net.Listener, certificates *certificates) (serving, error) {
	tcp, overTCP := l.Addr().(*net.TCPAddr)
	if !overTCP {
		if unix, ok := l.(*net.UnixListener); ok {
			unix.SetUnlinkOnClose(false) // the next engine serves it
		}
		return serving{&gate{Listener: l, crowd: s.local.crowd, stop: make(chan struct{})}, s.local}, nil
	}
	if !tcp.IP.IsLoopback() && !certificates.verifies() {
		return serving{}, fault.Invalid("it is not on the loopback: others may come only with TLS client certificates (tlsverify)")
	}
	var kept net.Listener = &gate{Listener: l, crowd: s.remote.crowd, stop: make(chan struct{})}
	if certificates != nil {
		kept = tls.NewListener(kept, certificates.config())
	}
	return serving{kept, s.remote}, nil
}
