package forward

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// pipeSize in bytes is what one turn of a relay carries. A busy relay fills any size; beyond this one the turns cost
	// next to nothing, and a user's pipes stay small once they are 64 MiB together.
	pipeSize = 512 << 10
	// sparePipes is how many are kept for the next that need one. A pipe is held only while data goes through it.
	sparePipes = 4
)

// pipe is where the kernel keeps what it moves from one socket to another.
type pipe struct{ r, w int }

// pipes are empty ones that were used before.
type pipes struct {
	mu    sync.Mutex // guards spare
	spare []pipe
}

func (p *pipes) get() (pipe, error) {
	p.mu.Lock()
	if last := len(p.spare) - 1; last >= 0 {
		got := p.spare[last]
		p.spare = p.spare[:last]
		p.mu.Unlock()
		return got, nil
	}
	p.mu.Unlock()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return pipe{}, err
	}
	// A user has so much for pipes; beyond it they stay as they are, which is slower and as good.
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize)
	return pipe{r: fds[0], w: fds[1]}, nil
}

// put takes back an empty pipe.
func (p *pipes) put(empty pipe) {
	p.mu.Lock()
	if len(p.spare) < sparePipes {
		p.spare = append(p.spare, empty)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	empty.close()
}

func (p *pipes) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.spare {
		one.close()
	}
	p.spare = nil
}

func (p pipe) close() { closeAll([]int{p.r, p.w}) }

// relayStream moves what from sends to the other side until from has no more, and ends that side's input then. An error
// means that the connection is broken, on either side.
func (p *pipes) relayStream(to, from *net.TCPConn) error {
	in, err := from.SyscallConn()
	if err != nil {
		return err
	}
	out, err := to.SyscallConn()
	if err != nil {
		return err
	}
	for {
		via, n, err := p.fillPipe(in)
		if errors.Is(err, io.EOF) {
			return to.CloseWrite()
		}
		if err != nil {
			return err
		}
		if err := emptyPipe(out, via, n); err != nil {
			via.close() // not empty
			return err
		}
		p.put(via)
	}
}

// fillPipe waits for data and puts it into a pipe, which it takes only when there is some.
func (p *pipes) fillPipe(in syscall.RawConn) (via pipe, n int, err error) {
	var failed error
	err = in.Read(func(fd uintptr) bool {
		if via, failed = p.get(); failed != nil {
			return true
		}
		var moved int64
		for {
			moved, failed = unix.Splice(int(fd), nil, via.w, nil, pipeSize, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			if !errors.Is(failed, unix.EINTR) {
				break
			}
		}
		n = int(moved)
		if n <= 0 {
			p.put(via)
		}
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err = errors.Join(err, failed); err == nil && n == 0 {
		err = io.EOF
	}
	return via, n, err
}

// emptyPipe empties a pipe that holds n bytes.
func emptyPipe(out syscall.RawConn, via pipe, n int) error {
	var failed error
	err := out.Write(func(fd uintptr) bool {
		for n > 0 {
			var moved int64
			moved, failed = unix.Splice(via.r, nil, int(fd), nil, n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			switch {
			case errors.Is(failed, unix.EINTR):
				continue
			case errors.Is(failed, unix.EAGAIN):
				failed = nil
				return false
			case failed != nil:
				return true
			}
			n -= int(moved)
		}
		return true
	})
	return errors.Join(err, failed)
}
