package main

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/api/client/clienttest"
	"moss/api/types"
)

// withPaths makes a fake engine know paths of the container web: their stats, and what GET of them answers.
func withPaths(engine *clienttest.Engine, paths map[string]types.PathStat, archives map[string][]byte) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Query().Get("path")
		stat, ok := paths[path]
		if !ok {
			clienttest.Fail(w, http.StatusNotFound, "Could not find the file "+path+" in container web")
			return
		}
		raw, err := json.Marshal(stat)
		if err != nil {
			panic(err)
		}
		w.Header().Set("X-Engine-Container-Path-Stat", base64.StdEncoding.EncodeToString(raw))
		if r.Method == http.MethodGet {
			_, _ = w.Write(archives[path])
		}
	}
	engine.Override["HEAD /containers/web/archive"] = answer
	engine.Override["GET /containers/web/archive"] = answer
}

func tarOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range sortedKeys(files) {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}
		if strings.HasSuffix(name, "/") {
			header.Typeflag, header.Mode = tar.TypeDir, 0o755
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// entries lists a tar stream: names with content or target, and the user's id.
func entries(t *testing.T, raw []byte) string {
	t.Helper()
	var list []string
	reader := tar.NewReader(bytes.NewReader(raw))
	for {
		header, err := reader.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("read the archive: %v", err)
			}
			slices.Sort(list)
			return strings.Join(list, " ")
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Error(err)
		}
		list = append(list, header.Name+"="+header.Linkname+string(content))
	}
}

