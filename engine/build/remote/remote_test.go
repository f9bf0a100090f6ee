package remote

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/build/source"
	"moss/engine/fault"
)

const dockerfile = "FROM busybox\nRUN true # ünïcode\n"

// context is an archive of a context.
func contextOf(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(dockerfile))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, dockerfile); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// site serves contexts and what is none.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	raw := contextOf(t)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	send := func(kind string, content []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Last-Modified", "Sun, 09 Sep 2001 01:46:40 GMT")
			_, _ = w.Write(content)
		}
	}
	mux.HandleFunc("/a.tar", send("application/x-tar", raw))
	mux.HandleFunc("/a.tar.gz", send("application/octet-stream", packed.Bytes()))
	mux.HandleFunc("/says-text.tar", send("text/plain; charset=utf-8", raw))
	mux.HandleFunc("/Dockerfile", send("text/plain; charset=utf-8", []byte(dockerfile)))
	mux.HandleFunc("/octets", send("application/octet-stream", []byte(dockerfile)))
	mux.HandleFunc("/long", send("text/plain", []byte(strings.Repeat("# comment\n", 200_000))))
	mux.HandleFunc("/empty", send("text/plain", nil))
	mux.HandleFunc("/cut.tar", send("application/x-tar", raw[:520]))
	mux.HandleFunc("/noise", send("application/x-tar", bytes.Repeat([]byte{0xff, 0}, 2000)))
	mux.HandleFunc("/gone", http.NotFound)
	mux.HandleFunc("/named", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="../../etc/passwd"`)
		_, _ = io.WriteString(w, "x")
	})
	mux.HandleFunc("/{$}", send("text/plain", []byte("x")))
	mux.HandleFunc("/once", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/Dockerfile", http.StatusFound) })
	mux.HandleFunc("/local", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 1<<20)
		copy(piece, raw[:512])
		copy(piece[124:], "77777777777\x00")
		fix(piece[:512])
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
			clear(piece[:512])
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

// fix makes a header's checksum right.
func fix(h []byte) {
	copy(h[148:156], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	for i := range 6 {
		h[148+5-i] = byte('0' + sum>>(3*i)&7)
	}
	h[154], h[155] = 0, ' '
}

func options(t *testing.T) Options {
	t.Helper()
	return Options{Source: source.Options{Dir: t.TempDir()}}
}

// nothingLeft fails the test if the folder of opt holds anything.
func nothingLeft(t *testing.T, opt Options) {
	t.Helper()
	if list, err := os.ReadDir(opt.Source.Dir); err != nil || len(list) > 0 {
		t.Errorf("there are %v, %v left", list, err)
	}
}

func closeTree(t *testing.T, tree *source.Tree) {
	t.Helper()
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
}

func TestContext(t *testing.T) {
	srv := site(t)
	for _, name := range []string{"/a.tar", "/a.tar.gz", "/says-text.tar"} {
		opt := options(t)
		got, err := Context(t.Context(), srv.URL+name, opt)
		if err != nil {
			t.Fatal(name, err)
		}
		if text, err := got.Tree.ReadFile(t.Context(), "Dockerfile", 1000); err != nil || string(text) != dockerfile || got.Dockerfile != nil {
			t.Errorf("%s has the Dockerfile %q, %v, and is %q", name, text, err, got.Dockerfile)
		}
		nothingLeft(t, opt)
		closeTree(t, got.Tree)
	}
	for name, want := range map[string]string{"/Dockerfile": dockerfile, "/octets": dockerfile, "/once": dockerfile, "/empty": ""} {
		var told int64
		opt := options(t)
		opt.Progress = func(current, _ int64) { told = current }
		got, err := Context(t.Context(), srv.URL+name, opt)
		if err != nil {
			t.Fatal(name, err)
		}
		if n, _ := got.Tree.Count(); string(got.Dockerfile) != want || got.Dockerfile == nil || n != 0 || told != int64(len(want)) {
			t.Errorf("%s is %q with %d entries after %d bytes, want %q", name, got.Dockerfile, n, told, want)
		}
		closeTree(t, got.Tree)
	}
}

func TestContextFails(t *testing.T) {
	srv := site(t)
	for _, tc := range []struct {
		name, url, want string
		kind            fault.Constructor
	}{
		{"not found", srv.URL + "/gone", "download the build context: " + srv.URL + "/gone answers 404 Not Found", fault.NotFound},
		{"scheme", "ftp://h/x", `remote "ftp://h/x": want http://`, fault.Invalid},
		{"file", "file:///etc/passwd", "want http://", fault.Invalid},
		{"password", "ftp://me:secret@h/x", `remote "ftp://me:xxxxx@h/x": want http://`, fault.Invalid},
		{"path", "/etc/passwd", "want http://", fault.Invalid},
		{"option", "--upload-pack=touch", "want http://", fault.Invalid},
		{"ext", "ext::sh -c touch% /tmp/x", "want http://", fault.Invalid},
		{"redirect to a file", srv.URL + "/local", "not from file://", fault.Invalid},
		{"cut", srv.URL + "/cut.tar", "truncated", fault.Invalid},
		{"noise", srv.URL + "/noise", "not a tar archive", fault.Invalid},
		{"long text", srv.URL + "/long", "more than 1048576 bytes", fault.Invalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opt := options(t)
			_, err := Context(t.Context(), tc.url, opt)
			holds(t, err, tc.kind, tc.want)
			nothingLeft(t, opt)
		})
	}
}

