package oci

import (
	"io"
	"os"
)

// reader and writer keep a nil file from becoming an interface that is not nil, which os/exec would copy through a
// goroutine instead of opening /dev/null.
func reader(f *os.File) io.Reader {
	if f == nil {
		return nil
	}
	return f
}

func writer(f *os.File) io.Writer {
	if f == nil {
		return nil
	}
	return f
}
