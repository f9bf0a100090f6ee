package client

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"syscall"

	"moss/engine/stdio"
)

// streams is a joined view: the connection after the reply.
type streams struct {
	conn  *net.UnixConn
	leave func() // forgets the connection
}

// Read reads output. The end of the task is io.EOF, also when the shim went with input that it had not taken.
func (s *streams) Read(p []byte) (int, error) {
	n, err := s.conn.Read(p)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) { // closed: the shim was abandoned
		err = io.EOF
	}
	return n, err
}

// AwaitInput blocks until Read would not.
func (s *streams) AwaitInput() error {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	return stdio.AwaitInput(raw)
}

// Write sends input.
func (s *streams) Write(p []byte) (int, error) { return s.conn.Write(p) }

// CloseWrite ends the input.
func (s *streams) CloseWrite() error {
	err := s.conn.CloseWrite()
	if errors.Is(err, syscall.ENOTCONN) { // the task has ended
		return nil
	}
	return err
}

// Close leaves.
func (s *streams) Close() error {
	s.leave()
	return s.conn.Close()
}

// isGone reports whether an error means that no shim serves the task: there is no socket, no listener, the shim ended before
// it replied, or it was killed.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, errAbandoned)
}
