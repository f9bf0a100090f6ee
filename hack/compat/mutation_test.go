package main

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/api/apiver"
	"moss/api/route"
	"moss/api/types"
)

// theList reads the list of this repository.
func theList(t *testing.T) []item {
	t.Helper()
	return itemsOf(t, filepath.Join("..", ".."))
}

// changed returns the list with one item made another one; nil takes it out.
func changed(t *testing.T, items []item, name string, change func(*item)) []item {
	t.Helper()
	n := slices.IndexFunc(items, func(i item) bool { return i.name == name })
	if n < 0 {
		t.Fatalf("%s is not in the list", name)
	}
	items = slices.Clone(items)
	if change == nil {
		return slices.Delete(items, n, n+1)
	}
	change(&items[n])
	return items
}

func versionsOf(t *testing.T, s string) func(*item) {
	t.Helper()
	r, err := parseVersions(s)
	if err != nil {
		t.Fatal(err)
	}
	return func(i *item) { i.versions = r }
}

func kindOf(s string) func(*item) { return func(i *item) { i.kind = s } }

func noteOf(s string) func(*item) { return func(i *item) { i.note = s } }

// findings holds a list against the code as it is.
func findings(items []item, table []route.Route) string {
	return strings.Join(slices.Concat(checkShapes(items), checkUnlisted(items), checkRoutes(items, table)), "\n")
}

