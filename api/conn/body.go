package conn

import (
	"bytes"
	"io"
	"net/http"
)

// smallBody is how many bytes a body has at most that is read before an answer that streams.
const smallBody = 64 << 10

// Body is a request's body for work whose answer streams meanwhile. One that says that it is small is read to its end at once,
// and noted by BodyRead: the connection can be used for the next request then. Any other is read as the work goes on, since
// a client may wait for the answer's beginning while it sends. Reading returns the error that the body's own reading does.
func Body(r *http.Request) io.ReadCloser {
	if r.ContentLength <= 0 || r.ContentLength > smallBody {
		return r.Body
	}
	body := r.Body
	raw, err := io.ReadAll(body)
	if err != nil {
		return readCloser{io.MultiReader(bytes.NewReader(raw), broken{err}), body}
	}
	BodyRead(r)
	return readCloser{bytes.NewReader(raw), body}
}

type readCloser struct {
	io.Reader
	io.Closer
}

// broken is a body whose reading has failed.
type broken struct{ err error }

// Read fails.
func (b broken) Read([]byte) (int, error) { return 0, b.err }
