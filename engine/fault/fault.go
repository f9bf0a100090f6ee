// Package fault gives an error the one property the outside world acts on: its kind.
//
// A kind is set once, where the meaning of an error is known, and asked for by kind, never by text. The API maps kinds
// to status codes in one place (API document 3, section 7); nothing here knows about HTTP.
package fault

import (
	"errors"
	"fmt"
)

// Kind says what an error means to a caller. The zero value is an internal error.
type Kind int

// The kinds, with the status that the API documents give them (document 3, section 7).
const (
	KindInternal      Kind = iota // 500: the engine's own trouble
	KindNotModified               // 304: already started, already stopped
	KindInvalid                   // 400: a bad parameter
	KindUnauthorized              // 401: a registry refuses the credentials
	KindForbidden                 // 403: not allowed on this object
	KindNotFound                  // 404: no such object
	KindNotAcceptable             // 406: impossible in this mode
	KindConflict                  // 409: the object's state or name stands against it
	KindUnsupported               // 501: moss does not do this
	KindUnavailable               // 503: not now (shutting down, uplink restarting)
)

// String returns the kind in a word, as clients are told it.
func (k Kind) String() string {
	switch k {
	case KindInternal:
		return "internal"
	case KindNotModified:
		return "not-modified"
	case KindInvalid:
		return "invalid"
	case KindUnauthorized:
		return "unauthorized"
	case KindForbidden:
		return "forbidden"
	case KindNotFound:
		return "not-found"
	case KindNotAcceptable:
		return "not-acceptable"
	case KindConflict:
		return "conflict"
	case KindUnsupported:
		return "unsupported"
	case KindUnavailable:
		return "unavailable"
	default:
		return "internal"
	}
}

// Error is an error with a kind.
type Error struct {
	kind Kind
	err  error
}

// Error returns the text of the wrapped error.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.err }

// Constructor makes an error of one kind: Invalid, NotFound and their siblings.
type Constructor func(format string, args ...any) error

func newError(kind Kind, format string, args []any) error {
	return &Error{kind: kind, err: fmt.Errorf(format, args...)}
}

// NotModified reports that nothing had to change.
func NotModified(format string, args ...any) error { return newError(KindNotModified, format, args) }

// Invalid reports a bad parameter. The text names the field, its value and the bound.
func Invalid(format string, args ...any) error { return newError(KindInvalid, format, args) }

// Unauthorized reports refused credentials.
func Unauthorized(format string, args ...any) error { return newError(KindUnauthorized, format, args) }

// Forbidden reports an operation that this object never allows.
func Forbidden(format string, args ...any) error { return newError(KindForbidden, format, args) }

// NotFound reports a missing object.
func NotFound(format string, args ...any) error { return newError(KindNotFound, format, args) }

// NotAcceptable reports an operation that the present mode rules out.
func NotAcceptable(format string, args ...any) error {
	return newError(KindNotAcceptable, format, args)
}

// Conflict reports a name or a state that stands against the operation.
func Conflict(format string, args ...any) error { return newError(KindConflict, format, args) }

// Unsupported reports something moss does not do.
func Unsupported(format string, args ...any) error { return newError(KindUnsupported, format, args) }

// Unavailable reports something that cannot be done now but may be later.
func Unavailable(format string, args ...any) error { return newError(KindUnavailable, format, args) }

// Internal reports the engine's own trouble; wrapping with it hides the kind of an inner error.
func Internal(format string, args ...any) error { return newError(KindInternal, format, args) }

// KindOf returns the kind of the outermost Error in err's chain, KindInternal if there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.kind
	}
	return KindInternal
}

// Is reports whether err has the kind that like makes: fault.Is(err, fault.NotFound). A nil error has no kind.
func Is(err error, like Constructor) bool {
	return err != nil && KindOf(err) == KindOf(like(""))
}
