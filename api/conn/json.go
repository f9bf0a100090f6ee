package conn

import (
	"bytes"
	"net/http"

	"moss/api/compat"
	"moss/engine/fault"
)

// JSON is an answer made of messages, each on its own line. The head goes out with the first one, so that an error before
// it can still be a status. It is not safe for several goroutines.
type JSON struct {
	out   *http.ResponseController
	w     http.ResponseWriter
	r     *http.Request
	begun bool
}

// NewJSON prepares a stream; nothing is written yet. The request's body can still be read once messages flow.
func NewJSON(w http.ResponseWriter, r *http.Request) *JSON {
	return &JSON{out: http.NewResponseController(w), w: w, r: r}
}

// Begun reports whether the head is out.
func (j *JSON) Begun() bool { return j.begun }

// Open sends the head without a message. An error is the client's hang-up.
func (j *JSON) Open() error {
	if err := j.writeHead(); err != nil {
		return err
	}
	return j.out.Flush()
}

// Send sends one message at once, adding its newline when it has none. An error is the client's hang-up.
func (j *JSON) Send(message []byte) error { return j.SendAll([][]byte{message}) }

// SendAll sends several messages in one go, each as Send does.
func (j *JSON) SendAll(messages [][]byte) error {
	if err := j.writeHead(); err != nil {
		return err
	}
	var lines []byte
	if len(messages) == 1 && bytes.HasSuffix(messages[0], []byte("\n")) {
		lines = messages[0] // may be many lines: they are not copied
	} else {
		for _, message := range messages {
			lines = append(lines, message...)
			if !bytes.HasSuffix(message, []byte("\n")) {
				lines = append(lines, '\n')
			}
		}
	}
	if _, err := j.w.Write(lines); err != nil {
		return err
	}
	return j.out.Flush()
}

// writeHead writes the head once.
func (j *JSON) writeHead() error {
	if j.begun {
		return nil
	}
	if j.r.ContentLength != 0 {
		if err := j.out.EnableFullDuplex(); err != nil {
			return fault.Internal("answer while reading: %v", err)
		}
		// net/http (Go 1.26) panics when it goes on to the next request after such an answer to a body that was not read
		// to its end.
		j.w.Header().Set("Connection", "close")
	}
	j.begun = true
	j.w.Header().Set("Content-Type", compat.JSON)
	j.w.WriteHeader(http.StatusOK)
	return nil
}
