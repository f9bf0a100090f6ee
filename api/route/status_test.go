package route_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rs/zerolog"

	"moss/api/apiver"
	"moss/api/route"
	"moss/engine/fault"
)

// TestStatusByVersion: where a version's documents list no 400 the status is 500, and the kind tells the two apart. An
// error may keep its status, and a route's errors may be text at every version.
func TestStatusByVersion(t *testing.T) {
	wrong := func(err error, keeps bool) route.Func {
		return func(c *route.Call) error {
			if keeps {
				c.Refuses()
			}
			return err
		}
	}
	since := route.Shape{BadSince: apiver.New(1, 24)}
	api := route.New([]route.Route{
		{Method: "GET", Path: "/listed", Do: wrong(fault.Invalid("bad"), false)},
		{Method: "GET", Path: "/since", Do: wrong(fault.Invalid("bad"), false), Shape: since},
		{Method: "GET", Path: "/keeps", Do: wrong(fault.Invalid("bad"), true), Shape: since},
		{Method: "GET", Path: "/missing", Do: wrong(fault.NotFound("none"), false), Shape: since},
		{Method: "GET", Path: "/broken", Do: wrong(fault.Internal("broken"), false), Shape: since},
		{Method: "GET", Path: "/things/:id", Do: wrong(nil, false)},
		{Method: "GET", Path: "/text", Do: wrong(fault.Invalid("bad"), false), Shape: route.Shape{Refusal: "application/stream"}},
	}, route.Options{Log: zerolog.Nop()})
	const text, object = "text/plain; charset=utf-8", "application/json"
	for _, tc := range []struct {
		path        string
		status      int
		kind, media string
	}{
		{"/v1.18/listed", 400, "invalid", text},
		{"/v1.24/listed", 400, "invalid", object},
		{"/v1.23/since", 500, "invalid", text},
		{"/v1.24/since", 400, "invalid", object},
		{"/v1.23/keeps", 400, "invalid", text},
		{"/v1.23/since?%zz", 400, "invalid", text},
		{"/v1.23/missing", 404, "not-found", text},
		{"/v1.24/broken", 500, "internal", object},
		{"/v1.18/text", 400, "invalid", "application/stream"},
		{"/v1.24/things/", 400, "invalid", object}, // it lacks its name
		{"/v1.24/text", 400, "invalid", "application/stream"},
	} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, tc.path, http.NoBody))
		kind, media := w.Header().Get("X-Fault-Kind"), w.Header().Get("Content-Type")
		if w.Code != tc.status || kind != tc.kind || media != tc.media {
			t.Errorf("%s = %d %s %s, want %d %s %s", tc.path, w.Code, kind, media, tc.status, tc.kind, tc.media)
		}
	}
}
