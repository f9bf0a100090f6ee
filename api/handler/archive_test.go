package handler_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"moss/api/handler"
	"moss/api/route"
	"moss/engine/archive"
	"moss/engine/container"
	"moss/engine/fault"
)

// files is a fake that records calls.
type files struct {
	said    string
	err     error
	changes []container.Change
}

func (f *files) Stat(_ context.Context, ref, path string) (archive.Stat, error) {
	f.said = fmt.Sprintf("stat %s %s", ref, path)
	return archive.Stat{Name: "a", Size: 5, Mode: fs.ModeDir | 0o755, ModTime: time.Unix(1e9, 0).UTC(), LinkTarget: "/b"}, f.err
}

func (f *files) Open(_ context.Context, ref, path string) (*archive.Download, error) {
	f.said = fmt.Sprintf("open %s %s", ref, path)
	return nil, f.err
}

func (f *files) OpenCopy(_ context.Context, ref, path string) (*archive.Download, error) {
	f.said = fmt.Sprintf("copy %s %s", ref, path)
	return nil, f.err
}

func (f *files) OpenExport(_ context.Context, ref string) (*archive.Download, error) {
	f.said = "export " + ref
	return nil, f.err
}

func (f *files) Unpack(_ context.Context, ref, path string, src io.Reader, opt archive.UnpackOptions) error {
	raw, err := io.ReadAll(src)
	f.said = fmt.Sprintf("unpack %s %s %q %v %v", ref, path, raw, opt.NoOverwriteDirNonDir, err)
	return f.err
}

func (f *files) Changes(_ context.Context, ref string) ([]container.Change, error) {
	f.said = "changes " + ref
	return f.changes, f.err
}

func TestArchive(t *testing.T) {
	const (
		change   = `[{"Path":"/a","Kind":1}]`
		jsonBody = "application/json"
	)
	missing, refused := fault.NotFound("none"), fault.Forbidden("read-only")
	for _, tc := range []struct {
		method, path, body string
		err                error
		status             int
		said, answer       string // parts
	}{
		{"HEAD", "/v1.20/containers/web/archive?path=/a", "", nil, 200, "stat web /a", ""},
		{"HEAD", "/v1.19/containers/web/archive?path=/a", "", nil, 404, "", ""},
		{"HEAD", "/v1.24/containers/web/archive?path=/a", "", missing, 404, "stat", ""},
		{"GET", "/v1.24/containers/web/archive?path=a%20b%2Bc", "", missing, 404, "open web a b+c", `{"message":"none"}`},
		{"PUT", "/v1.24/containers/web/archive?path=/d", "tar", nil, 200, `unpack web /d "tar" false <nil>`, ""},
		{"PUT", "/v1.24/containers/web/archive?path=/d&noOverwriteDirNonDir=True", "x", nil, 200, `"x" true`, ""},
		{"PUT", "/v1.24/containers/web/archive?path=/d&noOverwriteDirNonDir=false", "x", nil, 200, `"x" false`, ""},
		{"PUT", "/v1.24/containers/web/archive?path=/d", "x", refused, 403, "unpack", "read-only"},
		{"POST", "/v1.18/containers/web/copy", `{"Resource":"/r"}`, missing, 404, "copy web /r", "none"},
		{"POST", "/v1.23/containers/web/copy", `{"Resource":"/r"}`, fault.Invalid("bad"), 500, "copy", "bad"},
		{"POST", "/v1.23/containers/web/copy", `{}`, nil, 500, "", "Path cannot be empty"},
		{"POST", "/v1.23/containers/web/copy", `{"Resource":7}`, nil, 400, "", "Resource"},
		{"POST", "/v1.24/containers/web/copy", `{"Resource":"/r"}`, missing, 404, "copy web /r", "none"},
		{"GET", "/v1.18/containers/web/export", "", missing, 404, "export web", "none"},
		{"GET", "/v1.18/containers/web/changes", "", nil, 200, "changes web", change},
		{"GET", "/v1.24/containers/web/changes", "", missing, 404, "changes web", "none"},
	} {
		f := &files{err: tc.err, changes: []container.Change{{Path: "/a", Kind: container.ChangeAdded}}}
		h := handler.New(handler.Services{Archive: f, Changes: f})
		r := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, strings.NewReader(tc.body))
		r.Header.Set("Content-Type", jsonBody)
		w := httptest.NewRecorder()
		route.New(h.Routes(), route.Options{Log: zerolog.Nop()}).ServeHTTP(w, r)
		if w.Code != tc.status || !strings.Contains(f.said, tc.said) || !strings.Contains(w.Body.String(), tc.answer) {
			t.Errorf("%s %s = %d %q and said %q, want %d %q and %q",
				tc.method, tc.path, w.Code, w.Body, f.said, tc.status, tc.answer, tc.said)
		}
		if tc.method == http.MethodHead && tc.status == http.StatusOK {
			const want = "eyJuYW1lIjoiYSIsInNpemUiOjUsIm1vZGUiOjIxNDc0ODQxNDEsIm10aW1lIjoiMjAwMS0wOS0wOVQwMTo0Njo0MFoiLCJsaW5rVGFyZ2V0IjoiL2IifQ=="
			for _, name := range []string{"X-Engine-Container-Path-Stat", "X-Docker-Container-Path-Stat"} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
		}
	}
	f := &files{}
	h := handler.New(handler.Services{Archive: f, Changes: f})
	w := httptest.NewRecorder()
	route.New(h.Routes(), route.Options{Log: zerolog.Nop()}).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1.24/containers/web/changes", http.NoBody))
	if got := strings.TrimSpace(w.Body.String()); got != "[]" {
		t.Errorf("no changes are %q, want an empty list", got)
	}
}
