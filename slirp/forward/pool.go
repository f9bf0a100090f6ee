package forward

import (
	"fmt"
	"io"
	"net"
	"sync"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// The two halves speak by packets: a request is a kind and a count, an answer one byte and sockets, or a text that says
// why there are none.
const (
	network       = "unixpacket"
	requestSize   = 2
	answerSockets = 0
	maxAnswer     = 512 // bytes
)

const (
	batch    = 32 // sockets at once; the kernel passes up to 253 in one message
	lowWater = 12 // spare sockets at which more are fetched while nobody waits for them
)

func parseRequest(b []byte) (k kind, count int, err error) {
	if len(b) != requestSize || kind(b[0]) >= kinds || b[1] == 0 || b[1] > batch {
		return 0, 0, fmt.Errorf("request %x is malformed", b)
	}
	return kind(b[0]), int(b[1]), nil
}

// pool keeps sockets of the other namespace ready.
type pool struct {
	conn *net.UnixConn
	work sync.WaitGroup

	asking sync.Mutex // held for a request and its answer; before mu

	mu      sync.Mutex // guards spare, filling, closed
	spare   [kinds][]int
	filling [kinds]bool
	closed  bool
}

// take returns a socket that blocks and is bound to nothing; the caller closes it. It waits only if none is left.
func (p *pool) take(k kind) (int, error) {
	if fd, ok, err := p.pop(k); ok || err != nil {
		return fd, err
	}
	p.asking.Lock()
	defer p.asking.Unlock()
	if fd, ok, err := p.pop(k); ok || err != nil {
		return fd, err // of a batch that another has fetched meanwhile
	}
	fds, err := p.requestBatch(k)
	if err != nil {
		return 0, fmt.Errorf("get sockets of the containers' network: %w", err)
	}
	// One is kept out: with many callers the batch may be gone before this one comes to it.
	if err := p.put(k, fds[1:]); err != nil {
		closeAll(fds[:1])
		return 0, err
	}
	return fds[0], nil
}

// pop takes a spare socket if there is one, and sees to more in good time.
func (p *pool) pop(k kind) (fd int, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, false, net.ErrClosed
	}
	last := len(p.spare[k]) - 1
	if last < 0 {
		return 0, false, nil
	}
	fd = p.spare[k][last]
	p.spare[k] = p.spare[k][:last]
	if last < lowWater && !p.filling[k] {
		p.filling[k] = true
		p.work.Go(func() { p.refill(k) })
	}
	return fd, true, nil
}

// refill fetches a batch while nobody waits. Its trouble is left to take, which has someone to tell.
func (p *pool) refill(k kind) {
	p.asking.Lock()
	fds, err := p.requestBatch(k)
	p.asking.Unlock()
	if err == nil {
		_ = p.put(k, fds)
	}
	p.mu.Lock()
	p.filling[k] = false
	p.mu.Unlock()
}

func (p *pool) put(k kind, fds []int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		closeAll(fds)
		return net.ErrClosed
	}
	p.spare[k] = append(p.spare[k], fds...)
	return nil
}

func (p *pool) requestBatch(k kind) ([]int, error) {
	if _, err := p.conn.Write([]byte{byte(k), batch}); err != nil {
		return nil, err
	}
	answer, rights := make([]byte, maxAnswer), make([]byte, unix.CmsgSpace(4*batch))
	n, oobn, _, _, err := p.conn.ReadMsgUnix(answer, rights)
	if err != nil {
		return nil, err
	}
	fds, err := parseRights(rights[:oobn])
	switch {
	case err != nil:
		return nil, err
	case n == 0 && len(fds) == 0:
		return nil, io.ErrUnexpectedEOF
	case len(fds) == 0:
		return nil, fault.Unavailable("%s", answer[:n])
	}
	return fds, nil
}

func parseRights(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all = append(all, fds...)
	}
	return all, nil
}

// close ends the connection to the other half and waits for who uses it.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	for k := range p.spare {
		closeAll(p.spare[k])
		p.spare[k] = nil
	}
	p.mu.Unlock()
	err := p.conn.Close()
	p.work.Wait()
	return err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
