package clienttest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// ExecID is the id of every exec instance that a fake engine creates.
const ExecID = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

// execution is the exec instance of a fake engine; there is one at a time, in any container.
type execution struct {
	mu     sync.Mutex // guards the fields below
	config map[string]any
	start  map[string]any
	code   *int
	conn   net.Conn
}

// Executed returns the bodies that created and started the last exec instance.
func (e *Engine) Executed() (config, start map[string]any) {
	e.exec.mu.Lock()
	defer e.exec.mu.Unlock()
	return e.exec.config, e.exec.start
}

// serveExec answers the calls of exec, and reports whether it was one.
func (e *Engine) serveExec(w http.ResponseWriter, r *http.Request, line string) bool {
	switch {
	case strings.HasPrefix(line, "POST /containers/") && strings.HasSuffix(line, "/exec"):
		e.exec.mu.Lock()
		defer e.exec.mu.Unlock()
		e.exec.config, e.exec.code = map[string]any{}, nil
		if err := json.NewDecoder(r.Body).Decode(&e.exec.config); err != nil {
			Fail(w, http.StatusBadRequest, err.Error())
			return true
		}
		JSON(w, http.StatusCreated, map[string]any{"Id": ExecID})
	case line == "POST /exec/"+ExecID+"/start":
		e.execStart(w, r)
	case line == "POST /exec/"+ExecID+"/resize":
		w.WriteHeader(http.StatusCreated)
	case line == "GET /exec/"+ExecID+"/json":
		e.exec.mu.Lock()
		defer e.exec.mu.Unlock()
		JSON(w, http.StatusOK, map[string]any{"ID": ExecID, "Running": e.exec.code == nil, "ExitCode": e.exec.code})
	default:
		return false
	}
	return true
}

func (e *Engine) execStart(w http.ResponseWriter, r *http.Request) {
	x := &e.exec
	body := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Content-Type") != "application/json" {
		Fail(w, http.StatusBadRequest, "the start of an exec instance has no JSON body")
		return
	}
	x.mu.Lock()
	x.start = body
	x.mu.Unlock()
	if body["Detach"] == true {
		go func() { x.setExitCode(e.Process(strings.NewReader(""), io.Discard, io.Discard, e.signals)) }()
		return
	}
	conn, reader := Hijack(w)
	x.mu.Lock()
	x.conn = conn
	x.mu.Unlock()
	stdout, stderr := io.Writer(conn), io.Writer(conn)
	if body["Tty"] != true {
		var mu sync.Mutex
		stdout, stderr = &Frames{W: conn, Stream: 1, mu: &mu}, &Frames{W: conn, Stream: 2, mu: &mu}
	}
	go func() {
		code := e.Process(reader, stdout, stderr, e.signals)
		_ = conn.Close() // the end of the output comes first, as with an engine under load
		x.setExitCode(code)
	}()
}

func (x *execution) setExitCode(code int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.code = &code
}
