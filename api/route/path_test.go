package route

import (
	"net/url"
	"strings"
	"testing"

	"moss/api/apiver"
	"moss/engine/fault"
)

var all = apiver.Range{Since: apiver.Min, Until: apiver.Max}

func TestSplitVersion(t *testing.T) {
	for _, tc := range []struct {
		in, rest, fails string
		version         apiver.Version
	}{
		{in: "/v1.18/info", rest: "/info", version: apiver.Min},
		{in: "/v1.51/containers/json", rest: "/containers/json", version: apiver.Max},
		{in: "/v1.19/info", rest: "/info", version: apiver.New(1, 19)},
		{in: "/info", rest: "/info", version: apiver.Max},
		{in: "/volumes", rest: "/volumes", version: apiver.Max},
		{in: "/version", rest: "/version", version: apiver.Max},
		{in: "/", rest: "/", version: apiver.Max},
		{in: "/v1.51", rest: "/", version: apiver.Max},
		{in: "//v1.19//info/", rest: "//info/", version: apiver.New(1, 19)},
		{in: "/v1.19/", rest: "/", version: apiver.New(1, 19)},
		{in: "/v1.52/info", fails: "client is newer than server (client API version: 1.52, server API version: 1.51)", version: apiver.New(1, 52)},
		{in: "/v2.0/info", fails: "DOCKER_API_VERSION=1.51", version: apiver.New(2, 0)},
		{in: "/v1.17/info", fails: "client version 1.17 is too old. Minimum supported API version is 1.18", version: apiver.New(1, 17)},
		{in: "/v1.x/info", fails: `invalid API version "v1.x"`, version: apiver.Max},
		{in: "/v1/info", fails: `invalid API version "v1"`, version: apiver.Max},
	} {
		version, rest, err := splitVersion(tc.in, all)
		if version != tc.version || rest != tc.rest || (err != nil) != (tc.fails != "") {
			t.Errorf("splitVersion(%q) = %v, %q, %v, want %v, %q, %q", tc.in, version, rest, err, tc.version, tc.rest, tc.fails)
		}
		if err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.fails)) {
			t.Errorf("splitVersion(%q) = %v, want an invalid fault with %q", tc.in, err, tc.fails)
		}
	}
}

func TestFold(t *testing.T) {
	for _, tc := range []struct{ method, in, want string }{
		{"GET", "/images/json", "/images/json"},
		{"GET", "/images/busybox/json", "/images/busybox/json"},
		{"GET", "/images/a/b/json", "/images/a%2Fb/json"},
		{"GET", "/distribution/h:5/a/b:t/json", "/distribution/h:5%2Fa%2Fb:t/json"},
		{"GET", "/images/127.0.0.1:5000/a/b:t/json", "/images/127.0.0.1:5000%2Fa%2Fb:t/json"},
		{"GET", "/images/a%2Fb/c/json", "/images/a%2Fb%2Fc/json"},
		{"GET", "/images/json/json", "/images/json/json"},
		{"GET", "/images/a/get", "/images/a/get"},
		{"GET", "/images/a/b/history", "/images/a%2Fb/history"},
		{"POST", "/images/127.0.0.1:5000/a/b:t/push", "/images/127.0.0.1:5000%2Fa%2Fb:t/push"},
		{"POST", "/images/a/b/tag", "/images/a%2Fb/tag"},
		{"POST", "/images/a/json", "/images/a/json"},
		{"GET", "/images/a/b", "/images/a/b"},
		{"DELETE", "/images/a/b/json", "/images/a%2Fb%2Fjson"},
		{"DELETE", "/images/a", "/images/a"},
		{"DELETE", "/containers/web/db", "/containers/web%2Fdb"},
		{"DELETE", "/containers/web/checkpoints", "/containers/web%2Fcheckpoints"},
		{"DELETE", "/containers/web/checkpoints/c", "/containers/web/checkpoints/c"},
		{"GET", "/plugins/privileges", "/plugins/privileges"},
		{"GET", "/plugins/a/b:t/json", "/plugins/a%2Fb:t/json"},
		{"POST", "/plugins/a/b/enable", "/plugins/a%2Fb/enable"},
		{"DELETE", "/plugins/a/b", "/plugins/a%2Fb"},
		{"GET", "/containers//foo/json", "/containers/foo/json"},
		{"POST", "/containers/foo/start/", "/containers/foo/start"},
		{"GET", "/containers/a/attach/ws", "/containers/a/attach/ws"},
		{"GET", "/volumes/a/b", "/volumes/a%2Fb"},
		{"GET", "//info", "/info"},
		{"GET", "/", "/"},
		{"GET", "", "/"},
	} {
		if got := foldPath(tc.method, tc.in); got != tc.want {
			t.Errorf("fold(%s, %q) = %q, want %q", tc.method, tc.in, got, tc.want)
		}
	}
}

