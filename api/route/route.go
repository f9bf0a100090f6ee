// Package route brings a request to its handler: it takes the API version off the path, finds the route, and turns the
// handler's error into the answer. Routes are data with the range of versions that has them. It knows no endpoint.
package route

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"moss/api/apierr"
	"moss/api/apiver"
	"moss/api/compat"
	"moss/engine/fault"
)

// Func answers one call. An error becomes the answer if none was begun.
type Func func(c *Call) error

// Route is one endpoint. Path holds parameters as :name.
type Route struct {
	Method, Path string
	Versions     apiver.Range // zero: every version
	Do           Func         // nil: moss does not have it yet, and says so
	Shape        Shape
}

// Options describes the server to its clients.
type Options struct {
	Version string       // of moss, in the header Server
	Serve   apiver.Range // the versions that are served; an open end is that of apiver
	CORS    string       // the origin that other pages may come from, * for all; empty: none
	Log     zerolog.Logger
}

// API is the handler of all routes. It stands before gin.
type API struct {
	engine *gin.Engine
	routes []Route
	serve  apiver.Range
	head   []compat.Header // of every answer
	ids    *ids
	log    zerolog.Logger
	debug  bool // every answer is logged
}

// New returns the handler of all routes. Two routes may share a method and a path if their versions do not meet.
func New(routes []Route, opt Options) *API {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.RedirectTrailingSlash = false
	engine.RedirectFixedPath = false
	engine.HandleMethodNotAllowed = false // gin knows no versions
	engine.UseRawPath = true
	engine.UnescapePathValues = false // Call.Param does it, and leaves plus signs alone
	a := &API{
		engine: engine, routes: routes, serve: opt.Serve.Within(apiver.Min, apiver.Max), ids: newIDs(), log: opt.Log,
		debug: opt.Log.GetLevel() <= zerolog.DebugLevel && zerolog.GlobalLevel() <= zerolog.DebugLevel,
	}
	a.head = append(compat.Head(opt.Version, a.serve.Until), compat.CrossOrigin(opt.CORS)...)

	type place struct{ method, path string }
	shared := map[place][]Route{}
	var order []place
	for _, r := range routes {
		p := place{r.Method, r.Path}
		if _, known := shared[p]; !known {
			order = append(order, p)
		}
		shared[p] = append(shared[p], r)
	}
	for _, p := range order {
		engine.Handle(p.method, p.path, a.dispatchByVersion(shared[p]))
	}
	engine.NoRoute(func(g *gin.Context) {
		a.answerUnrouted(exchangeOf(g))
		g.Writer.WriteHeaderNow() // or gin adds a text of its own, which breaks the connection
	})
	return a
}

// ServeHTTP takes the version off the path and passes the rest on.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := a.openExchange(w, r)
	if a.debug {
		begin := time.Now()
		defer func() { a.logAnswer(x, time.Since(begin)) }()
	}
	var err error
	x.version, x.rest, err = splitVersion(r.URL.EscapedPath(), a.serve)
	switch {
	case err != nil:
		a.answerError(x, err) //nolint:contextcheck // the exchange has the request
	case r.Method == http.MethodOptions: // what a browser may do is said by the headers alone
		if allowed := a.allowedMethods(x); allowed != "" {
			w.Header().Set("Allow", allowed)
		}
		x.WriteHeader(http.StatusOK)
		x.writeHead()
	default:
		// The request is the server's own and ends here: its path may be changed, and needs no copy.
		r.URL.RawPath = foldPath(r.Method, x.rest)
		a.engine.ServeHTTP(x, r)
	}
}

// Refuse answers a request that must not reach its route, as ServeHTTP would answer it.
func (a *API) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	x := a.openExchange(w, r)
	if version, _, wrong := splitVersion(r.URL.EscapedPath(), a.serve); wrong == nil {
		x.version = version
	}
	a.answerError(x, err)
	if a.debug {
		a.logAnswer(x, 0)
	}
}

// openExchange begins an exchange: from here on every answer has the same headers.
func (a *API) openExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{ResponseWriter: w, request: r, served: a.serve, version: a.serve.Until, log: &a.log, status: http.StatusOK}
	if brought := r.Header[compat.RequestID]; len(brought) > 0 && isUsableID(brought[0]) {
		x.id[0] = brought[0]
	} else {
		x.id[0] = a.ids.nextID()
	}
	h := w.Header()
	for i := range a.head {
		h[a.head[i].Key] = a.head[i].Value
	}
	h[compat.RequestID] = x.id[:]
	return x
}

// dispatchByVersion picks the route of the request's version among those that share a path.
func (a *API) dispatchByVersion(routes []Route) gin.HandlerFunc {
	return func(g *gin.Context) {
		x := exchangeOf(g)
		for i := range routes {
			r := &routes[i]
			if !r.Versions.Has(x.version) {
				continue
			}
			if r.Do == nil {
				a.answerError(x, fault.Unsupported("moss does not implement %s %s yet", r.Method, r.Path))
				return
			}
			a.runHandler(x, g, r)
			return
		}
		a.answerUnrouted(x)
	}
}