func holds(t *testing.T, err error, kind fault.Constructor, text string) {
	t.Helper()
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v, want %v with %q", err, fault.KindOf(kind("")), text)
	}
}

// TestEndless has a server send for ever: the room ends it.
func TestEndless(t *testing.T) {
	srv := site(t)
	noRoom := fault.Internal("no room")
	opt := options(t)
	left := 5
	opt.Source.Room = func(int64, int64) error {
		if left--; left < 0 {
			return noRoom
		}
		return nil
	}
	if _, err := Context(t.Context(), srv.URL+"/endless", opt); !errors.Is(err, noRoom) {
		t.Errorf("Context = %v, want no room", err)
	}
	nothingLeft(t, opt)
	left = 5
	if _, _, err := File(t.Context(), srv.URL+"/endless", "", opt); !errors.Is(err, noRoom) {
		t.Errorf("File = %v, want no room", err)
	}
	nothingLeft(t, opt)
	ctx, cancel := context.WithCancel(t.Context())
	opt.Source.Room = nil
	opt.Progress = func(int64, int64) { cancel() }
	if _, err := Context(ctx, srv.URL+"/endless", opt); !errors.Is(err, context.Canceled) {
		t.Errorf("Context = %v, want cancelled", err)
	}
	nothingLeft(t, opt)
}

func TestADownloadThatIsTooLargeIsNotBegun(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1<<50))
		_, _ = io.WriteString(w, "FROM busybox\n")
	}))
	t.Cleanup(srv.Close)
	opt := options(t)
	noRoom := fault.Internal("no room")
	opt.Source.Room = func(bytes, _ int64) error {
		if bytes >= 1<<50 {
			return noRoom
		}
		return nil
	}
	if _, err := Context(t.Context(), srv.URL, opt); !errors.Is(err, noRoom) {
		t.Errorf("Context = %v, want no room", err)
	}
	if _, _, err := File(t.Context(), srv.URL+"/x", "", opt); !errors.Is(err, noRoom) {
		t.Errorf("File = %v, want no room", err)
	}
	nothingLeft(t, opt)
}

