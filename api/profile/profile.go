// Package profile gives what the Go runtime knows of the engine, its profiles and its traces, to the engine's owner and to
// nobody else. It stands beside the API: its paths have no version and are in no document. Who the owner is, it is told.
package profile

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"moss/api/conn"
	"moss/engine/fault"
)

// root is where profiles are, as in every Go program: clients such as go tool pprof know it.
const root = "/debug/pprof"

// The measurements that are no profiles of package runtime/pprof, and those that cost something while they are made.
const (
	kindIndex   = ""
	kindCmdline = "cmdline"
	kindCPU     = "profile"
	kindTrace   = "trace"
	kindBlock   = "block"
	kindMutex   = "mutex"
)

// Options says who gets profiles. All but On is required.
type Options struct {
	On   bool         // without it every profile is fault.NotFound
	Next http.Handler // answers all other paths
	// Owner tells whether a request comes from the engine's own user, by a way that no other user has.
	Owner  func(r *http.Request) bool
	Refuse func(w http.ResponseWriter, r *http.Request, err error) // answers with an error
	Log    zerolog.Logger
}

// Handler answers the paths of profiles and passes all others on.
type Handler struct {
	opt Options

	mu   sync.Mutex // guards busy
	busy []string   // the measurements under way of which there can be one at a time
}

// New returns the handler.
func New(opt Options) *Handler { return &Handler{opt: opt} }

// ServeHTTP answers a GET below root.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.Path, root)
	if !ok || rest != "" && rest[0] != '/' || r.Method != http.MethodGet {
		h.opt.Next.ServeHTTP(w, r)
		return
	}
	if err := h.serveProfile(w, r, strings.TrimPrefix(rest, "/")); err != nil { //nolint:contextcheck // the request has it
		h.opt.Refuse(w, r, err)
	}
}

// serveProfile writes one profile. After an error nothing has been written.
func (h *Handler) serveProfile(w http.ResponseWriter, r *http.Request, kind string) error {
	switch {
	case !h.opt.On:
		return fault.NotFound("profiles are off: start or reload the engine with the setting debug-profiles (mossd --debug-profiles)")
	case !h.opt.Owner(r):
		return fault.Forbidden("profiles are for the engine's own user alone, over a unix socket")
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fault.Invalid("malformed query: %v", err)
	}
	span, err := parseSpan(kind, query)
	if err != nil {
		return err
	}
	ctx, cancel := conn.Patient(r)
	defer cancel()
	begin := time.Now()
	if kind == kindTrace {
		err = h.streamTrace(ctx, w, span)
	} else {
		err = h.writeProfile(ctx, w, kind, query, span)
	}
	if err == nil {
		h.opt.Log.Info().Str("profile", kind).Dur("took", time.Since(begin)).Msg("profile given out")
	}
	return err
}

// writeProfile answers with a whole profile: one that was cut short looks like a whole one.
func (h *Handler) writeProfile(ctx context.Context, w http.ResponseWriter, kind string, query url.Values,
	span time.Duration,
) error {
	var out bytes.Buffer
	plain := kind == kindIndex || kind == kindCmdline
	var err error
	switch kind {
	case kindIndex:
		listProfiles(&out)
	case kindCmdline:
		out.WriteString(strings.Join(os.Args, "\x00"))
	case kindCPU:
		err = h.measureCPU(ctx, &out, span)
	default:
		var debug int
		if debug, err = parseNumber(query, "debug"); err == nil {
			plain = debug > 0
			err = h.writeCounted(ctx, &out, kind, debug, query.Get("gc") != "", span)
		}
	}
	if err != nil {
		return err
	}
	setHead(w.Header(), kind, plain)
	_, _ = w.Write(out.Bytes()) // a failure is the client's hang-up
	return nil
}

// setHead says what follows, as net/http/pprof does.
func setHead(head http.Header, kind string, plain bool) {
	head.Set("X-Content-Type-Options", "nosniff")
	if plain {
		head.Set("Content-Type", "text/plain; charset=utf-8")
		return
	}
	head.Set("Content-Type", "application/octet-stream")
	head.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", kind))
}

// listProfiles writes the names of all, with how many records those have that are counted.
func listProfiles(out *bytes.Buffer) {
	for _, p := range pprof.Profiles() {
		fmt.Fprintf(out, "%s\t%d\n", p.Name(), p.Count())
	}
	for _, name := range []string{kindCmdline, kindCPU, kindTrace} {
		fmt.Fprintf(out, "%s\n", name)
	}
}

// reserveKind keeps others from the same measurement until it is released. One that is under way is fault.Conflict.
func (h *Handler) reserveKind(kind string) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Contains(h.busy, kind) {
		return nil, errBusy(kind)
	}
	h.busy = append(h.busy, kind)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.busy = slices.DeleteFunc(h.busy, func(one string) bool { return one == kind })
	}, nil
}

// errBusy says that somebody else measures the same.
func errBusy(kind string) error {
	return fault.Conflict("a %s is being measured already: there can be one at a time", kindName(kind))
}

// kindName is a measurement's name for people.
func kindName(kind string) string {
	switch kind {
	case kindCPU:
		return "CPU profile"
	case kindTrace:
		return kind
	default:
		return kind + " profile"
	}
}
