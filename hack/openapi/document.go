package main

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"moss/api/apiver"
	"moss/api/route"
)

func keysOf[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// openAPI returns the document of one version.
func openAPI(routes []route.Route, w *words, version apiver.Version) ([]byte, error) {
	s, err := newSchemas(routes, w, version)
	if err != nil {
		return nil, err
	}
	paths, err := pathItems(routes, s, version)
	if err != nil {
		return nil, err
	}
	var tags list
	for _, noun := range nouns {
		tags = append(tags, object{{"name", noun}, {"description", w.textOf("#" + noun)}})
	}
	components := s.componentSchemas()
	components.add("Error", object{
		{"type", "object"},
		{"description", "What an answer of 400 and above holds."},
		{"properties", object{{"message", object{{"type", "string"}}}}},
		{"required", list{"message"}},
	})
	document := object{
		{"openapi", "3.0.3"},
		{"info", object{
			{"title", "moss"},
			{"version", version.String()},
			{"description", w.textOf("#document")},
		}},
		{"servers", list{object{{"url", "/v" + version.String()}}, object{{"url", "/"}}}},
		{"tags", tags},
		{"paths", paths},
		{"components", object{{"schemas", components}, {"responses", sharedRefusals(routes)}}},
	}
	var b bytes.Buffer
	b.WriteString("# Made by hack/openapi from the table of routes and the structs of api/wire.\n")
	appendYAML(&b, document, 0)
	return b.Bytes(), nil
}

// nouns are what endpoints are about, in the order of the documents.
var nouns = []string{"containers", "exec", "images", "volumes", "networks", "system", "swarm"}

// nounOf returns what a route is about.
func nounOf(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "containers", "images", "volumes", "networks", "exec":
		if strings.HasSuffix(path, "/exec") {
			return "exec"
		}
		return first
	case "commit":
		return "containers"
	case "build":
		return "images"
	case "services", "tasks", "swarm", "nodes":
		return "swarm"
	default:
		return "system"
	}
}

// pathTemplate writes a path as OpenAPI does, and returns the names in it.
func pathTemplate(path string) (text string, names []string) {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, ":"); ok {
			parts[i] = "{" + name + "}"
			names = append(names, name)
		}
	}
	return strings.Join(parts, "/"), names
}

func pathItems(routes []route.Route, s *schemas, version apiver.Version) (object, error) {
	items := map[string]object{}
	for i := range routes {
		r := &routes[i]
		if !r.Versions.Has(version) {
			continue
		}
		path, names := pathTemplate(r.Path)
		o, err := operationOf(r, path, names, s)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.Method, r.Path, err)
		}
		item := items[path]
		item.add(strings.ToLower(r.Method), o)
		items[path] = item
	}
	var paths object
	for _, path := range slices.Sorted(keysOf(items)) {
		paths.add(path, items[path])
	}
	return paths, nil
}

func operationOf(r *route.Route, path string, names []string, s *schemas) (object, error) {
	o := object{
		{"operationId", operationID(r.Method, path)},
		{"tags", list{nounOf(r.Path)}},
		{"summary", r.Shape.About},
	}
	var parameters list
	for _, name := range names {
		parameters = append(parameters, object{
			{"name", name},
			{"in", "path"},
			{"required", true},
			{"description", s.words.textOf("/" + nounOf(r.Path) + "/" + name)},
			{"schema", object{{"type", "string"}}},
		})
	}
	for _, p := range r.Shape.Params {
		if p.Versions.Has(s.version) && p.Name != "Content-Type" { // bodies say that themselves
			parameters = append(parameters, parameterOf(p, s.version))
		}
	}
	if len(parameters) > 0 {
		o.add("parameters", parameters)
	}
	body, err := requestBody(r, s)
	if err != nil {
		return nil, err
	}
	if body != nil {
		o.add("requestBody", body)
	}
	answers, err := responsesOf(r, s)
	if err != nil {
		return nil, err
	}
	o.add("responses", answers)
	return o, nil
}