// TestEveryDifferenceIsFound changes the list in every way in which the code may differ from it.
func TestEveryDifferenceIsFound(t *testing.T) {
	items := theList(t)
	if got := findings(items, servedRoutes()); got != "" {
		t.Fatalf("the list as it is: got %s", got)
	}
	for _, tc := range []struct {
		name   string
		change func(*item)
		want   string
	}{
		{"list.Id", nil, "list.Id: types.ContainerSummary has it, not in the list"},
		{"list.Ports.Type", nil, "list.Ports.Type: types.ContainerSummary has it, not in the list"},
		{"list.Ports", nil, "list.Ports: types.ContainerSummary has it, not in the list"},
		{"create.Hostname", nil, "create.Hostname: types.ContainerCreate has it, not in the list"},
		{"host.Mounts.BindOptions.NonRecursive", nil, "not in the list"},
		{"list.Id", func(i *item) { i.name = "list.Id2" }, "list.Id2: types.ContainerSummary has no such field"},
		{"list.Id", kindOf("int"), "list.Id: types.ContainerSummary has it as string, listed: int"},
		{"list.Labels", kindOf("map of int"), "has it as map of string, listed: map of int"},
		{"create.Cmd", kindOf("array of string"), "has it as string or array of string, listed: array of string"},
		{"create.StopSignal", kindOf("string"), "has it as string or int, listed: string"},
		{"host.LxcConf", noteOf(""), "listed: map of string"},
		{"list.ImageID", versionsOf(t, "all"), "list.ImageID: at 1.20 types.ContainerSummary has it: false, listed: true"},
		{"list.ImageID", versionsOf(t, "1.22-"), "list.ImageID: at 1.21 types.ContainerSummary has it: true, listed: false"},
		{"inspect.ExecDriver", versionsOf(t, "all"), "at 1.23 types.ContainerInspect has it: false, listed: true"},
		{"image.Config", noteOf(""), "image.Config: at 1.18"},
		{"image.RootFS.Type", versionsOf(t, "all"), "image.RootFS.Type: at 1.18"},
		{"GET /info", nil, "GET /info: the route has it, not in the list"},
		{"GET /info", func(i *item) { i.name = "GET /infos" }, "GET /infos: no route has it"},
		{"GET /info", kindOf("endpoint: -> version"), "GET /info: the route has it as endpoint: -> info, listed: endpoint: -> version"},
		{"POST /containers/create", kindOf("endpoint: -> created"), "as endpoint: create -> created"},
		{"POST /containers/{id}/update", versionsOf(t, "all"), "POST /containers/{id}/update: served at 1.18: false, listed: true"},
		{"POST /containers/{id}/update", versionsOf(t, "1.24-"), "POST /containers/{id}/update: served at 1.22: true, listed: false"},
		{"GET /containers/{id}/json ?size", nil, "?size: the route has it, not in the list"},
		{"GET /containers/{id}/json ?size", func(i *item) { i.name += "s" }, "?sizes: no route has it"},
		{"GET /containers/{id}/json ?size", kindOf("int"), "?size: the route has it as bool, listed: int"},
		{"GET /containers/{id}/json ?size", versionsOf(t, "all"), "?size: served at 1.20: false, listed: true"},
		{"GET /containers/{id}/json ?size", versionsOf(t, "1.22-"), "?size: served at 1.21: true, listed: false"},
		{"GET /containers/json ?filters=ancestor", nil, "?filters=ancestor: the route has it, not in the list"},
		{"GET /containers/json ?filters=ancestor", versionsOf(t, "all"), "?filters=ancestor: served at 1.18: false, listed: true"},
		{"GET /containers/json ?filters=ancestor", func(i *item) { i.name += "s" }, "?filters=ancestors: no route has it"},
		{"POST /images/create X-Registry-Auth", nil, "X-Registry-Auth: the route has it, not in the list"},
		{"POST /images/create X-Registry-Auth", func(i *item) { i.name += "s" }, "X-Registry-Auths: no route has it"},
		{"any endpoint Content-Type", nil, "Content-Type: the route has it, not in the list"},
		{"PUT /containers/{id}/archive 403", func(i *item) { i.name = "PUT /containers/{id}/archive 418" }, "418: no route has it"},
		{"GET /containers/{id}/logs 101", nil, "GET /containers/{id}/logs 101: answered, not in the list"},
		{"any endpoint 401", nil, "401: answered, not in the list"},
		{"GET /containers/{id}/attach/ws 200", noteOf(""), "GET /containers/{id}/attach/ws 200: no route has it"},
		{"taskspec.Networks", kindOf("array of object"), "has it as array of string or object, listed: array of object"},
		{"servicespec.Networks", noteOf(""), "has it as array of string or object, listed: array of string"},
		{"POST /swarm/init", kindOf("endpoint: swarminit"), "has it as endpoint: swarminit -> string, listed: endpoint: swarminit"},
		{"GET /events ?since", noteOf(isNever), "GET /events ?since: a route has it, listed as never there"},
	} {
		if got := findings(changed(t, items, tc.name, tc.change), servedRoutes()); !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestEveryVersionIsCompared changes what the list says of 1.19 and 1.23, which the documents do not describe.
func TestEveryVersionIsCompared(t *testing.T) {
	items := theList(t)
	for _, tc := range []struct{ name, versions, want string }{
		{"inspect.Volumes", "-1.18", "inspect.Volumes: at 1.19 types.ContainerInspect has it: true, listed: false"},
		{"stats.precpu_stats", "1.19-", "stats.precpu_stats: at 1.19 types.Stats has it: false, listed: true"},
		{"update.RestartPolicy", "1.24-", "update.RestartPolicy: at 1.23 types.ContainerUpdate has it: true, listed: false"},
		{"list.State", "1.23-", "list.State: at 1.23 types.ContainerSummary has it: false, listed: true"},
		{"GET /containers/{id}/logs ?since", "1.19-", "?since: served at 1.19: false, listed: true"},
		{"GET /containers/json ?filters=ancestor", "1.23-", "?filters=ancestor: served at 1.23: false, listed: true"},
	} {
		if got := findings(changed(t, items, tc.name, versionsOf(t, tc.versions)), servedRoutes()); !strings.HasSuffix(got, tc.want) || strings.Contains(got, "\n") {
			t.Errorf("%s %s: got %q, want %q", tc.name, tc.versions, got, tc.want)
		}
	}
}

// TestEveryDifferenceOfRoutesIsFound changes a table of routes instead.
func TestEveryDifferenceOfRoutesIsFound(t *testing.T) {
	const rest = "\t\t\t\n"
	list, err := readItems(writeList(t, strings.Join([]string{
		"GET /a/{id}\t1.20-\tendpoint: -> wait", "GET /a/{id} 200\t1.20-\tstatus", "GET /a/{id} ?q\t1.22-\tbool",
		"GET /a/{id} X-H\t1.20-\theader", "GET /a/{id} ?filters\t1.20-\tfilters", "GET /a/{id} ?filters=k\t1.24-\tfilter", "",
	}, rest)))
	if err != nil {
		t.Fatal(err)
	}
	good := func() route.Route {
		return route.Route{
			Method: "GET", Path: "/a/:id", Versions: apiver.Range{Since: apiver.New(1, 20)},
			Shape: route.Shape{
				Out: reflect.TypeFor[types.ContainerWaited](), Codes: []int{200},
				Params: []route.Param{
					{Name: "q", Kind: route.Bool, Versions: apiver.Range{Since: apiver.New(1, 22)}},
					{Name: "X-H", Kind: route.Text, Header: true},
					{Name: "filters", Kind: route.Filters, Values: []route.Value{{Name: "k", Versions: apiver.Range{Since: apiver.New(1, 24)}}}},
				},
			},
		}
	}
	for name, tc := range map[string]struct {
		change func(r *route.Route)
		want   string
	}{
		"none":              {func(*route.Route) {}, ""},
		"a version less":    {func(r *route.Route) { r.Versions.Since++ }, "GET /a/{id}: served at 1.20: false, listed: true"},
		"a version more":    {func(r *route.Route) { r.Versions.Since-- }, "GET /a/{id}: served at 1.19: true, listed: false"},
		"another record":    {func(r *route.Route) { r.Shape.Out = reflect.TypeFor[types.Top]() }, "has it as endpoint: -> top, listed: endpoint: -> wait"},
		"a list of it":      {func(r *route.Route) { r.Shape.Out = reflect.TypeFor[[]types.ContainerWaited]() }, "endpoint: -> array of wait"},
		"a stream of it":    {func(r *route.Route) { r.Shape.Stream = true }, "endpoint: -> stream of wait"},
		"an unknown record": {func(r *route.Route) { r.Shape.Out = reflect.TypeFor[time.Time]() }, "endpoint: -> unknown"},
		"a body":            {func(r *route.Route) { r.Shape.In = reflect.TypeFor[types.Config]() }, "endpoint: create -> wait"},
		"a parameter less":  {func(r *route.Route) { r.Shape.Params = r.Shape.Params[1:] }, "GET /a/{id} ?q: no route has it"},
		"a parameter more": {
			func(r *route.Route) { r.Shape.Params = append(r.Shape.Params, route.Param{Name: "n", Kind: route.Int}) },
			"GET /a/{id} ?n: the route has it, not in the list",
		},
		"another kind":     {func(r *route.Route) { r.Shape.Params[0].Kind = route.Int }, "?q: the route has it as int, listed: bool"},
		"it comes earlier": {func(r *route.Route) { r.Shape.Params[0].Versions.Since-- }, "?q: served at 1.21: true, listed: false"},
		"it goes again":    {func(r *route.Route) { r.Shape.Params[0].Versions.Until = apiver.New(1, 23) }, "?q: served at 1.24: false, listed: true"},
		"no header":        {func(r *route.Route) { r.Shape.Params[1].Header = false }, "GET /a/{id} X-H: no route has it"},
		"a key more": {func(r *route.Route) {
			r.Shape.Params[2].Values = append(r.Shape.Params[2].Values, route.Value{Name: "l"})
		}, "?filters=l: the route has it, not in the list"},
		"a key less":    {func(r *route.Route) { r.Shape.Params[2].Values = nil }, "?filters=k: no route has it"},
		"a key for all": {func(r *route.Route) { r.Shape.Params[2].Values[0].Versions = apiver.Range{} }, "?filters=k: served at 1.20: true, listed: false"},
		"a status less": {func(r *route.Route) { r.Shape.Codes = nil }, "GET /a/{id} 200: no route has it"},
		"a status more": {func(r *route.Route) { r.Shape.Codes = append(r.Shape.Codes, 418) }, "GET /a/{id} 418: answered, not in the list"},
	} {
		r := good()
		tc.change(&r)
		got := strings.Join(checkRoutes(list, []route.Route{r}), "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

type secretive struct{ A string }

func (secretive) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

type picky struct{ A string }

func (*picky) UnmarshalJSON([]byte) error { return nil }

func TestFormOf(t *testing.T) {
	for _, tc := range []struct {
		value any
		want  string
	}{
		{"", "string"},
		{true, "bool"},
		{uint16(1), "int"},
		{new(int64), "int"},
		{time.Time{}, "time"},
		{time.Second, "int"},
		{json.RawMessage{}, "any"},
		{[]any{}, "array of any"},
		{map[string][]struct{}{}, "map of array of object"},
		{[2]uint{}, "array of int"},
		{secretive{}, unknownForm}, // what encodes itself must be declared
		{picky{}, unknownForm},
		{func() {}, unknownForm},
		{1.5, unknownForm},
	} {
		if got := formOf(reflect.TypeOf(tc.value)); got != tc.want {
			t.Errorf("formOf(%T) = %q, want %q", tc.value, got, tc.want)
		}
	}
	if isWider("string", "string") || !isWider("string or int", "int") || isWider("string or int", "bool") {
		t.Error("isWider does not look at the alternatives")
	}
}