func TestFile(t *testing.T) {
	srv := site(t)
	at := time.Unix(1e9, 0)
	sum := digest.FromString(dockerfile)
	for _, tc := range []struct {
		path, name, entry, content string
		want                       digest.Digest
		at                         time.Time
	}{
		{"/Dockerfile", "Dockerfile", "Dockerfile", dockerfile, "", at},
		{"/Dockerfile?x=/y#z", "Dockerfile", "Dockerfile", dockerfile, sum, at},
		{"/once", "once", "once", dockerfile, digest.SHA512.FromString(dockerfile), at},
		{"/named", "passwd", "passwd", "x", "", time.Unix(0, 0)},
		{"/", "", "download", "x", "", at},
	} {
		t.Run(tc.path, func(t *testing.T) {
			tree, name, err := File(t.Context(), srv.URL+tc.path, tc.want, options(t))
			if err != nil {
				t.Fatal(err)
			}
			defer closeTree(t, tree)
			e, err := tree.Stat(t.Context(), tc.entry, false)
			if err != nil || name != tc.name || e.Mode != 0o600 || !e.ModTime.Equal(tc.at) {
				t.Fatalf("the file %q is %+v, %v, want %q", name, e, err, tc.name)
			}
			if got, err := tree.ReadFile(t.Context(), tc.entry, 1000); err != nil || string(got) != tc.content {
				t.Errorf("it holds %q, %v", got, err)
			}
		})
	}
	for _, tc := range []struct {
		path, want string
		digest     digest.Digest
		kind       fault.Constructor
	}{
		{"/gone", "answers 404", "", fault.NotFound},
		{"/local", "not from file://", "", fault.Invalid},
		{"/Dockerfile", "digest mismatch for " + srv.URL + "/Dockerfile: " + sum.String(), digest.FromString("x"), fault.Invalid},
		{"/Dockerfile", "unsupported digest algorithm", "md5:x", fault.Invalid},
		{"/Dockerfile", "invalid checksum digest", "x", fault.Invalid},
	} {
		opt := options(t)
		_, _, err := File(t.Context(), srv.URL+tc.path, tc.digest, opt)
		holds(t, err, tc.kind, tc.want)
		nothingLeft(t, opt)
	}
}

func TestKindOf(t *testing.T) {
	for text, want := range map[string]Kind{
		"a/b": Local, "/a": Local, "http.txt": Local, "github.com/a/b": Local, "a@b": Local, "C:/x": Local, "": Local,
		"http://h/x": HTTP, "HTTPS://h/x": HTTP, "https://h/x.git/y": HTTP, "https://h/x?y.git": HTTP,
		"https://h/x.git": Git, "https://h/x.git#main:sub": Git, "http://h/x.git?ref=y": Git, "git://h/x": Git, "git@h:x": Git, "ssh://h/x": Git,
	} {
		if got, err := KindOf(text); got != want || err != nil {
			t.Errorf("KindOf(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"ftp://h/x", "ftp://me:secret@h/x", "file:///etc/passwd", "s3://x"} {
		_, err := KindOf(text)
		holds(t, err, fault.Invalid, "sources come from")
	}
}

func TestRedacted(t *testing.T) {
	for text, want := range map[string]string{
		"http://h/x":                "http://h/x",
		"https://me:secret@h/x":     "https://me:xxxxx@h/x",
		"https://:secret@h":         "https://:xxxxx@h",
		"git://me:se@cr:et@h/x@y":   "git://me:xxxxx@h/x@y",
		"https://h/x?a=b:c@d":       "https://h/x?a=b:c@d",
		"https://h:1/x#me:secret@h": "https://h:1/x#me:secret@h",
		"git@h:x":                   "git@h:x",
	} {
		if got := Redacted(text); got != want {
			t.Errorf("Redacted(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzNameOf(f *testing.F) {
	f.Add(`attachment; filename="a/../b"`, "/x/y")
	f.Add(`inline; filename*=UTF-8''%2e%2e`, "/..")
	f.Fuzz(func(t *testing.T, disposition, path string) {
		name := nameOf(http.Header{"Content-Disposition": {disposition}}, &url.URL{Path: path})
		if name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > 255 {
			t.Errorf("nameOf(%q, %q) = %q", disposition, path, name)
		}
	})
}
