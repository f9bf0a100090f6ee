package route_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"moss/api/apiver"
	"moss/api/route"
)

// TestDeclared asks a route that reads a parameter of each range: one of another version is missing, a filter of another
// version is refused, and what is not declared is read as it came.
func TestDeclared(t *testing.T) {
	at20, at22 := apiver.New(1, 20), apiver.New(1, 22)
	var seen string
	server := serve(t, io.Discard, route.Route{
		Method: "GET", Path: "/x",
		Shape: route.Shape{Params: []route.Param{
			{Name: "always", Kind: route.Text},
			route.Param{Name: "late", Kind: route.Bool}.Since(at22),
			route.Param{Name: "early", Kind: route.Int}.Until(at20),
			{Name: "filters", Kind: route.Filters, Values: []route.Value{
				{Name: "old"}, {Name: "new", Versions: apiver.Range{Since: at22}},
			}},
			{Name: "X-Always", Header: true},
			route.Param{Name: "X-Late", Header: true}.Since(at22),
		}},
		Do: func(c *route.Call) error {
			n, err := c.Int("early", 7)
			if err != nil {
				return err
			}
			filters, err := c.Filters()
			if err != nil {
				return err
			}
			seen = fmt.Sprintf("%s %t,%t %d %v %s %s %s%s %v", c.Text("always"), c.Has("late"), c.Bool("late"), n, c.Texts("late"),
				c.Text("undeclared"), c.Header("X-Undeclared"), c.Header("X-Always"), c.Header("X-Late"), filters)
			return c.NoContent(nil)
		},
	})
	const query = "always=a&late=1&late=2&early=3&undeclared=u"
	for _, tc := range []struct {
		version, query, want string
		status               int
	}{
		{"1.24", query, "a true,true 7 [1 2] u h ab map[]", 204},
		{"1.22", query, "a true,true 7 [1 2] u h ab map[]", 204},
		{"1.21", query, "a false,false 7 [] u h a map[]", 204},
		{"1.18", query, "a false,false 3 [] u h a map[]", 204},
		{"1.18", "early=x", `invalid value for early: got "x", want an integer` + "\n", 400},
		{"1.22", "early=x", " false,false 7 []  h ab map[]", 204},
		{"1.22", "filters=" + url.QueryEscape(`{"old":["1"],"new":["2"]}`), " false,false 7 []  h ab map[new:[2] old:[1]]", 204},
		{"1.20", "filters=" + url.QueryEscape(`{"old":["1"],"new":["2"]}`), "Invalid filter 'new' at version 1.20: it is there from 1.22 on\n", 400},
		{"1.20", "filters=" + url.QueryEscape(`{"new":[],"other":["3"]}`), " false,false 7 []  h a map[new:[] other:[3]]", 204},
	} {
		seen = ""
		got := ask(t, server, http.MethodGet, "/v"+tc.version+"/x?"+tc.query, "", "X-Always", "a", "X-Late", "b", "X-Undeclared", "h")
		if seen == "" {
			seen = got.body
		}
		if got.status != tc.status || seen != tc.want {
			t.Errorf("%s ?%s = %d %q, want %d %q", tc.version, tc.query, got.status, seen, tc.status, tc.want)
		}
	}
}