func TestConfiguredVersions(t *testing.T) {
	some := apiver.Range{Since: apiver.New(1, 20), Until: apiver.New(1, 22)}
	for _, tc := range []struct {
		in, fails string
		version   apiver.Version
	}{
		{in: "/info", version: apiver.New(1, 22)},
		{in: "/v1.20/info", version: apiver.New(1, 20)},
		{in: "/v1.19/info", fails: "Minimum supported API version is 1.20", version: apiver.New(1, 19)},
		{in: "/v1.19/info", fails: "This engine serves 1.20 to 1.22", version: apiver.New(1, 19)},
		{in: "/v1.24/info", fails: "(client API version: 1.24, server API version: 1.22)", version: apiver.New(1, 24)},
		{in: "/v1.24/info", fails: "Maximum supported API version is 1.22. This engine serves 1.20 to 1.22: set DOCKER_API_VERSION=1.22", version: apiver.New(1, 24)},
	} {
		version, _, err := splitVersion(tc.in, some)
		if version != tc.version || (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
			t.Errorf("splitVersion(%q) of 1.20 to 1.22 = %v, %v, want %v, %q", tc.in, version, err, tc.version, tc.fails)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, path string
		want          bool
	}{
		{"/info", "/info", true},
		{"/info", "/infos", false},
		{"/info", "/info/x", false},
		{"/info", "/", false},
		{"/images/:name/json", "/images/a%2Fb/json", true},
		{"/images/:name/json", "/images/a/b/json", false},
		{"/images/:name", "/images/json", true},
		{"/images/:name", "/images/", false},
		{"/images/:name", "/images", false},
	} {
		if got := matchesPattern(tc.pattern, tc.path); got != tc.want {
			t.Errorf("matches(%q, %q) = %v, want %v", tc.pattern, tc.path, got, tc.want)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"/v1.24/images/a/b/json", "/v9.9/info", "/containers//x/json", "/images/%2F%2f/json", "//", "*", "/v1./%zz"} {
		f.Add("GET", s)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		version, rest, err := splitVersion(path, all)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("splitVersion(%q) = %v, want an invalid fault", path, err)
			}
			return
		}
		for _, pattern := range []string{"/images/:name", "/containers/:id/json", "/info"} {
			matchesPattern(pattern, foldPath(method, rest))
		}
		if version < apiver.Min || version > apiver.Max {
			t.Fatalf("splitVersion(%q) = %v, outside what is served", path, version)
		}
		folded := foldPath(method, rest)
		if !strings.HasPrefix(folded, "/") || strings.Contains(folded, "//") {
			t.Fatalf("fold(%q) = %q", rest, folded)
		}
		// Folding moves no bytes: unescaped, nothing but the doubled slashes is gone.
		before, errBefore := url.PathUnescape(rest)
		after, errAfter := url.PathUnescape(folded)
		if (errBefore == nil) != (errAfter == nil) || strings.ReplaceAll(before, "/", "") != strings.ReplaceAll(after, "/", "") {
			t.Fatalf("fold(%q) = %q: %v, %v", rest, folded, errBefore, errAfter)
		}
		if again := foldPath(method, folded); again != folded {
			t.Fatalf("folded twice: %q, %q", folded, again)
		}
	})
}
