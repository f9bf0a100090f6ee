package oci

import (
	"io"
	"os"
)

// readerOf and writerOf keep a nil file from becoming an interface that is not nil, which os/exec would copy through a
// goroutine instead of opening /dev/null.
func readerOf(f *os.File) io.Reader {
	if f == nil {
		return nil
	}
	return f
}

func writerOf(f *os.File) io.Writer {
	if f == nil {
		return nil
	}
	return f
}
