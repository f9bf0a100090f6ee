package handler_test

import (
	"net/http"
	"strings"
	"testing"

	"moss/api/apiver"
	"moss/api/handler"
	"moss/api/route"
)

// TestRoutesAreDescribed holds each row of the table against the rules that its readers rely on.
func TestRoutesAreDescribed(t *testing.T) {
	for _, r := range handler.New(handler.Services{}).Routes() {
		s, name := r.Shape, r.Method+" "+r.Path
		if s.About == "" || len(s.Codes) == 0 {
			t.Errorf("%s: no words or no statuses", name)
		}
		seen := map[int]bool{}
		for _, code := range s.Codes {
			if http.StatusText(code) == "" || seen[code] || code == http.StatusInternalServerError {
				t.Errorf("%s: status %d is none, is there twice, or is every route's", name, code)
			}
			seen[code] = true
		}
		if s.Stream && s.Out == nil {
			t.Errorf("%s: a stream of nothing", name)
		}
		if (s.Out != nil || s.OutMedia != "") && !seen[200] && !seen[201] {
			t.Errorf("%s: an answer without a status for it", name)
		}
		if (s.In != nil || s.InMedia != "") && r.Method != http.MethodPost && r.Method != http.MethodPut {
			t.Errorf("%s: a body", name)
		}
		names := map[string]bool{}
		for _, p := range s.Params {
			if names[p.Name] || p.About == "" || p.Kind == "" {
				t.Errorf("%s: parameter %q is there twice, or lacks words or a kind", name, p.Name)
			}
			names[p.Name] = true
			if p.Header && http.CanonicalHeaderKey(p.Name) != p.Name && !strings.HasPrefix(p.Name, "Sec-WebSocket-") {
				t.Errorf("%s: header %s is not written as it is sent", name, p.Name)
			}
			if (p.Kind == route.Filters) != (len(p.Values) > 0) {
				t.Errorf("%s: parameter %s is of filters and has no keys, or the reverse", name, p.Name)
			}
			if p.Versions.Until != 0 && p.Versions.Until < apiver.Min || p.Versions.Since > apiver.Max {
				t.Errorf("%s: no version has the parameter %s", name, p.Name)
			}
		}
	}
}
