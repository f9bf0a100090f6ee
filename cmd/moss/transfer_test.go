package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"moss/api/client/clienttest"
	"moss/cmd/moss/tty/ttytest"
)

// authOfRequest reads what a request brings for a registry.
func authOfRequest(t *testing.T, r *http.Request) map[string]string {
	t.Helper()
	raw, err := base64.URLEncoding.DecodeString(r.Header.Get("X-Registry-Auth"))
	if err != nil {
		t.Errorf("X-Registry-Auth: %v", err)
	}
	auth := map[string]string{}
	if err := json.Unmarshal(raw, &auth); err != nil {
		t.Errorf("X-Registry-Auth: %v", err)
	}
	return auth
}

const twoLayers = `{"status":"Pulling from box","id":"v1"}
{"status":"Pulling fs layer","id":"aaa"}
{"status":"Downloading","id":"aaa","progressDetail":{"current":1,"total":2}}
{"status":"Pull complete","id":"aaa"}
{"status":"Pull complete","id":"aaa"}
{"status":"Status: Downloaded newer image for reg:5000/box:v1"}
`

func TestPull(t *testing.T) {
	home := t.TempDir()
	config := `{"auths":{"reg:5000":{"auth":"YW5uOnNlY3JldA=="}}}` // ann:secret
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"DOCKER_CONFIG": home}
	digest := "sha256:" + strings.Repeat("7", 64)
	for _, tc := range []struct{ args, stdout, query, user string }{
		{"reg:5000/box:v1", "v1: Pulling from box\naaa: Pulling fs layer\naaa: Pull complete\n" +
			"Status: Downloaded newer image for reg:5000/box:v1\n" + "reg:5000/box:v1\n", "fromImage=reg%3A5000%2Fbox&tag=v1", "ann"},
		{"-q box", "docker.io/library/box:latest\n", "fromImage=box&tag=latest", ""},
		{"-q -a reg:5000/box", "reg:5000/box\n", "fromImage=reg%3A5000%2Fbox&tag=", "ann"},
		{"-q reg:5000/box:v1@" + digest, "reg:5000/box@" + digest + "\n", "fromImage=reg%3A5000%2Fbox&tag=" + strings.Replace(digest, ":", "%3A", 1), "ann"},
		{"-q --platform linux/arm64 other:5000/a/box", "other:5000/a/box:latest\n", "fromImage=other%3A5000%2Fa%2Fbox&platform=linux%2Farm64&tag=latest", ""},
	} {
		engine := clienttest.New(t)
		var user, password, address string
		engine.Override["POST /images/create"] = func(w http.ResponseWriter, r *http.Request) {
			auth := authOfRequest(t, r)
			user, password, address = auth["username"], auth["password"], auth["serveraddress"]
			_, _ = io.WriteString(w, twoLayers)
		}
		stdout, stderr, code := mossAt(t, engine, env, "", append([]string{"pull"}, strings.Fields(tc.args)...)...)
		if stdout != tc.stdout || stderr != "" || code != 0 {
			t.Errorf("pull %s: %q, %q, %d, want %q", tc.args, stdout, stderr, code, tc.stdout)
		}
		if want := "POST /images/create?" + tc.query; !slices.Equal(engine.Requests(), []string{want}) {
			t.Errorf("pull %s: requests %q, want %s", tc.args, engine.Requests(), want)
		}
		if user != tc.user || (user != "" && (password != "secret" || address != "reg:5000")) {
			t.Errorf("pull %s: user %q at %q, want %q", tc.args, user, address, tc.user)
		}
	}
}

