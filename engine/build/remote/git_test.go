package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/build/source"
	"moss/engine/fault"
)

// forge is a server of git repositories.
type forge struct {
	t    *testing.T
	dir  string
	url  string
	seen []string // Authorization headers
}

func newForge(t *testing.T) *forge {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("git is needed: install git: %v", err)
	}
	f := &forge{t: t, dir: t.TempDir()}
	backend := &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Stderr: io.Discard,
		Env:    []string{"GIT_PROJECT_ROOT=" + f.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/dumb/") {
			http.StripPrefix("/dumb", http.FileServer(http.Dir(f.dir))).ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/private/") {
			f.seen = append(f.seen, r.Header.Get("Authorization"))
			if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
				w.Header().Set("Www-Authenticate", "Basic")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

// daemon serves the repositories by git's own protocol and returns where.
func (f *forge) daemon() string {
	f.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(f.t, err)
	f.t.Cleanup(func() { listener.Close() }) //nolint:errcheck // the test is over
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			file, err := conn.(*net.TCPConn).File()
			if err != nil {
				return
			}
			cmd := exec.Command("git", "-c", "safe.directory=*", "daemon", "--inetd", "--export-all", "--base-path="+f.dir) //nolint:noctx // it ends with its connection
			cmd.Stdin, cmd.Stdout = file, file
			cmd.Run()    //nolint:errcheck // the client notices
			file.Close() //nolint:errcheck // likewise
			conn.Close() //nolint:errcheck // likewise
		}
	}()
	return listener.Addr().String()
}

// git runs git in a repository.
func (f *forge) git(repo string, args ...string) string {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), "git", args...)
	cmd.Dir = filepath.Join(f.dir, repo)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@h", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@h", "GIT_AUTHOR_DATE=@1000000000 +0000", "GIT_COMMITTER_DATE=@1000000000 +0000", "GIT_ALLOW_PROTOCOL=file:http")
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %s: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files into a repository, which it makes if there is none, and returns the commit.
func (f *forge) commit(repo string, files map[string]string) string {
	f.t.Helper()
	dir := filepath.Join(f.dir, repo)
	if _, err := os.Stat(dir); err != nil {
		must(f.t, os.MkdirAll(dir, 0o755))
		f.git(repo, "init", "-q", "-b", "main")
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		must(f.t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, link := strings.CutPrefix(content, "->"); link {
			must(f.t, os.Symlink(target, path))
			continue
		}
		must(f.t, os.WriteFile(path, []byte(content), 0o755))
	}
	f.git(repo, "add", "-A", "-f")
	f.git(repo, "commit", "-q", "-m", "x")
	return f.git(repo, "rev-parse", "HEAD")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, tree *source.Tree) string {
	t.Helper()
	root, err := tree.Stat(t.Context(), ".", false)
	must(t, err)
	list, err := tree.List(t.Context(), root)
	must(t, err)
	all := make([]string, 0, len(list))
	for _, e := range list {
		all = append(all, e.Path)
	}
	return strings.Join(all, " ")
}

func TestRepository(t *testing.T) {
	f := newForge(t)
	first := f.commit("a.git", map[string]string{"one": "1", "sub/x": "x", "leak": "->/etc", "link": "->sub"})
	f.git("a.git", "tag", "v1")
	f.git("a.git", "tag", "-a", "-m", "x", "v1-annotated")
	f.git("a.git", "branch", "old/branch")
	second := f.commit("a.git", map[string]string{"two": "2"})
	f.commit("b.git", map[string]string{"b": "b"})
	f.git("a.git", "-c", "protocol.file.allow=always", "submodule", "add", "-q", f.url+"/b.git", "mod")
	f.commit("a.git", nil)
	f.commit("private/p.git", map[string]string{"p": "p"})
	f.git("a.git", "update-server-info")
	private := strings.Replace(f.url, "http://", "http://me:secret@", 1) + "/private/p.git"
	for _, tc := range []struct {
		name, text string
		git        GitOptions
		want       string
	}{
		{"head", f.url + "/a.git", GitOptions{}, ".gitmodules leak link mod one sub two"},
		{"no submodules", f.url + "/a.git?submodules=0", GitOptions{}, ".gitmodules leak link mod one sub two"},
		{"tag", f.url + "/a.git#v1", GitOptions{}, "leak link one sub"},
		{"annotated tag", f.url + "/a.git#v1-annotated", GitOptions{Checksum: first}, "leak link one sub"},
		{"branch", f.url + "/a.git#old/branch", GitOptions{}, "leak link one sub"},
		{"whole reference", f.url + "/a.git?branch=old/branch", GitOptions{}, "leak link one sub"},
		{"commit", f.url + "/a.git#" + second, GitOptions{}, "leak link one sub two"},
		{"beginning of a commit", f.url + "/a.git#" + second[:8], GitOptions{Checksum: strings.ToUpper(second[:9])}, "leak link one sub two"},
		{"folder", f.url + "/a.git#v1:sub", GitOptions{}, "x"},
		{"folder, climbing", f.url + "/a.git#v1:../../sub", GitOptions{}, "x"},
		{"kept", f.url + "/a.git#v1", GitOptions{Keep: true}, ".git leak link one sub"},
		{"server of files", f.url + "/dumb/a.git/.git#v1", GitOptions{Checksum: first}, "leak link one sub"},
		{"server of files, head", f.url + "/dumb/a.git/.git?submodules=false", GitOptions{}, ".gitmodules leak link mod one sub two"},
		{"git's own protocol", "git://" + f.daemon() + "/a.git#v1", GitOptions{}, "leak link one sub"},
		{"password", private, GitOptions{Keep: true}, ".git p"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opt := options(t)
			tree, err := Repository(t.Context(), tc.text, tc.git, opt)
			must(t, err)
			defer closeTree(t, tree)
			nothingLeft(t, opt)
			if got := names(t, tree); got != tc.want {
				t.Errorf("the checkout has %s, want %s", got, tc.want)
			}
			if e, err := tree.Stat(t.Context(), "one", false); err == nil && (e.Mode != 0o755 || e.UID != 0 || e.ModTime.Unix() != 1e9) {
				t.Errorf("a file is %+v", e)
			}
			if config, err := tree.ReadFile(t.Context(), ".git/config", 1<<20); tc.git.Keep && (err != nil || strings.Contains(string(config), "secret")) {
				t.Errorf("the kept configuration is %q, %v", config, err)
			}
			_, err = tree.Stat(t.Context(), "mod/b", false)
			if has := err == nil; has != (tc.name == "head") {
				t.Errorf("the submodule is there: %t", has)
			}
		})
	}
	if len(f.seen) == 0 || slices.Contains(f.seen, "") {
		t.Errorf("the private repository was asked with %q", f.seen)
	}
}

