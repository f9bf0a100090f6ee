package route

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"moss/api/apiver"
	"moss/api/conn"
)

// exchange is one request with its answer. As the answer's writer it holds the head back until something follows, so that
// an error before that can still be a status.
type exchange struct {
	http.ResponseWriter

	request *http.Request
	served  apiver.Range
	version apiver.Version
	rest    string // of the escaped path, behind the version
	id      [1]string
	log     *zerolog.Logger // of all requests

	no400   bool   // the version's document has none for the route
	refusal string // media type of errors as text; empty: errors have the version's form

	once    sync.Once // makes the fields below
	scoped  *http.Request
	release context.CancelFunc

	status int
	begun  bool // the head is out, or the connection was taken over
	bytes  int64
}

// exchangeOf returns the exchange that API.ServeHTTP passed through gin as the writer.
func exchangeOf(g *gin.Context) *exchange {
	if w, ok := g.Writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		if x, ok := w.Unwrap().(*exchange); ok {
			return x
		}
	}
	panic("route: gin's writer does not hold the exchange")
}

// WriteHeader sets the status. One that was set before gives way until the head is out, which that of another protocol is
// at once: what follows is not written here.
func (x *exchange) WriteHeader(status int) {
	if x.begun {
		return
	}
	x.status = status
	if status == http.StatusSwitchingProtocols {
		x.writeHead()
	}
}

// writeHead sends the head.
func (x *exchange) writeHead() {
	if !x.begun {
		x.begun = true
		x.ResponseWriter.WriteHeader(x.status)
	}
}

// Write sends a part of the body.
func (x *exchange) Write(p []byte) (int, error) {
	x.writeHead()
	n, err := x.ResponseWriter.Write(p)
	x.bytes += int64(n)
	return n, err
}

// FlushError sends what is on its way.
func (x *exchange) FlushError() error {
	x.writeHead()
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// Hijack gives the connection away.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err == nil {
		x.begun, x.status = true, http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// scopedRequest returns the request with a context that ends when the client has gone, and whose logger names the request.
// It is made when it is asked for: many answers need none.
func (x *exchange) scopedRequest() *http.Request {
	x.once.Do(func() {
		ctx, release := conn.Patient(x.request)
		log := x.log.With().Str("request", x.id[0]).Logger()
		x.scoped, x.release = x.request.WithContext(log.WithContext(ctx)), release
	})
	return x.scoped
}

// releaseScope ends the context of the scoped request, if there is one.
func (x *exchange) releaseScope() {
	if x.release != nil {
		x.release()
	}
}

// requestContext returns the context of the scoped request if there is one, otherwise that of the request.
func (x *exchange) requestContext() context.Context {
	if x.scoped != nil {
		return x.scoped.Context()
	}
	return x.request.Context()
}

// requestLogger returns a logger with the id, the method and the path of the request.
func (x *exchange) requestLogger() *zerolog.Logger {
	log := x.log.With().Str("request", x.id[0]).Str("method", x.request.Method).Str("path", clipPath(x.request.URL.Path)).Logger()
	return &log
}

// longestShown is how many bytes of a path the log shows.
const longestShown = 300

func clipPath(path string) string {
	if len(path) <= longestShown {
		return path
	}
	return path[:longestShown] + "..."
}

// ids makes ids of requests: unlike each other, and unlike those of another engine.
type ids struct {
	base uint64
	made atomic.Uint64
}

func newIDs() *ids { return &ids{base: rand.Uint64()} } //nolint:gosec // An id is a mark in the log and no secret.

func (s *ids) nextID() string {
	// The steps of splitmix64 lead from each number to another one, so none comes twice, and neighbours look unlike.
	n := s.base + s.made.Add(1)*0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	n ^= n >> 31
	var raw [8]byte
	var text [16]byte
	binary.BigEndian.PutUint64(raw[:], n)
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// maxID is how many bytes the id that a client brings along may have.
const maxID = 64

// isUsableID reports whether an id that a client brought along can stand in a header and in the log.
func isUsableID(id string) bool {
	if id == "" || len(id) > maxID {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