// answerUnrouted answers a request that no route takes: with 405 if others of its path and version take another method.
func (a *API) answerUnrouted(x *exchange) {
	if a.lacksName(x) {
		a.answerError(x, fault.Invalid("bad parameter: the path ends where a name or an id is needed"))
		return
	}
	allowed := a.allowedMethods(x)
	if allowed == "" {
		a.answerError(x, fault.NotFound(compat.PageNotFound))
		return
	}
	x.Header().Set("Allow", allowed)
	apierr.Respond(x, x.version, http.StatusMethodNotAllowed, "method not allowed: this path takes "+allowed)
}

// lacksName reports whether a path that ends in a slash would be an endpoint's with a name behind it.
func (a *API) lacksName(x *exchange) bool {
	if !strings.HasSuffix(x.rest, "/") {
		return false
	}
	method := x.request.Method
	path := foldPath(method, x.rest+"x")
	for i := range a.routes {
		r := &a.routes[i]
		if r.Method == method && r.Versions.Has(x.version) && strings.Contains(r.Path, ":") && matchesPattern(r.Path, path) {
			return true
		}
	}
	return false
}

// allowedMethods lists the methods of a request's path at its version, empty when it is no endpoint's.
func (a *API) allowedMethods(x *exchange) string {
	var found []string
	for _, method := range []string{
		http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost, http.MethodPut,
	} {
		path := placeOf(method, x.rest)
		for i := range a.routes {
			if r := &a.routes[i]; r.Method == method && r.Versions.Has(x.version) && matchesPattern(r.Path, path) {
				found = append(found, method)
				break
			}
		}
	}
	if found == nil {
		return ""
	}
	return strings.Join(append(found, http.MethodOptions), ", ")
}

// runHandler calls a handler and answers with its error. A panic ends the request and not the engine.
func (a *API) runHandler(x *exchange, g *gin.Context, r *Route) {
	defer func() {
		what := recover()
		if what == nil {
			return
		}
		if what == http.ErrAbortHandler { //nolint:errorlint // What was panicked with is compared, not an error.
			panic(what)
		}
		x.requestLogger().Error().Str("panic", fmt.Sprint(what)).Bytes("stack", debug.Stack()).Msg("request panicked")
		if x.begun {
			panic(http.ErrAbortHandler)
		}
		apierr.Respond(x, x.version, http.StatusInternalServerError, "internal error: the engine's log tells more of request "+x.id[0])
	}()
	defer x.releaseScope()
	x.no400, x.refusal = x.version < r.Shape.BadSince, r.Shape.Refusal
	call := &Call{w: x, r: x.request, x: x, params: g.Param, declared: r.Shape.Params}
	if raw := x.request.URL.RawQuery; raw != "" {
		var err error
		if call.query, err = url.ParseQuery(raw); err != nil {
			x.no400 = false // no version has another status for it
			a.answerError(x, fault.Invalid("malformed query: %v", err))
			return
		}
	}
	for i := range r.Shape.Later {
		if err := r.Shape.Later[i].refuseQuery(call.query, x.version); err != nil {
			a.answerError(x, err)
			return
		}
	}
	if err := r.Do(call); err != nil {
		a.endWithError(x, err)
		return
	}
	x.writeHead()
}

// endWithError answers with an error, or breaks an answer off that was begun, so that the client cannot take it for a whole
// one.
func (a *API) endWithError(x *exchange, err error) {
	if !x.begun {
		a.answerError(x, err)
		return
	}
	if !apierr.HungUp(x.requestContext(), err) {
		x.requestLogger().Warn().Err(err).Msg("answer broken off")
	}
	panic(http.ErrAbortHandler)
}

// answerError answers with an error and logs the engine's own trouble: nobody above passes it on.
func (a *API) answerError(x *exchange, err error) {
	err = x.causeOf(err)
	if apierr.IsTrouble(x.requestContext(), err) {
		x.requestLogger().Error().Err(err).Msg("request failed")
	}
	if x.refusal != "" {
		apierr.WriteText(x, x.refusal, err)
		x.writeHead()
		return
	}
	status := apierr.Status(err)
	if x.no400 && status == http.StatusBadRequest {
		status = http.StatusInternalServerError
	}
	apierr.WriteStatus(x, x.version, status, err)
	x.writeHead()
}

// causeOf returns why the server has ended the request if err says that it did, and any other error as it is.
func (x *exchange) causeOf(err error) error {
	if cause := context.Cause(x.request.Context()); errors.Is(err, context.Canceled) && fault.Is(cause, fault.Unavailable) {
		return cause
	}
	return err
}

// logAnswer logs an answer.
func (a *API) logAnswer(x *exchange, took time.Duration) {
	x.requestLogger().Debug().Stringer("version", x.version).Int("status", x.status).Int64("bytes", x.bytes).
		Dur("took", took).Msg("answered")
}