func TestRepositoryFails(t *testing.T) {
	f := newForge(t)
	first := f.commit("a.git", map[string]string{"one": "1", "leak": "->/etc", "link": "->sub", "sub/x": "x"})
	closed := httptest.NewServer(nil)
	closed.Close()
	wrong := strings.Replace(f.url, "http://", "http://me:secret2@", 1)
	for _, tc := range []struct {
		name, text, want string
		git              GitOptions
		kind             fault.Constructor
	}{
		{"nobody listens", closed.URL + "/a.git", "Failed to connect", GitOptions{}, fault.Internal},
		{"no repository", f.url + "/nothing.git", "not found", GitOptions{}, fault.NotFound},
		{"no reference", f.url + "/a.git#nothing", "couldn't find remote ref nothing", GitOptions{}, fault.NotFound},
		{"no commit", f.url + "/a.git#" + strings.Repeat("ab", 20), "no commit is called abab", GitOptions{}, fault.NotFound},
		{"other commit", f.url + "/a.git", "expected checksum to match " + strings.Repeat("ab", 20) + ", got " + first, GitOptions{Checksum: strings.Repeat("ab", 20)}, fault.Invalid},
		{"no checksum", f.url + "/a.git", "not a commit", GitOptions{Checksum: "--x"}, fault.Invalid},
		{"no folder", f.url + "/a.git#:nothing", "no such file", GitOptions{}, fault.NotFound},
		{"folder out", f.url + "/a.git#:leak", "leak: not a directory", GitOptions{}, fault.Invalid},
		{"folder by a link", f.url + "/a.git#:link", "link: not a directory", GitOptions{}, fault.Invalid},
		{"refused", wrong + "/private/p.git", "git: fatal: ", GitOptions{}, fault.Forbidden},
		{"ssh", "git@h:a/b.git", "do not use ssh", GitOptions{}, fault.Unsupported},
		{"local", f.dir + "/a.git", "not from", GitOptions{}, fault.Invalid},
		{"file", "file://" + f.dir + "/a.git", "not from file://", GitOptions{}, fault.Invalid},
		{"ext", "ext::sh -c 'touch " + f.dir + "/touched'", "", GitOptions{}, fault.Invalid},
		{"option", f.url + "/a.git#--upload-pack=touch", "is none", GitOptions{}, fault.Invalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opt := options(t)
			_, err := Repository(t.Context(), tc.text, tc.git, opt)
			holds(t, err, tc.kind, tc.want)
			nothingLeft(t, opt)
		})
	}
	opt := options(t)
	opt.GitPath = f.dir + "/no-git"
	_, err := Repository(t.Context(), f.url+"/a.git", GitOptions{}, opt)
	holds(t, err, fault.Unsupported, "git is needed for it and not installed")
}

