package registry

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/outage"
)

// trouble is what a registry's answer, or the lack of one, comes down to.
type trouble struct {
	status int    // of HTTP; 0: there was no answer
	code   string // of the distribution API, in small letters: manifest unknown
	text   string // the registry's own words, made safe to show
}

// troubleOf returns the registry's answer that an error stands for, or nothing.
func troubleOf(err error) trouble {
	if answer, ok := errors.AsType[*answerError](err); ok {
		return answer.trouble
	}
	return trouble{}
}

// codeOf gives a status that came without a code its usual one.
func codeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "denied"
	case http.StatusTooManyRequests:
		return "toomanyrequests"
	default:
		return ""
	}
}

// describeTrouble returns code and text as clients know them: "denied: requested access to the resource is denied".
func (t trouble) describeTrouble() string {
	code := strings.ReplaceAll(t.code, "too many requests", "toomanyrequests")
	switch {
	case code == "" && t.text == "" && t.status != 0:
		return fmt.Sprintf("the registry answered %d %s", t.status, http.StatusText(t.status))
	case t.text == "" || t.text == code:
		return code
	case code == "":
		return t.text
	default:
		return code + ": " + t.text
	}
}

func (t trouble) isRefusal() bool {
	return t.status == http.StatusUnauthorized || t.status == http.StatusForbidden || t.code == "unauthorized" || t.code == "denied"
}

func (t trouble) isThrottling() bool { return t.status == http.StatusTooManyRequests }

// isPermanent reports whether asking again cannot help.
func (t trouble) isPermanent() bool {
	return t.status >= 400 && t.status < 500 && t.status != http.StatusRequestTimeout
}

// pullError gives an error of a pull its kind and Docker's words. What a registry refuses is fault.NotFound to those who pull,
// and below that fault.Unauthorized. since is when the asking began.
func (e *endpoint) pullError(ref image.Ref, err error, since time.Time) error {
	if known := e.untranslatedError(err); known != nil {
		return known
	}
	t := troubleOf(err)
	refused := func(why string) error {
		return fault.NotFound("%w", fault.Unauthorized(
			"pull access denied for %s, repository does not exist or may require a login: %s", ref.FamiliarRepo(), why))
	}
	switch {
	case t.isRefusal():
		return refused(t.describeTrouble())
	case fault.Is(err, fault.Unauthorized), fault.Is(err, fault.Forbidden):
		return refused(printableText(err.Error()))
	case t.isThrottling():
		return throttledError(e.host, t, since)
	case t.code == "name unknown":
		return fault.NotFound("repository %s not found: %s", ref.FamiliarRepo(), t.describeTrouble())
	case t.code == "manifest unknown", t.status == http.StatusNotFound && t.code == "":
		return fault.NotFound("manifest for %s not found: manifest unknown", ref.Familiar())
	case t.status != 0:
		return newTold("registry %s: %s", e.host, t.describeTrouble())
	}
	return e.unreachableError(err)
}

// pushError does the same for what is sent.
func (e *endpoint) pushError(ref image.Ref, err error, since time.Time) error {
	if known := e.untranslatedError(err); known != nil {
		return known
	}
	t := troubleOf(err)
	switch {
	case t.isRefusal():
		return fault.Unauthorized("push access denied for %s: %s", ref.FamiliarRepo(), t.describeTrouble())
	case fault.Is(err, fault.Unauthorized), fault.Is(err, fault.Forbidden):
		return fault.Unauthorized("push access denied for %s: denied: %s", ref.FamiliarRepo(), printableText(err.Error()))
	case t.isThrottling():
		return throttledError(e.host, t, since)
	case t.status != 0:
		return newTold("registry %s: %s", e.host, t.describeTrouble())
	}
	return e.unreachableError(err)
}

// untranslatedError returns errors that need no translation: the end of the caller's patience, and those that have a kind
// already.
func (e *endpoint) untranslatedError(err error) error {
	if t, ok := errors.AsType[*told](err); ok {
		return t
	}
	switch {
	case errors.Is(err, context.Canceled) && !errors.Is(err, errStalled),
		errors.Is(err, context.DeadlineExceeded) && !isTimeout(err):
		return err
	case fault.Is(err, fault.Invalid), fault.Is(err, fault.NotFound), fault.Is(err, fault.Unavailable):
		if kinded, ok := errors.AsType[*fault.Error](err); ok {
			return kinded
		}
	}
	return nil
}

// isTimeout tells the network's timeouts from the end of a context.
func isTimeout(err error) bool {
	request, ok := errors.AsType[*url.Error](err)
	return ok && request.Timeout()
}

func throttledError(host string, t trouble, since time.Time) error {
	waited := ""
	if d := time.Since(since).Round(time.Second); d > 0 {
		waited = fmt.Sprintf(" (asked again for %s)", d)
	}
	return fault.Unavailable("registry %s: %s%s", host, t.describeTrouble(), waited)
}

// unreachableError words an error that came from the network or from TLS. A URL's query may hold a signature or a token, so
// nothing of it is shown.
func (e *endpoint) unreachableError(err error) error {
	host, cause := e.server, err
	if request, ok := errors.AsType[*url.Error](err); ok {
		cause = request.Err
		if u, parsed := url.Parse(request.URL); parsed == nil && u.Host != "" {
			host = u.Host
		}
	}
	if text, ok := outage.Words(cause); ok {
		return newTold("registry %s cannot be reached: %s", host, printableText(text))
	}
	text := printableText(cause.Error())
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return newTold("registry %s: %s: put the authority's certificate into certs.d/%s/ca.crt", host, text, e.host)
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return newTold("registry %s: it does not speak TLS: name it in insecure-registry if that is right", host)
	}
	return newTold("registry %s: %s", host, text)
}

// printableText makes text from outside fit to be shown: one line of bounded length, without URLs' users and queries.
func printableText(text string) string {
	text = urlSecrets().ReplaceAllString(text, "$1$2")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		default:
			return r
		}
	}, text)
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.TrimSpace(text)
}

// urlSecrets is what of a URL may hold secrets: the user, and the query.
//
//nolint:gochecknoglobals // a constant
var urlSecrets = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/@\s"]*@)?([^\s"?]*)(?:\?[^\s"]*)?`)
})

// told is an error that has its words already, and no kind.
type told struct{ text string }

func (t *told) Error() string { return t.text }

func newTold(format string, args ...any) error { return &told{fmt.Sprintf(format, args...)} }

// answerError is an answer to a request of our own.
type answerError struct{ trouble }

func (e *answerError) Error() string { return e.describeTrouble() }