// operationID joins the method and the words of the path.
func operationID(method, path string) string {
	var id strings.Builder
	id.WriteString(strings.ToLower(method))
	for word := range strings.FieldsFuncSeq(path, func(r rune) bool { return strings.ContainsRune("/{}_.", r) }) {
		id.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return id.String()
}

func parameterOf(p route.Param, version apiver.Version) object {
	where := "query"
	if p.Header {
		where = "header"
	}
	about := p.About
	if p.Kind == route.Time { // one of many forms, which no format of a schema says
		about += ": Unix seconds with a fraction or without, a date of RFC 3339, or a duration before now such as 10m"
	}
	o := object{{"name", p.Name}, {"in", where}, {"description", about}}
	if p.Needed {
		o.add("required", true)
	}
	text := object{{"type", "string"}}
	switch {
	case p.Kind == route.Filters:
		var keys object
		for _, key := range p.Values {
			if key.Versions.Has(version) {
				keys.add(key.Name, object{{"type", "array"}, {"items", text}})
			}
		}
		schema := object{{"type", "object"}, {"properties", keys}, {"additionalProperties", false}}
		o.add("content", object{{"application/json", object{{"schema", schema}}}})
	case p.Kind == route.JSON:
		o.add("content", object{{"application/json", object{{"schema", object{}}}}})
	case p.Kind == route.Bool:
		o.add("schema", object{{"type", "boolean"}})
	case p.Kind == route.Int:
		o.add("schema", object{{"type", "integer"}, {"format", "int64"}})
	case p.Many:
		o.add("schema", object{{"type", "array"}, {"items", text}})
	default:
		o.add("schema", text)
	}
	return o
}

func requestBody(r *route.Route, s *schemas) (object, error) {
	switch {
	case !r.Shape.InVersions.Has(s.version):
		return nil, nil
	case r.Shape.In != nil:
		schema, err := s.schemaOf(r.Shape.In, true)
		return object{{"content", contentOf("application/json", schema)}}, err
	case r.Shape.InMedia != "":
		return object{{"content", contentOf(r.Shape.InMedia, bytesSchema())}}, nil
	default:
		return nil, nil
	}
}

func contentOf(mediaType string, schema object) object {
	return object{{mediaType, object{{"schema", schema}}}}
}

func bytesSchema() object { return object{{"type", "string"}, {"format", "binary"}} }

// responsesOf returns the responses by status, in their order. Every endpoint can fail for the engine's own reasons.
func responsesOf(r *route.Route, s *schemas) (object, error) {
	statuses := slices.Clone(r.Shape.Codes)
	statuses = append(statuses, http.StatusInternalServerError)
	slices.Sort(statuses)
	var o object
	for _, status := range slices.Compact(statuses) {
		answer := object{{"description", statusMeaning(status)}}
		switch {
		case status >= http.StatusBadRequest && r.Method != http.MethodHead: // an answer to HEAD has no body
			answer = object{{"$ref", "#/components/responses/Status" + strconv.Itoa(status)}}
		case status == http.StatusOK || status == http.StatusCreated:
			body, err := answerBody(r, s)
			if err != nil {
				return nil, err
			}
			if body != nil {
				answer.add("content", body)
			}
			if r.Shape.Stream {
				answer[0].value = "a sequence of these, one per line"
			}
		}
		o.add(strconv.Itoa(status), answer)
	}
	return o, nil
}

// sharedRefusals returns the answers that all endpoints share, by status.
func sharedRefusals(routes []route.Route) object {
	statuses := []int{http.StatusInternalServerError}
	for _, r := range routes {
		for _, status := range r.Shape.Codes {
			if status >= http.StatusBadRequest {
				statuses = append(statuses, status)
			}
		}
	}
	slices.Sort(statuses)
	var o object
	for _, status := range slices.Compact(statuses) {
		o.add("Status"+strconv.Itoa(status), object{
			{"description", statusMeaning(status)},
			{"content", contentOf("application/json", object{{"$ref", "#/components/schemas/Error"}})},
		})
	}
	return o
}

func answerBody(r *route.Route, s *schemas) (object, error) {
	switch {
	case r.Shape.Out != nil:
		schema, err := s.schemaOf(r.Shape.Out, false)
		return contentOf("application/json", notNull(schema)), err
	case r.Shape.OutMedia == "":
		return nil, nil
	case strings.HasPrefix(r.Shape.OutMedia, "text/"):
		return contentOf(r.Shape.OutMedia, object{{"type", "string"}}), nil
	default:
		return contentOf(r.Shape.OutMedia, bytesSchema()), nil
	}
}

// statusMeaning says in general what a status tells.
func statusMeaning(status int) string {
	switch status {
	case http.StatusSwitchingProtocols:
		return "the connection is taken over"
	case http.StatusOK:
		return "as asked for"
	case http.StatusCreated:
		return "it was made"
	case http.StatusNoContent:
		return "done"
	case http.StatusNotModified:
		return "it is so already"
	case http.StatusBadRequest:
		return "a parameter, a header or the body is wrong"
	case http.StatusUnauthorized:
		return "the registry wants other credentials"
	case http.StatusForbidden:
		return "it is not allowed"
	case http.StatusNotFound:
		return "it is not there"
	case http.StatusNotAcceptable:
		return "it is not possible here"
	case http.StatusConflict:
		return "it is not possible in this state"
	case http.StatusNotImplemented:
		return "moss does not have it"
	case http.StatusServiceUnavailable:
		return "it is not possible at the moment"
	default:
		return "the engine has failed"
	}
}
