package archive

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// writeContent writes size bytes of a file. Large files are read while the bytes before are being written.
func (p *packer) writeContent(fd int, name string, size int64) error {
	if size == 0 {
		return nil
	}
	if size > 2*piece {
		return p.copyAhead(fd, name, size)
	}
	buf := p.pieceBuffer(0)
	for size > 0 {
		n, err := readFull(fd, buf[:min(size, piece)])
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if n == 0 {
			return p.writeZeros(size)
		}
		if _, err := p.tar.Write(buf[:n]); err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}

// pieceBuffer returns one of the packer's buffers.
func (p *packer) pieceBuffer(i int) []byte {
	for len(p.pieces) <= i {
		p.pieces = append(p.pieces, make([]byte, piece))
	}
	return p.pieces[i]
}

// copyAhead writes a large file: one goroutine reads it ahead, this one writes.
func (p *packer) copyAhead(fd int, name string, size int64) error {
	const inFlight = 3
	type filled struct {
		data []byte
		err  error
	}
	empty, full, stop := make(chan []byte, inFlight), make(chan filled, inFlight), make(chan struct{})
	for i := range inFlight {
		empty <- p.pieceBuffer(i)
	}
	go func() {
		defer close(full)
		for left := size; left > 0; {
			select {
			case <-stop:
				return
			case buf := <-empty:
				n, err := readFull(fd, buf[:min(left, piece)])
				full <- filled{buf[:n], err} // never blocks: there are no more buffers than places
				if n == 0 || err != nil {
					return
				}
				left -= int64(n)
			}
		}
	}()
	// The reader has ended when full is closed: its buffers and its file are used again.
	defer func() {
		close(stop)
		for range full { // only waits
		}
	}()
	for size > 0 {
		next, ok := <-full
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if next.err != nil {
			return fmt.Errorf("read %s: %w", name, next.err)
		}
		if !ok || len(next.data) == 0 {
			return p.writeZeros(size)
		}
		if _, err := p.tar.Write(next.data); err != nil {
			return err
		}
		size -= int64(len(next.data))
		empty <- next.data[:piece]
	}
	return nil
}

// writeZeros writes zeros in place of bytes that a file has lost since its header was written.
func (p *packer) writeZeros(size int64) error {
	zero := p.pieceBuffer(0)
	clear(zero)
	for size > 0 {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		n := min(size, piece)
		if _, err := p.tar.Write(zero[:n]); err != nil {
			return err
		}
		size -= n
	}
	return nil
}

// readFull reads until buf is full or the file ends, which is no error.
func readFull(fd int, buf []byte) (int, error) {
	n := 0
	for n < len(buf) {
		more, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		if more == 0 {
			break
		}
		n += more
	}
	return n, nil
}