func TestPullFails(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /images/create"] = func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("fromImage") {
		case "none":
			clienttest.Fail(w, http.StatusNotFound, "pull access denied for none")
		case "broken":
			_, _ = io.WriteString(w, `{"status":"Pulling","id":"a"}`+"\n"+`{"error":"it broke","errorDetail":{"message":"it broke"}}`)
		}
	}
	stdout, stderr, code := moss(t, engine, "", "pull", "-q", "none", "broken", "good:v1")
	if stdout != "docker.io/library/good:v1\n" || stderr != "moss: pull access denied for none\nmoss: it broke\n" || code != exitFailed {
		t.Errorf("got %q, %q, %d", stdout, stderr, code)
	}
	if _, _, code := moss(t, engine, "", "pull", "-a", "good:v1"); code != exitEngine {
		t.Errorf("all tags of a tag: exit code %d, want 125", code)
	}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(`{"auths":{"docker.io":{"auth":"secret!"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code = mossAt(t, engine, map[string]string{"DOCKER_CONFIG": home}, "", "pull", "-q", "good")
	if !strings.HasPrefix(stderr, "moss: warning: going on without credentials for docker.io: ") || strings.Contains(stderr, "secret") || code != 0 {
		t.Errorf("with a broken file: %q, %d, want a warning", stderr, code)
	}
}

func TestPush(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /images/reg:5000/box/push"] = func(w http.ResponseWriter, r *http.Request) {
		_ = authOfRequest(t, r)
		_, _ = io.WriteString(w, `{"status":"The push refers to repository [reg:5000/box]"}
{"status":"Preparing","id":"aaa"}
{"status":"Pushing","id":"aaa","progressDetail":{"current":1,"total":2}}
{"status":"Pushed","id":"aaa"}
{"status":"v1: digest: sha256:77 size: 5"}
{"aux":{"Tag":"v1","Digest":"sha256:77","Size":5}}`)
	}
	for args, want := range map[string]string{
		"push reg:5000/box:v1":    "The push refers to repository [reg:5000/box]\naaa: Preparing\naaa: Pushed\nv1: digest: sha256:77 size: 5\n?tag=v1",
		"push -q reg:5000/box":    "reg:5000/box:latest\n?tag=latest",
		"push -q -a reg:5000/box": "reg:5000/box\n",
	} {
		want, query, tagged := strings.Cut(want, "?")
		if tagged {
			query = "?" + query
		}
		stdout, stderr, code := moss(t, engine, "", strings.Fields(args)...)
		requests := engine.Requests()
		if last := requests[len(requests)-1]; stdout != want || stderr != "" || code != 0 || last != "POST /images/reg:5000/box/push"+query {
			t.Errorf("moss %s: %q, %q, %d and %s, want %q", args, stdout, stderr, code, last, want)
		}
	}
	if _, _, code := moss(t, engine, "", "push", "-a", "reg:5000/box:v1"); code != exitEngine {
		t.Errorf("all tags of a tag: exit code %d, want 125", code)
	}
}

func TestTag(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /images/box:v1/tag"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }
	stdout, stderr, code := moss(t, engine, "", "tag", "box:v1", "reg:5000/box:v2")
	if last := engine.Requests()[0]; stdout+stderr != "" || code != 0 || !strings.Contains(last, "repo=reg%3A5000%2Fbox&tag=v2") {
		t.Errorf("got %q, %q, %d and %s", stdout, stderr, code, last)
	}
	if _, _, code := moss(t, engine, "", "tag", "box:v1", "a@sha256:77"); code != exitEngine {
		t.Errorf("a digest as a name: exit code %d, want 125", code)
	}
}

func TestSave(t *testing.T) {
	engine := clienttest.New(t)
	whole := true
	engine.Override["GET /images/get"] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "0123456789"[:map[bool]int{true: 10, false: 5}[whole]])
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.tar")
	for _, whole = range []bool{false, true} {
		_, stderr, code := moss(t, engine, "", "save", "-o", path, "a", "b:v1")
		raw, err := os.ReadFile(path)
		if whole && (code != 0 || stderr != "" || string(raw) != "0123456789") {
			t.Errorf("got %q, %d and the file %q, %v", stderr, code, raw, err)
		}
		if left, err := os.ReadDir(dir); !whole && (code != exitFailed || stderr == "" || err != nil || len(left) != 0) {
			t.Errorf("half an archive: %q, %d and %v in the folder, %v; want nothing left", stderr, code, left, err)
		}
	}
	if last := engine.Requests()[0]; last != "GET /images/get?names=a&names=b%3Av1" {
		t.Errorf("request %s", last)
	}
	if stdout, _, code := moss(t, engine, "", "save", "a"); stdout != "0123456789" || code != 0 {
		t.Errorf("save to stdout: %q, %d", stdout, code)
	}
	term := onTerminal(t, engine, "save", "a")
	if code := term.exitCode(); code != exitEngine {
		t.Errorf("save to a terminal: exit code %d, want 125", code)
	}
}

func TestLoad(t *testing.T) {
	engine := clienttest.New(t)
	var body, length, quiet string
	engine.Override["POST /images/load"] = func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body, length, quiet = string(raw), r.Header.Get("Content-Length"), r.URL.Query().Get("quiet")
		_, _ = io.WriteString(w, `{"status":"Loading layer","id":"aaa","progressDetail":{"current":1,"total":2}}{"stream":"Loaded image: box:v1\n"}`)
	}
	path := filepath.Join(t.TempDir(), "a.tar")
	if err := os.WriteFile(path, []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := moss(t, engine, "", "load", "-i", path)
	if stdout != "Loaded image: box:v1\n" || stderr != "" || code != 0 || body != "archive" || length != "7" || quiet != "0" {
		t.Errorf("got %q, %q, %d, body %q of length %s, quiet %s", stdout, stderr, code, body, length, quiet)
	}
	if _, _, code := moss(t, engine, "piped", "load", "-q"); code != 0 || body != "piped" || quiet != "1" {
		t.Errorf("exit code %d, body %q, quiet %s", code, body, quiet)
	}
	for _, path := range []string{t.TempDir() + "/none", t.TempDir()} {
		if _, stderr, code := moss(t, engine, "", "load", "-i", path); code != exitFailed || !strings.HasPrefix(stderr, "moss: ") {
			t.Errorf("load -i %s: %q, %d", path, stderr, code)
		}
	}
	term := onTerminal(t, engine, "load")
	if code := term.exitCode(); code != exitEngine {
		t.Errorf("load from a terminal: exit code %d, want 125", code)
	}
}

// TestInterruptedPull presses Ctrl-C while a layer comes: the engine sees the connection close, the command ends with 130
// and leaves the terminal as it was, its cursor at the start of a line.
func TestInterruptedPull(t *testing.T) {
	for _, args := range [][]string{{"pull", "box"}, {"run", "box"}} {
		engine := clienttest.New(t)
		cancelled := make(chan struct{})
		engine.Override["POST /containers/create"] = func(w http.ResponseWriter, _ *http.Request) {
			clienttest.Fail(w, http.StatusNotFound, "No such image: box:latest")
		}
		engine.Override["POST /images/create"] = func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"status":"Downloading","id":"aaa","progressDetail":{"current":50,"total":100}}`+"\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(cancelled)
		}
		term := onTerminal(t, engine, args...)
		before := ttytest.Mode(t, term.slave)
		term.await("aaa: Downloading [=========================>                        ]     50B/100B")
		term.typeIn("\x03")
		if code := term.exitCode(); code != 130 {
			t.Errorf("moss %s: exit code %d, want 130", args[0], code)
		}
		<-cancelled
		term.await("\r\x1b[K")
		if after := ttytest.Mode(t, term.slave); after != before {
			t.Errorf("mode %+v, want %+v", after, before)
		}
	}
}

