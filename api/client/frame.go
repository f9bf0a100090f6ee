package client

import (
	"errors"
	"fmt"
	"io"

	"moss/engine/fault"
	"moss/engine/stdio"
)

// ErrDetached is what a reader made by DetachReader returns once the keys were typed.
var ErrDetached = stdio.ErrDetached

// Demux splits a framed stream: frames of stdin and stdout go to stdout, frames of stderr to stderr. It returns nil at
// the end of the stream between two frames, a *WriteError when a writer refuses, a *LostError when the stream is cut.
func Demux(stdout, stderr io.Writer, stream io.Reader) error {
	return streamFault(stdio.Demux(stream, guard{stdout}, guard{stderr}))
}

// Copy copies a stream that has no frames, that of a terminal, with the errors of Demux.
func Copy(out io.Writer, stream io.Reader) error {
	_, err := CopyBulk(out, stream)
	return err
}

func streamFault(err error) error {
	var write *WriteError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &write):
		return write
	case fault.Is(err, fault.Invalid):
		return fmt.Errorf("read the engine's stream: %w", err)
	default:
		return &LostError{Err: err}
	}
}

// ParseDetachKeys turns a list of keys such as ctrl-p,ctrl-q into the bytes a terminal sends for them. An empty text
// gives these two.
func ParseDetachKeys(keys string) ([]byte, error) { return stdio.ParseDetachKeys(keys) }

// DetachReader returns a reader of r that ends with ErrDetached when keys were read in a row, without passing them on.
func DetachReader(r io.Reader, keys []byte) io.Reader { return stdio.NewDetachReader(r, keys) }

// WriteError says that the caller's own writer refused the output.
type WriteError struct{ Err error }

// Error names the reason.
func (e *WriteError) Error() string { return "write output: " + shortenError(e.Err) }

// Unwrap returns the reason.
func (e *WriteError) Unwrap() error { return e.Err }

// guard marks the errors of a writer, to tell them from those of the stream.
type guard struct{ w io.Writer }

func (g guard) Write(p []byte) (int, error) {
	n, err := g.w.Write(p)
	if err != nil {
		return n, &WriteError{Err: err}
	}
	return n, nil
}
