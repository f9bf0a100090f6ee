package archive

import (
	"archive/tar"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

// BenchmarkUnpack unpacks one large file that comes through a socket, as from a client.
func BenchmarkUnpack(b *testing.B) {
	box := newBox(b)
	const size = 1000 << 20
	b.SetBytes(size)
	for b.Loop() {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		box.must(err)
		ends := make([]net.Conn, len(pair))
		for i, fd := range pair {
			f := os.NewFile(uintptr(fd), "socket")
			ends[i], err = net.FileConn(f)
			box.must(errors.Join(err, f.Close()))
		}
		go func() {
			w := tar.NewWriter(ends[0])
			err := w.WriteHeader(&tar.Header{Name: "f", Size: size, Mode: 0o600})
			for buf, n := make([]byte, 64<<10), 0; err == nil && n < size; n += len(buf) {
				_, err = w.Write(buf)
			}
			if err := errors.Join(err, w.Close(), ends[0].Close()); err != nil {
				b.Error(err)
			}
		}()
		err = box.service().Unpack(b.Context(), "web", "/dest", io.Reader(ends[1]), UnpackOptions{})
		box.must(errors.Join(err, ends[1].Close()))
	}
}
