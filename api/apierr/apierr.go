// Package apierr turns an error into an HTTP answer: its kind into a status, in this one place, and its text into the
// body that the request's API version wants (API document 3, section 7). It knows no endpoint.
package apierr

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/engine/fault"
)

// Status returns the status code of an error: 500 for one without a kind.
func Status(err error) int {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	switch fault.KindOf(err) {
	case fault.KindNotModified:
		return http.StatusNotModified
	case fault.KindInvalid:
		return http.StatusBadRequest
	case fault.KindUnauthorized:
		return http.StatusUnauthorized
	case fault.KindForbidden:
		return http.StatusForbidden
	case fault.KindNotFound:
		return http.StatusNotFound
	case fault.KindNotAcceptable:
		return http.StatusNotAcceptable
	case fault.KindConflict:
		return http.StatusConflict
	case fault.KindUnsupported:
		return http.StatusNotImplemented
	case fault.KindUnavailable:
		return http.StatusServiceUnavailable
	case fault.KindInternal:
		if errors.Is(err, context.Canceled) {
			return http.StatusServiceUnavailable // the client has gone, or the engine is going
		}
		return http.StatusInternalServerError
	default:
		return http.StatusInternalServerError
	}
}

// Write answers a request with an error in the form of version v. The head must not have been written. A failure to
// write is the client's hang-up and is ignored.
func Write(w http.ResponseWriter, v apiver.Version, err error) { WriteStatus(w, v, Status(err), err) }

// WriteStatus is Write with a status that is not the one of the error's kind. The kind is told by a header.
func WriteStatus(w http.ResponseWriter, v apiver.Version, status int, err error) {
	w.Header().Set(compat.FaultKind, fault.KindOf(err).String())
	if status == http.StatusNotModified {
		w.WriteHeader(status)
		return
	}
	Respond(w, v, status, fault.Text(err))
}

// WriteText is Write for a client that expects a stream: the error is a line of text in the stream's media type, at every
// version.
func WriteText(w http.ResponseWriter, mediaType string, err error) {
	w.Header().Set(compat.FaultKind, fault.KindOf(err).String())
	writeResponse(w, Status(err), mediaType, []byte(fault.Text(err)+"\n"))
}

// Respond is Write with a status and a text that are no error's of the engine.
func Respond(w http.ResponseWriter, v apiver.Version, status int, text string) {
	contentType, body := compat.Error(v, text)
	writeResponse(w, status, contentType, body)
}

func writeResponse(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// StreamMessage returns the message that reports err in a stream that has begun (document 3, 7.3), with its newline.
func StreamMessage(err error) []byte { return compat.StreamError(exitCode(err), fault.Text(err)) }

// exitCode returns the code that an error of a container's command carries, 0 when it carries none.
func exitCode(err error) int {
	var coded interface{ StreamCode() int } // no ExitCode: programs that the engine runs end with errors that have one
	if errors.As(err, &coded) {
		return coded.StreamCode()
	}
	return 0
}

// IsTrouble reports whether err is the engine's own trouble, which its log should tell: not the client's hang-up, and not
// the end of a command that the client gave.
func IsTrouble(ctx context.Context, err error) bool {
	return Status(err) == http.StatusInternalServerError && exitCode(err) == 0 && !HungUp(ctx, err)
}

// HungUp reports whether err is only the client's hang-up, which nobody needs to be told of.
func HungUp(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}