// TestSubmoduleTricks has submodules that lead to this machine, or would run something.
func TestSubmoduleTricks(t *testing.T) {
	f := newForge(t)
	victim := f.commit("victim", map[string]string{"file": "of this machine"})
	touched := filepath.Join(f.dir, "touched")
	for i, tc := range []struct{ url, update, want string }{
		{f.dir + "/victim", "", "transport 'file' not allowed"},
		{"file://" + f.dir + "/victim", "", "transport 'file' not allowed"},
		{"../victim/../../.." + f.dir + "/victim", "", "not"}, // of the same server: not found there
		{"ext::sh -c touch% " + touched, "", "transport 'ext' not allowed"},
		{"--upload-pack=touch " + touched, "", ""}, // git does not take it for a URL
		{"ssh://-oProxyCommand=touch/x", "", ""},
		{"git@h:x", "", "transport 'ssh' not allowed"},
		{f.url + "/victim", "!touch " + touched, "invalid value for 'submodule.m.update'"},
	} {
		repo := "r" + string(rune('0'+i)) + ".git"
		modules := "[submodule \"m\"]\n\tpath = m\n\turl = \"" + tc.url + "\"\n"
		if tc.update != "" {
			modules += "\tupdate = " + tc.update + "\n"
		}
		f.commit(repo, map[string]string{
			"Dockerfile": "FROM x", ".gitmodules": modules,
			".gitattributes": "* filter=evil\n", ".git/hooks/post-checkout": "#!/bin/sh\ntouch " + touched,
		})
		f.git(repo, "update-index", "--add", "--cacheinfo", "160000,"+victim+",m")
		f.git(repo, "commit", "-q", "-m", "x")
		opt := options(t)
		tree, err := Repository(t.Context(), f.url+"/"+repo, GitOptions{}, opt)
		if err == nil {
			_, err = tree.Stat(t.Context(), "m/file", false)
			closeTree(t, tree)
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("a submodule of %s: %v, want %q", tc.url, err, tc.want)
		}
		nothingLeft(t, opt)
	}
	if _, err := os.Stat(touched); err == nil {
		t.Error("something of the repository's was run")
	}
}

// TestRepositoryEnds cancels while a server says nothing.
func TestRepositoryEnds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close() //nolint:errcheck // the test is over
	ctx, cancel := context.WithCancel(t.Context())
	accepted := make(chan net.Conn, 1)
	var cancelled time.Time
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			cancelled = time.Now()
			accepted <- conn
			cancel()
		}
	}()
	opt := options(t)
	_, err = Repository(ctx, "git://"+listener.Addr().String()+"/a.git", GitOptions{}, opt)
	ended := time.Now()
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Repository = %v, want cancelled", err)
	}
	(<-accepted).Close() //nolint:errcheck // nobody is there
	if took := ended.Sub(cancelled); took > grace {
		t.Errorf("Repository ended %s after it was cancelled, want at once", took)
	}
	nothingLeft(t, opt)

	noRoom := fault.Internal("no room")
	opt.Source.Room = func(int64, int64) error { return noRoom }
	if _, err := Repository(t.Context(), "git://"+listener.Addr().String()+"/a.git", GitOptions{}, opt); !errors.Is(err, noRoom) {
		t.Errorf("Repository = %v, want no room", err)
	}
	nothingLeft(t, opt)
}

// TestWatch has git say nothing, and the disk fill up while it works.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		heard := make(chan struct{})
		go (&git{}).watchProgress(ctx, cancel, heard)
		for range 3 {
			time.Sleep(silence - watch)
			heard <- struct{}{}
		}
		if ctx.Err() != nil {
			t.Errorf("cancelled while something is heard: %v", context.Cause(ctx))
		}
		before := time.Now()
		<-ctx.Done()
		if took := time.Since(before); took < silence || took > silence+2*watch || !strings.Contains(context.Cause(ctx).Error(), "nothing was heard of the server for 2m0s") {
			t.Errorf("cancelled after %s: %v", took, context.Cause(ctx))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		noRoom, left := fault.Internal("no room"), 3
		go (&git{room: func(int64, int64) error {
			if left--; left < 0 {
				return noRoom
			}
			return nil
		}}).watchProgress(ctx, cancel, nil)
		<-ctx.Done()
		if got := context.Cause(ctx); !errors.Is(got, noRoom) {
			t.Errorf("cancelled by %v, want no room", got)
		}
	})
}