func TestCopyOut(t *testing.T) {
	paths := map[string]types.PathStat{
		"/etc": {Mode: fs.ModeDir | 0o755}, "/etc/.": {Mode: fs.ModeDir | 0o755}, "/etc/passwd": {Mode: 0o644},
		"/link": {Mode: fs.ModeSymlink | 0o777, LinkTarget: "/etc/passwd"},
	}
	archives := map[string][]byte{
		"/etc": tarOf(t, map[string]string{"etc/": "", "etc/passwd": "root"}), "/etc/.": tarOf(t, map[string]string{"./": "", "./passwd": "root"}),
		"/etc/passwd": tarOf(t, map[string]string{"passwd": "root"}),
	}
	for _, tc := range []struct{ args, want, fails string }{
		{"web:/etc/passwd here", "here/passwd", ""},
		{"web:/etc/passwd new", "new", ""},
		{"web:/etc/passwd old", "old", ""},
		{"web:/etc here", "here/etc/passwd", ""},
		{"web:/etc new", "new/passwd", ""},
		{"web:/etc/. here", "here/passwd", ""},
		{"web:/etc/. new", "new/passwd", ""},
		{"-L web:/link here", "here/link", ""},
		{"-a -q web:/etc/passwd ./new", "new", ""},
		{"web:/etc old", "", "moss: a folder cannot be copied over the file"},
		{"web:/etc/passwd none/", "", "none does not exist"},
		{"web:/etc/passwd none/x", "", "no such file or directory"},
		{"web:/nothing here", "", "moss: Could not find the file /nothing in container web"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			if err := os.Mkdir("here", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("old", []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			engine := clienttest.New(t)
			withPaths(engine, paths, archives)
			stdout, stderr, code := moss(t, engine, "", append([]string{"cp"}, strings.Fields(tc.args)...)...)
			if tc.fails != "" {
				if code != exitFailed || !strings.Contains(stderr, tc.fails) || strings.Count(stderr, "\n") != 1 {
					t.Errorf("got %q, %d, want an error with %q", stderr, code, tc.fails)
				}
				return
			}
			if code != 0 || stdout != "" || stderr != "" {
				t.Errorf("got %q, %q, %d, want silence", stdout, stderr, code)
			}
			if raw, err := os.ReadFile(filepath.Join(dir, tc.want)); err != nil || string(raw) != "root" {
				t.Errorf("%s holds %q, %v", tc.want, raw, err)
			}
		})
	}
	engine := clienttest.New(t)
	withPaths(engine, paths, archives)
	if stdout, _, code := moss(t, engine, "", "cp", "web:/etc", "-"); code != 0 || stdout != string(archives["/etc"]) {
		t.Errorf("exit code %d, %d bytes on stdout, want the archive as it is", code, len(stdout))
	}
}

func TestCopyIn(t *testing.T) {
	paths := map[string]types.PathStat{
		"/dst": {Mode: fs.ModeDir | 0o755}, "/dst/": {Mode: fs.ModeDir | 0o755}, "/file": {Mode: 0o644},
		"/todir": {Mode: fs.ModeSymlink | 0o777, LinkTarget: "dst"}, "/tofile": {Mode: fs.ModeSymlink | 0o777, LinkTarget: "/file"},
	}
	for _, tc := range []struct{ args, input, target, want, fails string }{
		{"site web:/dst", "", "/dst", "site/= site/a=1 site/l=a", ""},
		{"site/. web:/dst", "", "/dst", "a=1 l=a", ""},
		{"site web:/new", "", "/", "new/= new/a=1 new/l=a", ""},
		{"site/. web:/x/new", "", "/x", "new/= new/a=1 new/l=a", ""},
		{"site/a web:/dst/", "", "/dst", "a=1", ""},
		{"site/a web:dst", "", "/dst", "a=1", ""},
		{"site/a web:/file", "", "/", "file=1", ""},
		{"site/a web:/new", "", "/", "new=1", ""},
		{"site/a web:/todir", "", "/dst", "a=1", ""},
		{"site/a web:/tofile", "", "/", "file=1", ""},
		{"site/l web:/dst", "", "/dst", "l=a", ""},
		{"-L site/l web:/dst", "", "/dst", "l=1", ""},
		{"./with:colon web:/dst", "", "/dst", "with:colon=2", ""},
		{"- web:/dst", "an archive", "/dst", "", ""},
		{"- web:/file", "an archive", "", "", "is no folder of the container"},
		{"site web:/file", "", "", "", "a folder cannot be copied over the file /file"},
		{"site/a web:/none/", "", "", "", "the folder /none does not exist"},
		{"site/a/ web:/dst", "", "", "", "site/a"},
		{"nothing web:/dst", "", "", "", "no such file or directory"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.Mkdir("site", 0o755); err != nil {
				t.Fatal(err)
			}
			for name, content := range map[string]string{"site/a": "1", "with:colon": "2"} {
				if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("a", "site/l"); err != nil {
				t.Fatal(err)
			}
			engine := clienttest.New(t)
			withPaths(engine, paths, nil)
			var got []byte
			var query string
			engine.Override["PUT /containers/web/archive"] = func(_ http.ResponseWriter, r *http.Request) {
				query = r.URL.Query().Get("path") + " " + r.URL.Query().Get("noOverwriteDirNonDir")
				got, _ = io.ReadAll(r.Body)
			}
			_, stderr, code := moss(t, engine, tc.input, append([]string{"cp"}, strings.Fields(tc.args)...)...)
			if tc.fails != "" {
				if code != exitFailed || !strings.Contains(stderr, tc.fails) || query != "" {
					t.Errorf("got %q, %d and a PUT to %q, want an error with %q and no PUT", stderr, code, query, tc.fails)
				}
				return
			}
			if code != 0 || stderr != "" || query != tc.target+" true" {
				t.Errorf("got %q, %d and a PUT to %q, want one to %s", stderr, code, query, tc.target)
			}
			if tc.input != "" {
				if string(got) != tc.input {
					t.Errorf("sent %q, want %q", got, tc.input)
				}
			} else if list := entries(t, got); list != tc.want {
				t.Errorf("sent %s, want %s", list, tc.want)
			}
		})
	}
}

func TestCopyUsage(t *testing.T) {
	for _, args := range []string{"cp a b", "cp web:/a db:/b", "cp web: b", "cp a web:", "cp web:/a", "cp /web:/a ./b"} {
		if _, stderr, code := moss(t, clienttest.New(t), "", strings.Fields(args)...); code != exitEngine || strings.Count(stderr, "\n") != 1 {
			t.Errorf("moss %s: exit code %d, stderr %q, want 125 and one line", args, code, stderr)
		}
	}
}

func TestArchivesStayOffTerminals(t *testing.T) {
	for _, args := range [][]string{{"cp", "web:/etc", "-"}, {"export", "web"}} {
		engine := clienttest.New(t)
		term := onTerminal(t, engine, args...)
		term.await("refusing to write an archive to a terminal")
		if code := term.exitCode(); code != exitEngine || len(engine.Requests()) != 0 {
			t.Errorf("moss %s: exit code %d, requests %q, want 125 and none", args, code, engine.Requests())
		}
	}
}
