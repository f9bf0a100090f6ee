package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"moss/api/apiver"
	"moss/api/handler"
	"moss/api/route"
)

// endpoint is what an item says of one: "GET /info", or something of it behind another space.
type endpoint struct {
	method, path string
	what         string // ?parameter, ?filters=key, a status, a header, or words; empty: the endpoint itself
	status       int    // of what, 0 when that is none
}

func parseEndpoint(name string) (e endpoint, ok bool) {
	if what, common := strings.CutPrefix(name, anyEndpoint+" "); common {
		n, _ := strconv.Atoi(what)
		return endpoint{what: what, status: n}, true
	}
	method, rest, ok := strings.Cut(name, " ")
	if !ok || strings.ToUpper(method) != method || !strings.HasPrefix(rest, "/") {
		return endpoint{}, false
	}
	e.method = method
	e.path, e.what, _ = strings.Cut(rest, " ")
	if n, err := strconv.Atoi(e.what); err == nil && n >= 100 && n < 600 {
		e.status = n
	}
	return e, true
}

// servedRoutes returns the table of routes that moss serves.
func servedRoutes() []route.Route { return handler.New(handler.Services{}).Routes() }

// endpointName writes a route as the list does.
func endpointName(r route.Route) string {
	parts := strings.Split(r.Path, "/")
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return r.Method + " " + strings.Join(parts, "/")
}

// anyEndpoint stands for all of them: what they have in common and the documents do not list for each is listed once.
const anyEndpoint = "any endpoint"

// checkRoutes says where the routes and the list differ: in an endpoint, its versions, its parameters with their kinds, the
// keys of its filters, the headers it reads, and the statuses it answers with. 500 is every endpoint's and need not be
// listed for each.
func checkRoutes(items []item, table []route.Route) []string {
	var findings []string
	listed := make(map[string]item, len(items))
	for _, i := range items {
		listed[i.name] = i
	}
	has := map[string]bool{} // names of the list that the routes have
	for _, r := range table {
		name := endpointName(r)
		findings = append(findings, checkRange(listed, has, name, endpointKind(r), table, func(o route.Route) (apiver.Range, bool) {
			return o.Versions, endpointName(o) == name
		})...)
		for _, p := range r.Shape.Params {
			findings = append(findings, checkParam(listed, has, r, p, table)...)
		}
		for _, code := range r.Shape.Codes {
			status, common := fmt.Sprintf("%s %d", name, code), fmt.Sprintf("%s %d", anyEndpoint, code)
			has[status], has[common] = true, true
			_, own := listed[status]
			if _, ok := listed[common]; !own && !ok {
				findings = append(findings, status+": answered, not in the list")
			}
		}
	}
	for _, i := range items {
		e, ok := parseEndpoint(i.name)
		switch {
		case !ok || i.kind == isRule || e.status == 500: // which is every route's
		case has[i.name] && i.note == isNever && e.status == 0: // the routes declare all statuses of the documents
			findings = append(findings, i.name+": a route has it, listed as never there")
		case !has[i.name] && i.note != isNever:
			findings = append(findings, i.name+": no route has it")
		}
	}
	return findings
}

// endpointKind says which records an endpoint takes and gives: "endpoint: create -> created".
func endpointKind(r route.Route) string {
	in, out := recordName(r.Shape.In), recordName(r.Shape.Out)
	if out != "" && r.Shape.Stream {
		out = "stream of " + out
	}
	switch {
	case in == "" && out == "":
		return isEndpoint
	case in == "":
		return isEndpoint + ": -> " + out
	case out == "":
		return isEndpoint + ": " + in
	default:
		return isEndpoint + ": " + in + " -> " + out
	}
}

// recordName returns the prefix of a record's items without its point. A record without any is one that nothing compares.
func recordName(t reflect.Type) string {
	switch {
	case t == nil:
		return ""
	case t.Kind() == reflect.Slice:
		return "array of " + recordName(t.Elem())
	case t.Kind() == reflect.Pointer:
		return recordName(t.Elem())
	case t.Kind() == reflect.String:
		return "string"
	}
	if prefix, ok := prefixesByType()[t]; ok {
		return strings.TrimSuffix(prefix, ".")
	}
	return unknownForm
}

func checkParam(listed map[string]item, has map[string]bool, r route.Route, p route.Param, table []route.Route) []string {
	where := endpointName(r)
	name, kind := where+" ?"+p.Name, string(p.Kind)
	if p.Header {
		name, kind = where+" "+p.Name, isHeader
		common := anyEndpoint + " " + p.Name
		if _, ok := listed[common]; ok {
			has[common], has[name] = true, true
			return nil
		}
	}
	// same finds the parameter in a route, which may be another one of the same endpoint.
	same := func(o route.Route) (q route.Param, ok bool) {
		n := slices.IndexFunc(o.Shape.Params, func(q route.Param) bool { return q.Name == p.Name && q.Header == p.Header })
		if n < 0 || endpointName(o) != where {
			return route.Param{}, false
		}
		return o.Shape.Params[n], true
	}
	findings := checkRange(listed, has, name, kind, table, func(o route.Route) (apiver.Range, bool) {
		q, ok := same(o)
		return intersectRanges(o.Versions, q.Versions), ok
	})
	if p.Kind != route.Filters {
		return findings
	}
	for _, key := range p.Values {
		findings = append(findings, checkRange(listed, has, name+"="+key.Name, isFilter, table, func(o route.Route) (apiver.Range, bool) {
			q, ok := same(o)
			n := slices.IndexFunc(q.Values, func(v route.Value) bool { return v.Name == key.Name })
			if !ok || n < 0 {
				return apiver.Range{}, false
			}
			return intersectRanges(intersectRanges(o.Versions, q.Versions), q.Values[n].Versions), true
		})...)
	}
	return findings
}

// checkRange compares an item with what the routes have of it: the same kind, in the same versions. One item may be of
// several routes that share a path.
func checkRange(
	listed map[string]item, has map[string]bool, name, kind string, table []route.Route, of func(route.Route) (apiver.Range, bool),
) []string {
	if has[name] {
		return nil
	}
	has[name] = true
	i, ok := listed[name]
	if !ok {
		return []string{name + ": the route has it, not in the list"}
	}
	var findings []string
	if i.kind != kind {
		findings = append(findings, fmt.Sprintf("%s: the route has it as %s, listed: %s", name, kind, i.kind))
	}
	var ranges []apiver.Range
	for _, r := range table {
		if versions, ok := of(r); ok {
			ranges = append(ranges, versions)
		}
	}
	for _, v := range servedVersions() {
		there := slices.ContainsFunc(ranges, func(r apiver.Range) bool { return r.Has(v) })
		if want := i.versions.Has(v); there != want && (!there || i.note != earlierToo) {
			findings = append(findings, fmt.Sprintf("%s: served at %s: %t, listed: %t", name, v, there, want))
		}
	}
	return findings
}

// intersectRanges returns the versions that both ranges hold.
func intersectRanges(a, b apiver.Range) apiver.Range {
	r := apiver.Range{Since: max(a.Since, b.Since), Until: a.Until}
	if r.Until == 0 || b.Until != 0 && b.Until < r.Until {
		r.Until = b.Until
	}
	return r
}
