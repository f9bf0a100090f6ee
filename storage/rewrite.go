package storage

import (
	"archive/tar"
	"errors"
	"io"
)

// rewriteArchive passes an archive on whose entries change has had. stop ends the work, also before the archive's end, and
// waits for it; it must be called.
func rewriteArchive(r io.Reader, change func(*tar.Header)) (archive io.Reader, stop func()) {
	out, in := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.CloseWithError(copyEntries(in, r, change))
	}()
	return out, func() {
		out.Close() //nolint:errcheck // always nil
		<-done
	}
}

func copyEntries(w io.Writer, r io.Reader, change func(*tar.Header)) error {
	from, to := tar.NewReader(r), tar.NewWriter(w)
	buf := make([]byte, 256<<10)
	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return to.Close()
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeXGlobalHeader {
			h.Format = tar.FormatPAX // which holds all that there may be
			h.Xattrs = nil           //nolint:staticcheck // PAXRecords has the same, and this would be written beside it
			if h.Typeflag == tar.TypeGNUSparse {
				h.Typeflag = tar.TypeReg // as it is read
			}
			change(h)
		}
		if err := to.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.CopyBuffer(to, from, buf); err != nil {
			return err
		}
	}
}
