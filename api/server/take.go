package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"moss/api/socket"
)

// take makes listeners of sockets that listen already.
func (s *Server) take(opt Options, certificates *certificates) error {
	for _, f := range opt.Files {
		l, err := net.FileListener(f)
		if err != nil {
			return fmt.Errorf("take over %s: %w", f.Name(), err)
		}
		_ = f.Close() // It was duplicated.
		one, err := s.prepare(l, certificates, opt.AllowInsecureTCP)
		if err != nil {
			return errors.Join(fmt.Errorf("serve %s: %w", address(l), err), l.Close())
		}
		s.listeners = append(s.listeners, one)
		s.addresses = append(s.addresses, address(l))
	}
	return nil
}

func address(l net.Listener) string { return l.Addr().Network() + "://" + l.Addr().String() }

// prepare says who answers on a listener. One of TCP is looked at again, whoever opened it: the settings may have changed
// since then, and systemd asks nobody.
func (s *Server) prepare(l net.Listener, certificates *certificates, insecure bool) (serving, error) {
	tcp, overTCP := l.Addr().(*net.TCPAddr)
	if !overTCP {
		if unix, ok := l.(*net.UnixListener); ok {
			unix.SetUnlinkOnClose(false) // the next engine serves it
		}
		return serving{&gate{Listener: l, crowd: s.local.crowd, stop: make(chan struct{})}, s.local}, nil
	}
	if err := socket.CheckTCP(tcp.IP, certificates.verifies(), insecure); err != nil {
		return serving{}, err
	}
	var kept net.Listener = &gate{Listener: l, crowd: s.remote.crowd, stop: make(chan struct{})}
	if certificates != nil {
		kept = tls.NewListener(kept, certificates.config())
	}
	return serving{kept, s.remote}, nil
}
