// Package route brings a request to its handler: it takes the API version off the path, finds the route, and turns the
// handler's error into the answer. Routes are data with the range of versions that has them. It knows no endpoint.
package route

import (
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"moss/api/apierr"
	"moss/api/apiver"
	"moss/engine/fault"
)

// Func answers one call. An error becomes the answer if none was begun.
type Func func(c *Call) error

// Route is one endpoint. Path holds parameters as :name.
type Route struct {
	Method, Path string
	Versions     apiver.Range // zero: every version
	Do           Func         // nil: moss does not have it yet, and says so
}

// Options describes the server to its clients.
type Options struct {
	Version string // of moss, in the header Server
	CORS    string // the origin that other pages may come from, * for all; empty: none
	Log     zerolog.Logger
}

// New returns the handler of all routes. Two routes may share a method and a path if their versions do not meet.
func New(routes []Route, opt Options) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.RedirectTrailingSlash = false
	engine.RedirectFixedPath = false
	engine.HandleMethodNotAllowed = false
	engine.UseRawPath = true
	engine.UnescapePathValues = false // Call.Param does it, and leaves plus signs alone
	f := &front{engine: engine, opt: opt}

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
		engine.Handle(p.method, p.path, f.dispatch(shared[p]))
	}
	engine.NoRoute(func(g *gin.Context) { f.fail(g.Writer, g.Request, pageNotFound()) })
	return f
}

// Refuse answers a request that must not reach its route, in the form of the newest version.
func Refuse(w http.ResponseWriter, err error) { apierr.Write(w, apiver.Max, err) }

func pageNotFound() error { return fault.NotFound("page not found") }

func notYet(r Route) error {
	return fault.Unsupported("moss does not implement %s %s yet", r.Method, r.Path)
}

// front stands before gin.
type front struct {
	engine *gin.Engine
	opt    Options
}

// ServeHTTP takes the version off the path and passes the rest on.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.setHeaders(w.Header())
	version, rest, err := splitVersion(r.URL.EscapedPath())
	r = r.WithContext(apiver.NewContext(r.Context(), version))
	if err != nil {
		f.fail(w, r, err)
		return
	}
	if r.Method == http.MethodOptions { // what a browser may do is said by the headers alone
		w.WriteHeader(http.StatusOK)
		return
	}
	rest = fold(r.Method, rest)
	plain, err := unescape(rest)
	if err != nil {
		f.fail(w, r, err)
		return
	}
	r.URL = &url.URL{Path: plain, RawPath: rest, RawQuery: r.URL.RawQuery}
	f.engine.ServeHTTP(w, r)
}

func (f *front) setHeaders(h http.Header) {
	h.Set("Server", "moss/"+f.opt.Version+" (linux)")
	h.Set("Api-Version", apiver.Max.String())
	h.Set("Ostype", "linux")
	h.Set("Docker-Experimental", "false")
	if f.opt.CORS != "" {
		h.Set("Access-Control-Allow-Origin", f.opt.CORS)
		h.Set("Access-Control-Allow-Headers", "Origin, X-Requested-With, Content-Type, Accept, X-Registry-Auth")
		h.Set("Access-Control-Allow-Methods", "HEAD, GET, POST, DELETE, PUT, OPTIONS")
	}
}

// dispatch picks the route of the request's version among those that share a path.
func (f *front) dispatch(routes []Route) gin.HandlerFunc {
	return func(g *gin.Context) {
		version := apiver.FromContext(g.Request.Context())
		for _, r := range routes {
			if !r.Versions.Has(version) {
				continue
			}
			if r.Do == nil {
				f.fail(g.Writer, g.Request, notYet(r))
				return
			}
			f.run(g, r.Do)
			return
		}
		f.fail(g.Writer, g.Request, pageNotFound())
	}
}

// run calls a handler and answers with its error. A panic ends the request and not the engine.
func (f *front) run(g *gin.Context, do Func) {
	defer func() {
		what := recover()
		if what == nil {
			return
		}
		if what == http.ErrAbortHandler { //nolint:errorlint // What was panicked with is compared, not an error.
			panic(what)
		}
		err := fmt.Errorf("panic while answering: %v", what)
		f.opt.Log.Error().Err(err).Str("method", g.Request.Method).Str("path", g.Request.URL.Path).
			Bytes("stack", debug.Stack()).Msg("request panicked")
		if g.Writer.Written() {
			panic(http.ErrAbortHandler)
		}
		apierr.Write(g.Writer, apiver.FromContext(g.Request.Context()), err)
	}()
	query, err := url.ParseQuery(g.Request.URL.RawQuery)
	if err != nil {
		f.end(g, fault.Invalid("malformed query: %v", err))
		return
	}
	if err := do(&Call{w: g.Writer, r: g.Request, params: g.Param, query: query}); err != nil {
		f.end(g, err)
		return
	}
	g.Writer.WriteHeaderNow()
}

// end answers with an error, or breaks an answer off that was begun, so that the client cannot take it for a whole one.
func (f *front) end(g *gin.Context, err error) {
	if !g.Writer.Written() {
		f.fail(g.Writer, g.Request, err)
		return
	}
	if !apierr.HungUp(g.Request.Context(), err) {
		f.opt.Log.Warn().Err(err).Str("method", g.Request.Method).Str("path", g.Request.URL.Path).Msg("answer broken off")
	}
	panic(http.ErrAbortHandler)
}

// fail answers with an error and logs the engine's own trouble: nobody above passes it on.
func (f *front) fail(w http.ResponseWriter, r *http.Request, err error) {
	if apierr.Status(err) == http.StatusInternalServerError && !apierr.HungUp(r.Context(), err) {
		f.opt.Log.Error().Err(err).Str("method", r.Method).Str("path", r.URL.Path).Msg("request failed")
	}
	apierr.Write(w, apiver.FromContext(r.Context()), err)
}