// TestDumbTerminal shows lines on a terminal that cannot write over any.
func TestDumbTerminal(t *testing.T) {
	_, slave := ttytest.Open(t)
	a := &app{stdout: slave, lookup: func(name string) (string, bool) { return "dumb", name == "TERM" }}
	if got := fmt.Sprintf("%T", a.newProgress(slave)); got != "*progress.Lines" {
		t.Errorf("a dumb terminal gets %s, want lines", got)
	}
	a.lookup = func(string) (string, bool) { return "", false }
	if got := fmt.Sprintf("%T", a.newProgress(slave)); got != "*progress.Screen" {
		t.Errorf("a terminal gets %s, want a screen", got)
	}
}

// TestInterruptedSave leaves no file.
func TestInterruptedSave(t *testing.T) {
	engine := clienttest.New(t)
	begun := make(chan struct{})
	engine.Override["GET /images/get"] = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		close(begun)
		<-r.Context().Done()
	}
	dir := t.TempDir()
	term := onTerminal(t, engine, "save", "-o", filepath.Join(dir, "a.tar"), "box")
	<-begun
	if err := term.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := term.exitCode(); code != 128+15 {
		t.Errorf("exit code %d, want 143", code)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the folder holds %v, %v, want nothing", left, err)
	}
}
