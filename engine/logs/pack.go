package logs

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// packedName returns the name of the n-th older file when it is packed.
func packedName(path string, n int) string { return olderName(path, n) + ".gz" }

// packingName is what a packed file is called until it is whole.
func packingName(path string) string { return path + ".packing" }

// packing is the work on one file that has just been rotated. Its methods take nil for work that has ended.
type packing struct {
	stop chan struct{}
	done chan struct{}
}

// startPacking packs the latest older file. Should it fail, by a full disk say, the file stays as it is: it can be read in
// both forms, and the log goes on.
func startPacking(path string) *packing {
	p := &packing{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if err := packFile(path, p.stop); err != nil {
			os.Remove(packingName(path)) //nolint:errcheck // the next Open does
		}
	}()
	return p
}

// wait returns when the work has ended.
func (p *packing) wait() {
	if p != nil {
		<-p.done
	}
}

// cancel gives the work up, once: the end of a container does not wait for it.
func (p *packing) cancel() {
	if p != nil {
		close(p.stop)
		<-p.done
	}
}

// packFile replaces path.1 by path.1.gz. A reader finds one of them, and at a moment both, at any time.
func packFile(path string, stop <-chan struct{}) error {
	src, err := os.Open(olderName(path, 1))
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // only read from
	info, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.OpenFile(packingName(path), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(dst, gzip.BestSpeed) // a busy container waits for it at its next rotation
	if err != nil {
		return errors.Join(err, dst.Close())
	}
	z.Comment = strconv.FormatUint(inodeOf(info), 10) // whose readers and marks know the file by
	z.ModTime = info.ModTime()
	_, err = io.Copy(z, &stoppable{src: src, stop: stop})
	if err := errors.Join(err, z.Close(), dst.Close()); err != nil {
		return err
	}
	if err := os.Rename(packingName(path), packedName(path, 1)); err != nil {
		return err
	}
	return os.Remove(olderName(path, 1))
}

// stoppable is a reader that can be stopped from elsewhere.
type stoppable struct {
	src  io.Reader
	stop <-chan struct{}
}

// Read reads from the source, or fails with os.ErrClosed.
func (s *stoppable) Read(p []byte) (int, error) {
	select {
	case <-s.stop:
		return 0, os.ErrClosed
	default:
		return s.src.Read(p)
	}
}

// logFile is one file of a log as readers have it open.
type logFile struct {
	file   *os.File
	name   string // under which it was found
	packed bool
	inode  uint64 // that the file had, or has, when it was written to
}

// openLogFile opens the n-th file of a log, 0 being the one that is written to. fs.ErrNotExist if there is none.
func openLogFile(path string, n int) (logFile, error) {
	if n == 0 {
		return openPlain(path)
	}
	f, err := openPlain(olderName(path, n))
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	name := packedName(path, n)
	file, err := os.Open(name)
	if err != nil {
		return logFile{}, err
	}
	f = logFile{file: file, name: name, packed: true}
	// A header that is not ours, or damage, is told of when the file is read.
	if z, err := gzip.NewReader(bufio.NewReaderSize(file, 512)); err == nil {
		f.inode, _ = strconv.ParseUint(z.Comment, 10, 64) // 0 is no file's
	}
	return f, nil
}

func openPlain(name string) (logFile, error) {
	file, err := os.Open(name)
	if err != nil {
		return logFile{}, err
	}
	info, err := file.Stat()
	if err != nil {
		return logFile{}, errors.Join(err, file.Close())
	}
	return logFile{file: file, name: name, inode: inodeOf(info)}, nil
}

// maxUnpacked bounds what a packed file may hold, in bytes.
const maxUnpacked = 64 << 30

// unpackFile returns the contents of a packed file as a file without a name, which the caller closes. A packed file that ends
// too early, as a full disk leaves it, gives what there is.
func unpackFile(packed *os.File, dir string) (_ *os.File, err error) {
	plain, err := createUnnamed(dir)
	if err != nil {
		return nil, fmt.Errorf("unpack log: %w", err)
	}
	z, err := gzip.NewReader(io.NewSectionReader(packed, 0, 1<<62))
	if err == nil {
		_, err = io.Copy(plain, io.LimitReader(z, maxUnpacked))
	}
	var corrupt flate.CorruptInputError
	damaged := errors.As(err, &corrupt) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.EOF)
	if err != nil && !damaged {
		return nil, errors.Join(fmt.Errorf("unpack log: %w", err), plain.Close())
	}
	return plain, nil
}

// createUnnamed makes a file in dir that goes with its descriptor.
func createUnnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), filepath.Join(dir, "unpacked")), nil
	}
	f, err := os.CreateTemp(dir, "unpacked-*") // a file system without O_TMPFILE
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
