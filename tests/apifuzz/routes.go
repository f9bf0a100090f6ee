package main

import (
	"net/http"
	"slices"
	"strings"

	"moss/api/apiver"
	"moss/api/handler"
	"moss/api/route"
)

// The second numbers of versions: the newest, the one from which on errors are JSON and networks and volumes have labels, and the
// one from which on the removal of a network has no body.
const (
	newest      = 51
	withObjects = 24
	withoutBody = 25
)

// oldest is that of the oldest.
const oldest = 18

// table is what the API promises: the engine's own list of routes, with the statuses of each.
type table struct {
	routes []route.Route
	byName map[string][]route.Route // METHOD /path/:with/parameters: several when versions differ
}

func newTable() *table {
	t := &table{routes: handler.New(handler.Services{}).Routes(), byName: map[string][]route.Route{}}
	for _, r := range t.routes {
		name := r.Method + " " + r.Path
		t.byName[name] = append(t.byName[name], r)
	}
	return t
}

// findRoute returns the route that a call means, in the version of the call.
func (t *table) findRoute(c *call) (route.Route, bool) {
	for _, r := range t.byName[c.route] {
		if r.Versions.Has(apiver.New(1, uint16(c.minorVersion()))) { //nolint:gosec // 18 to 24
			return r, true
		}
	}
	return route.Route{}, false
}

// hasRouteAt reports whether some route, of whatever version, answers a method at a path.
func (t *table) hasRouteAt(method, path string) bool {
	parts := strings.Split(path, "/")
	return slices.ContainsFunc(t.routes, func(r route.Route) bool {
		pattern := strings.Split(r.Path, "/")
		return r.Method == method && len(pattern) == len(parts) && !slices.ContainsFunc(pattern, func(p string) bool {
			return !strings.HasPrefix(p, ":") && !slices.Contains(parts, p)
		})
	})
}

// isPromised reports whether a status is among those that a route's description gives, or every route may have.
func isPromised(r *route.Route, status int) bool {
	return slices.Contains(r.Shape.Codes, status) || slices.Contains([]int{bad, broken, http.StatusServiceUnavailable}, status)
}

// explainStatus says why an answer of the 500s is right, empty when it is not. The rest of them are findings.
func explainStatus(c *call, status int, text string) string {
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case status == 501:
		return "what is not supported says so"
	case c.route == "POST /containers/:id/resize" && has("cannot resize container"):
		return "document 2, 4.1: 500 cannot resize container"
	case c.route == "POST /containers/:id/copy" && status == broken:
		return "the documents know no 400 here"
	case (c.route == "POST /containers/:id/start" || c.route == "POST /containers/:id/restart") && strings.Contains(c.path, "/shared-") && has("OCI runtime"):
		return "a start's body at some version gave it settings that only the runtime can refuse"
	case slices.Contains(registryRoutes, c.route) && (has("registry") || has("dial") || has("lookup") || has("log in") || has("search")):
		return "there is no registry"
	}
	return ""
}

// registryRoutes ask other machines, and this one has no way to them.
var registryRoutes = []string{"POST /auth", "GET /distribution/:name/json", "GET /images/search", "POST /images/create", "POST /images/:name/push", "POST /build"}
