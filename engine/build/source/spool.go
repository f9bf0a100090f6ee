package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

const (
	piece  = 256 << 10 // bytes read, written and hashed at once
	pieces = 4         // of each kind under way
)

// roomStep is how many bytes are asked for at once.
const roomStep = 8 << 20

// spool writes the content of files, one after the other, into a file without a name, while their digests are made. Two
// goroutines do that, block by block; only the caller's goes through the files.
type spool struct {
	ctx  context.Context //nolint:containedctx // of the one call that fills the spool
	file *os.File
	room func(bytes, files int64) error

	granted int64 // bytes that there is room for
	at      int64 // where the block under way begins
	now     *block

	free, toWrite, toHash chan *block
	workers               sync.WaitGroup
	failed                atomic.Pointer[error]
}

// block is a piece of content with the files that it belongs to.
type block struct {
	data  []byte
	at    int64 // in the file
	parts []part
	zeros int64        // instead of data: a hole of the file that parts[0] belongs to
	users atomic.Int32 // who still reads it
}

// part is how much of a block, in order, belongs to one file.
type part struct {
	node *inode
	n    int
	last bool
}

// newSpool makes a spool in a folder. Its finish or abandon ends it.
func newSpool(ctx context.Context, opt Options) (*spool, error) {
	fd, err := unix.Open(opt.Dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) { // NFS, and FUSE before Linux 6.3
		return namedSpool(ctx, opt)
	}
	if err != nil {
		return nil, &os.PathError{Op: "make a file in", Path: opt.Dir, Err: err}
	}
	return startSpool(ctx, os.NewFile(uintptr(fd), opt.Dir+"/(content)"), opt), nil
}

// namedSpool is newSpool where files have names from the beginning.
func namedSpool(ctx context.Context, opt Options) (*spool, error) {
	f, err := os.CreateTemp(opt.Dir, "content-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil { //nolint:forbidigo // made by the line before
		return nil, errors.Join(err, f.Close())
	}
	return startSpool(ctx, f, opt), nil
}

func startSpool(ctx context.Context, file *os.File, opt Options) *spool {
	s := &spool{
		ctx: ctx, file: file, room: opt.Room,
		free: make(chan *block, pieces), toWrite: make(chan *block, pieces), toHash: make(chan *block, pieces),
	}
	for range pieces {
		s.free <- nil // made when it is needed
	}
	s.workers.Go(s.writeBlocks)
	s.workers.Go(s.hashBlocks)
	return s
}

// beginFile begins the content of a file: it sets where that will be.
func (s *spool) beginFile(node *inode) {
	node.at = s.at
	if s.now != nil {
		node.at += int64(len(s.now.data))
	}
}

// nextBuffer returns the buffer for the next bytes of a file. It is never empty.
func (s *spool) nextBuffer() ([]byte, error) {
	if s.now != nil && len(s.now.data) == cap(s.now.data) {
		if err := s.flushBlock(); err != nil {
			return nil, err
		}
	}
	if s.now == nil {
		if err := s.takeBlock(); err != nil {
			return nil, err
		}
	}
	return s.now.data[len(s.now.data):cap(s.now.data)], nil
}

// takeBlock makes an empty block the one under way.
func (s *spool) takeBlock() error {
	if err := s.err(); err != nil {
		return err
	}
	b := <-s.free
	if b == nil {
		b = &block{data: make([]byte, 0, piece)}
	}
	b.data, b.parts, b.zeros, b.at = b.data[:0], b.parts[:0], 0, s.at
	s.now = b
	return nil
}

// commitBytes records that n bytes of the buffer are the file's, and whether they are its last.
func (s *spool) commitBytes(node *inode, n int, last bool) {
	s.now.data = s.now.data[:len(s.now.data)+n]
	if k := len(s.now.parts) - 1; k >= 0 && s.now.parts[k].node == node {
		s.now.parts[k].n += n
		s.now.parts[k].last = last
		return
	}
	s.now.parts = append(s.now.parts, part{node, n, last})
}

// addHole adds n zeros to the file, which take no room. They follow what was written of the same file, or begin it.
func (s *spool) addHole(node *inode, n int64) error {
	if s.now != nil {
		if err := s.flushBlock(); err != nil {
			return err
		}
	}
	if err := s.takeBlock(); err != nil {
		return err
	}
	s.now.zeros = n
	s.now.parts = append(s.now.parts, part{node: node})
	return s.flushBlock()
}

// flushBlock hands the block under way to the workers.
func (s *spool) flushBlock() error {
	b := s.now
	s.now = nil
	s.at = b.at + int64(len(b.data)) + b.zeros
	if s.room != nil && b.zeros == 0 && s.at > s.granted {
		if err := s.room(roomStep, 1); err != nil {
			s.free <- b
			return err
		}
		s.granted = s.at + roomStep
	}
	b.users.Store(2)
	s.toWrite <- b
	s.toHash <- b
	return s.err()
}

// releaseBlock gives a block back when both workers are through with it.
func (s *spool) releaseBlock(b *block) {
	if b.users.Add(-1) == 0 {
		s.free <- b // never blocks: there are no more blocks than places
	}
}

// err returns why the spool cannot go on.
func (s *spool) err() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return nil
}

// writeBlocks writes blocks, in a goroutine of its own.
func (s *spool) writeBlocks() {
	for b := range s.toWrite {
		if len(b.data) > 0 && s.failed.Load() == nil {
			if _, err := s.file.WriteAt(b.data, b.at); err != nil {
				err = fmt.Errorf("keep what the build reads: %w", translateDiskFull(err))
				s.failed.Store(&err)
			}
		}
		s.releaseBlock(b)
	}
}

// translateDiskFull gives the error of a full disk its text.
func translateDiskFull(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fault.Internal("no space left on device")
	case errors.Is(err, unix.EDQUOT):
		return fault.Internal("disk quota exceeded")
	default:
		return err
	}
}

// hashBlocks makes the digests of files, in a goroutine of its own.
func (s *spool) hashBlocks() {
	h := sha256.New()
	var zero []byte
	for b := range s.toHash {
		if b.zeros > 0 {
			if zero == nil {
				zero = make([]byte, piece)
			}
			for left := b.zeros; left > 0 && s.err() == nil; left -= piece {
				h.Write(zero[:min(left, piece)])
			}
		}
		data := b.data
		for _, p := range b.parts {
			h.Write(data[:p.n])
			data = data[p.n:]
			if p.last {
				finishSum(h, p.node)
			}
		}
		s.releaseBlock(b)
	}
}

func finishSum(h hash.Hash, node *inode) {
	h.Sum(node.sum[:0])
	h.Reset()
}

// finishFile waits for the workers and returns the file, which is the caller's now.
func (s *spool) finishFile() (*os.File, error) {
	var err error
	if s.now != nil {
		err = s.flushBlock()
	}
	s.stopWorkers()
	if err == nil {
		err = s.err()
	}
	if err == nil {
		err = s.file.Truncate(s.at) // the content may end in a hole
	}
	if err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s.file, nil
}

// abandonFile waits for the workers and throws the content away.
func (s *spool) abandonFile() {
	s.stopWorkers()
	s.file.Close() //nolint:errcheck // nobody will read it
}

// stopWorkers lets the workers finish their blocks and waits for their end.
func (s *spool) stopWorkers() {
	close(s.toWrite)
	close(s.toHash)
	s.workers.Wait()
}
