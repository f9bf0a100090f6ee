package monitor

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"moss/engine/shim/proto"
)

// pipe has one end for the process, which blocks as programs expect, and one for the shim, which does not.
type pipe struct{ ours, theirs *os.File }

// streams are a process's three, or the socket on which its pty arrives.
type streams struct {
	in, out, err pipe
	console      *listener
}

// openStreams makes what the process is to have.
func (p *process) openStreams() (*streams, error) {
	s := &streams{}
	var err error
	if p.terminal {
		s.console, err = openListener(p.dir, proto.ConsoleFile)
		return s, err
	}
	if p.openStdin {
		s.in, err = newPipe("stdin", true)
	}
	if err == nil {
		s.out, err = newPipe("stdout", false)
	}
	if err == nil {
		s.err, err = newPipe("stderr", false)
	}
	if err != nil {
		s.closeAll()
		return nil, err
	}
	return s, nil
}

// newPipe makes a pipe; with input the container reads it.
func newPipe(name string, input bool) (pipe, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return pipe{}, fmt.Errorf("make pipe for %s: %w", name, err)
	}
	ours, theirs := fds[0], fds[1]
	if input {
		ours, theirs = fds[1], fds[0]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		_ = unix.Close(ours)
		_ = unix.Close(theirs)
		return pipe{}, fmt.Errorf("set up pipe for %s: %w", name, err)
	}
	return pipe{ours: os.NewFile(uintptr(ours), name), theirs: os.NewFile(uintptr(theirs), name)}, nil
}

// closeAll closes all of it.
func (s *streams) closeAll() {
	s.closeTheirs()
	s.closeOurs()
	if s.console != nil {
		s.console.close()
	}
}

func (s *streams) closeTheirs() {
	for _, p := range []*pipe{&s.in, &s.out, &s.err} {
		if p.theirs != nil {
			_ = p.theirs.Close()
			p.theirs = nil
		}
	}
}

func (s *streams) closeOurs() {
	for _, p := range []*pipe{&s.in, &s.out, &s.err} {
		if p.ours != nil {
			_ = p.ours.Close()
			p.ours = nil
		}
	}
}
