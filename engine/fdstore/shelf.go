package fdstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Shelf is the side that keeps. One engine at a time talks to it: Serve, then the engine's descriptor closed here, then
// Wait when it has ended. The zero value is empty and ready.
type Shelf struct {
	held map[string]int // by name; touched by serve only while it runs
	ours int            // this side of the pair
	done chan struct{}
	Warn func(error) // told what could not be done; nil: nobody
}

// Serve starts listening to a new engine and returns the descriptor for it, which the caller passes on and closes.
func (s *Shelf) Serve() (theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("descriptor store: %w", err)
	}
	if s.held == nil {
		s.held = make(map[string]int)
	}
	s.ours, s.done = pair[0], make(chan struct{})
	go s.serve()
	return pair[1], nil
}

// Wait takes in what the engine has said before its end, and returns when all is done. The engine must have ended.
func (s *Shelf) Wait() {
	_ = unix.Shutdown(s.ours, unix.SHUT_RDWR) // what is queued is still received
	<-s.done
	_ = unix.Close(s.ours)
}

// Close gives all up. Nobody may be talking any more.
func (s *Shelf) Close() {
	for _, fd := range s.held {
		_ = unix.Close(fd)
	}
	s.held = nil
}

func (s *Shelf) serve() {
	defer close(s.done)
	for {
		msg, fds, err := receiveMessage(s.ours)
		switch {
		case errors.Is(err, unix.ECONNRESET): // it ended without hearing all; what it said comes after this
			continue
		case errors.Is(err, errCut):
		case err != nil || len(msg) == 0:
			closeAll(fds)
			if err != nil && s.Warn != nil {
				s.Warn(fmt.Errorf("descriptor store: %w", err))
			}
			return
		default:
			err = s.handleMessage(msg[0], string(msg[1:]), fds)
		}
		if err != nil && s.Warn != nil {
			s.Warn(fmt.Errorf("descriptor store: %w", err))
		}
	}
}

// handleMessage obeys one message. Descriptors it does not keep it closes.
func (s *Shelf) handleMessage(op byte, name string, fds []int) error {
	switch {
	case op == opPut && len(fds) == 1 && name != "" && len(name) <= MaxName && !strings.Contains(name, "\x00"):
		old, there := s.held[name]
		if !there && len(s.held) >= MaxCount {
			closeAll(fds)
			return fmt.Errorf("%s: %d are kept already", name, MaxCount)
		}
		if there {
			_ = unix.Close(old)
		}
		s.held[name] = fds[0]
		return nil
	case op == opDrop && len(fds) == 0:
		if fd, there := s.held[name]; there {
			_ = unix.Close(fd)
			delete(s.held, name)
		}
		return nil
	case op == opList && len(fds) == 0:
		return s.sendHeld()
	default:
		closeAll(fds)
		return fmt.Errorf("a message of kind %q with %d descriptors", op, len(fds))
	}
}

// sendHeld sends all that is held.
func (s *Shelf) sendHeld() error {
	names := make([]string, 0, len(s.held))
	for name := range s.held {
		names = append(names, name)
	}
	slices.Sort(names)
	for part := range slices.Chunk(names, batch) {
		fds := make([]int, 0, len(part))
		for _, name := range part {
			fds = append(fds, s.held[name])
		}
		msg := append([]byte{opHeld}, strings.Join(part, "\x00")...)
		if err := sendMessage(s.ours, msg, unix.UnixRights(fds...)); err != nil {
			return err
		}
	}
	return sendMessage(s.ours, []byte{opHeld}, nil)
}
