package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"moss/api/socket"
	"moss/engine/fault"
)

// mostAdded is how many sockets of Add are served at the same time, the last ones.
const mostAdded = 16

// takeSockets makes listeners of sockets that listen already.
func (s *Server) takeSockets(opt Options, certificates *certificates) error {
	for _, f := range opt.Files {
		l, err := net.FileListener(f)
		if err != nil {
			return fmt.Errorf("take over %s: %w", f.Name(), err)
		}
		_ = f.Close() // It was duplicated.
		one, err := s.prepareListener(l, certificates, opt.AllowInsecureTCP)
		if err != nil {
			return errors.Join(fmt.Errorf("serve %s: %w", addressOf(l), err), l.Close())
		}
		s.listeners = append(s.listeners, one)
		s.addresses = append(s.addresses, addressOf(l))
	}
	return nil
}

// Add serves one more unix socket that listens, which the server takes over. When there are too many, the oldest one of Add is
// closed. It may be called at any time; fault.Conflict once the server ends.
func (s *Server) Add(f *os.File) error {
	l, err := net.FileListener(f)
	_ = f.Close() // It was duplicated.
	if err != nil {
		return fmt.Errorf("take over %s: %w", f.Name(), err)
	}
	if _, ok := l.(*net.UnixListener); !ok {
		return errors.Join(fault.Invalid("%s is not a unix socket", addressOf(l)), l.Close())
	}
	one, err := s.prepareListener(l, nil, false)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		return errors.Join(fault.Conflict("the server ends"), l.Close())
	}
	s.listeners, s.added = append(s.listeners, one), append(s.added, one)
	if len(s.added) > mostAdded {
		oldest := s.added[0]
		s.added = s.added[1:]
		s.listeners = slices.DeleteFunc(s.listeners, func(l serving) bool { return l == oldest })
		_ = oldest.Close()
	}
	if s.begin != nil {
		s.begin(one)
	}
	return nil
}

// currentListeners returns the listeners of now.
func (s *Server) currentListeners() []serving {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.listeners)
}

// isGone reports whether Add has closed a listener.
func (s *Server) isGone(l serving) bool { return !slices.Contains(s.currentListeners(), l) }

func addressOf(l net.Listener) string { return l.Addr().Network() + "://" + l.Addr().String() }

// prepareListener says who answers on a listener. One of TCP is looked at again, whoever opened it: the settings may have
// changed since then, and systemd asks nobody.
func (s *Server) prepareListener(l net.Listener, certificates *certificates, insecure bool) (serving, error) {
	tcp, overTCP := l.Addr().(*net.TCPAddr)
	if !overTCP {
		if unix, ok := l.(*net.UnixListener); ok {
			unix.SetUnlinkOnClose(false) // the next engine serves it
		}
		return serving{&limitedListener{Listener: l, limiter: s.local.limiter, stop: make(chan struct{})}, s.local}, nil
	}
	if err := socket.CheckTCP(tcp.IP, certificates.verifiesClients(), insecure); err != nil {
		return serving{}, err
	}
	var kept net.Listener = &limitedListener{Listener: l, limiter: s.remote.limiter, stop: make(chan struct{})}
	if certificates != nil {
		kept = tls.NewListener(kept, certificates.listenerConfig())
	}
	return serving{kept, s.remote}, nil
}
