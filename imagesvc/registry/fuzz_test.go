package registry

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"moss/engine/image"
)

// FuzzAnswer reads any answer that tells of an error: its words have to be short, printable and free of queries.
func FuzzAnswer(f *testing.F) {
	f.Add(403, []byte(`{"errors": [{"code": "DENIED", "message": "no https://u:p@h/x?sig=1"}]}`), "")
	f.Add(429, []byte(`{"details": "x"}`), "3600")
	f.Add(404, []byte("<html>"), "Wed, 21 Oct 2099 07:28:00 GMT")
	f.Fuzz(func(t *testing.T, status int, body []byte, after string) {
		res := &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(body)), Header: http.Header{"Retry-After": {after}}}
		words := readError(res).describeTrouble()
		if len(words) > 1100 || !utf8.ValidString(words) || strings.ContainsAny(words, "\n\x1b\x00") || strings.Contains(words, "://u:p@") {
			t.Errorf("%q", words)
		}
		if wait := retryAfter(res); wait < 0 {
			t.Errorf("wait %s", wait)
		}
	})
}

// FuzzNextPage follows any Link header: only to a path of the same API.
func FuzzNextPage(f *testing.F) {
	f.Add(`</v2/a/tags/list?last=x&n=1>; rel="next"`)
	f.Add(`<http://elsewhere/v2/x>`)
	f.Add(`<//elsewhere/v2/..%2f>`)
	base, _ := url.Parse("https://reg.example/v2/a/tags/list")
	f.Fuzz(func(t *testing.T, link string) {
		res := &http.Response{Header: http.Header{"Link": {link}}, Request: &http.Request{URL: base}}
		next := nextPage(res)
		if next == "" {
			return
		}
		if !strings.HasPrefix(next, "/v2/") {
			t.Errorf("%q leads to %q", link, next)
		}
		if u, err := url.Parse("https://reg.example" + next); err != nil || u.Host != "reg.example" {
			t.Errorf("%q leads to %q: %v", link, next, err)
		}
	})
}

// FuzzContentRange reads any header into a part that lies inside the whole.
func FuzzContentRange(f *testing.F) {
	f.Add("bytes 0-9/10")
	f.Add("bytes 5-5/*")
	f.Add("bytes 18446744073709551615-0/-1")
	f.Fuzz(func(t *testing.T, text string) {
		part, whole, ok := contentRange(http.Header{"Content-Range": {text}})
		if ok && (part.Length == 0 || part.Offset+part.Length < part.Offset || whole < -1 || (whole >= 0 && part.Offset+part.Length > uint64(whole))) {
			t.Errorf("%q: %+v of %d", text, part, whole)
		}
	})
}

// FuzzSettings reads any mirror and any insecure registry; what is accepted is the host of an image's name.
func FuzzSettings(f *testing.F) {
	f.Add("https://mirror.example:5000/")
	f.Add("lan")
	f.Add("[fd00::1]:5000")
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := parseMirror(text); err == nil {
			if ref, err := image.ParseRef(m.host + "/a/b:v"); err != nil || ref.Domain() != m.host {
				t.Errorf("mirror %q: %v, %v", text, ref, err)
			}
		}
		_, _ = parseInsecure(text)
		host, _ := splitTerm(text)
		_ = isFor(text, host)
	})
}
