package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
)

// faultKind is the header in which the engine tells an error's kind.
const faultKind = "X-Fault-Kind"

// maxMessage bounds how much of an error's body is read.
const maxMessage = 64 << 10

// Error is an error that the engine answered.
type Error struct {
	Status  int    // HTTP status; 0 when the error came inside a stream
	Message string // the engine's own words
	Code    int    // exit code of the command that failed inside a stream; 0: none did
	Kind    string // of the engine's error, such as "not found"; empty when it came inside a stream, or from another engine
}

// Error returns the engine's message.
func (e *Error) Error() string { return e.Message }

// StatusOf returns the HTTP status of an error that the engine answered, 0 for any other.
func StatusOf(err error) int {
	if answered, ok := errors.AsType[*Error](err); ok {
		return answered.Status
	}
	return 0
}

// ConnectError says that no connection to the engine came about.
type ConnectError struct {
	Host Host
	Err  error
}

// Error names the host and the reason.
func (e *ConnectError) Error() string {
	return fmt.Sprintf("no engine at %s: %s", e.Host, shortenError(e.Err))
}

// Unwrap returns the reason.
func (e *ConnectError) Unwrap() error { return e.Err }

// LostError says that the connection broke before the engine had answered.
type LostError struct{ Err error }

// Error names the reason.
func (e *LostError) Error() string {
	return "lost the connection to the engine: " + shortenError(e.Err)
}

// Unwrap returns the reason.
func (e *LostError) Unwrap() error { return e.Err }

// shortenError shortens the chain that package net builds ("dial unix /path: connect: no such file or directory").
func shortenError(err error) string {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it hung up"
	}
	return err.Error()
}

// readError makes an *Error of a response. Bodies are {"message": …} from 1.24 on, plain text before.
func readError(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	text := strings.TrimSpace(string(raw))
	var body struct{ Message string }
	if json.Unmarshal(raw, &body) == nil && body.Message != "" {
		text = body.Message
	}
	if text == "" {
		text = "the engine answered " + resp.Status
		if err != nil {
			text += ": " + shortenError(err)
		}
	}
	return &Error{Status: resp.StatusCode, Message: text, Kind: resp.Header.Get(faultKind)}
}
