package main

import (
	"archive/tar"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/api/client/clienttest"
)

const builtID = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// builder is a fake engine that builds.
type builder struct {
	*clienttest.Engine

	query  url.Values
	header http.Header
	files  []string // of the context
}

const builtAnswer = `{"stream":"Step 1/1 : FROM box\n"}
{"aux":{"ID":"` + builtID + `"}}
{"stream":"Successfully built 0123456789ab\n"}
`

func newBuilder(t *testing.T, answer string) *builder {
	t.Helper()
	b := &builder{Engine: clienttest.New(t)}
	b.Override["POST /build"] = func(w http.ResponseWriter, r *http.Request) {
		b.query, b.header, b.files = r.URL.Query(), r.Header, nil
		for archive := tar.NewReader(r.Body); ; {
			head, err := archive.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					b.files = append(b.files, "!"+err.Error())
				}
				break
			}
			b.files = append(b.files, head.Name)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answer)
	}
	return b
}

// folder makes a context and returns its path.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBuild(t *testing.T) {
	dir := folder(t, map[string]string{"Dockerfile": "FROM box\n", "a": "", "token": "t0ken", "other": "FROM other\n"})
	idFile := filepath.Join(dir, "id")
	env := map[string]string{"FROM_ENV": "value", "TOKEN": "from env", "DOCKER_CONFIG": folder(t, map[string]string{
		"config.json": `{"auths":{"reg:5000":{"auth":"YW5uOnNlY3JldA=="}}}`, // ann:secret
	})}
	b := newBuilder(t, builtAnswer)
	const all = "Step 1/1 : FROM box\nSuccessfully built 0123456789ab\n"
	for _, tc := range []struct {
		args   string
		query  string
		stdout string
	}{
		{"-t a:1 -t b", "dockerfile=Dockerfile&t=a:1&t=b", all},
		{"-f " + dir + "/other --target x --no-cache --pull --rm=false --force-rm --platform linux/arm64", "dockerfile=other&forcerm=1&nocache=1&platform=linux/arm64&pull=1&rm=0&target=x", all},
		{"--build-arg A=1 --build-arg FROM_ENV --build-arg UNSET --label l=v --label m", `buildargs={"A":"1","FROM_ENV":"value","UNSET":null}&dockerfile=Dockerfile&labels={"l":"v","m":""}`, all},
		{"--cache-from a,b:1 --cache-from c", `cachefrom=["a","b:1","c"]&dockerfile=Dockerfile`, all},
		{"-m 64m --memory-swap -1 --shm-size 1m -c 5 --cpu-period 50000 --cpu-quota 1000 --cpuset-cpus 0 --cpuset-mems 0", "cpuperiod=50000&cpuquota=1000&cpusetcpus=0&cpusetmems=0&cpushares=5&dockerfile=Dockerfile&memory=67108864&memswap=-1&shmsize=1048576", all},
		{"--network none --add-host a:1.2.3.4 --ulimit nofile=5:6 --cgroup-parent x --isolation default --security-opt no-new-privileges", `cgroupparent=x&dockerfile=Dockerfile&extrahosts=a:1.2.3.4&isolation=default&networkmode=none&securityopt=no-new-privileges&ulimits=[{"Name":"nofile","Soft":5,"Hard":6}]`, all},
		{"--progress plain --squash", "dockerfile=Dockerfile&squash=1", all},
		{"--security-opt systempaths=unconfined", "dockerfile=Dockerfile&securityopt=systempaths=unconfined", all},
		{"--iidfile " + idFile, "dockerfile=Dockerfile", all},
	} {
		stdout, stderr, code := mossAt(t, b.Engine, env, "", append(append([]string{"build"}, strings.Fields(tc.args)...), dir)...)
		query, err := url.QueryUnescape(b.query.Encode())
		if stdout != tc.stdout || stderr != "" || code != 0 || err != nil || query != tc.query {
			t.Errorf("build %s: %q, %q, %d with\n %s, want\n %s", tc.args, stdout, stderr, code, query, tc.query)
		}
		if want := []string{"Dockerfile", "a", "other", "token"}; !slices.Equal(b.files, want) && !strings.Contains(tc.args, "iidfile") {
			t.Errorf("build %s: context %q, want %q", tc.args, b.files, want)
		}
	}
	if raw, err := os.ReadFile(idFile); string(raw) != builtID || err != nil {
		t.Errorf("--iidfile: %q, %v", raw, err)
	}
	raw, err := base64.URLEncoding.DecodeString(b.header.Get("X-Registry-Config"))
	if want := `{"reg:5000":{"username":"ann","password":"secret","serveraddress":"reg:5000"}}`; string(raw) != want || err != nil {
		t.Errorf("X-Registry-Config: %s, %v, want %s", raw, err, want)
	}
	if kind := b.header.Get("Content-Type"); kind != "application/x-tar" {
		t.Errorf("Content-Type %q", kind)
	}
	_, stderr, code := mossAt(t, b.Engine, env, "", "build", "--secret", "id=one,src="+dir+"/token", "--secret", "id=two,env=TOKEN", "--secret", "id=TOKEN", "--secret", "type=file,id=three,source="+dir+"/token", dir)
	raw, err = base64.URLEncoding.DecodeString(b.header.Get("X-Build-Secrets"))
	got := map[string][]byte{}
	if err := errors.Join(err, json.Unmarshal(raw, &got)); err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprintf("%s", got); code != 0 || shown != "map[TOKEN:from env one:t0ken three:t0ken two:from env]" {
		t.Errorf("secrets %s, %q, %d", shown, stderr, code)
	}
}

func TestBuildContexts(t *testing.T) {
	dir := folder(t, map[string]string{"Dockerfile": "FROM box\n", "a": ""})
	bare := folder(t, map[string]string{"a": ""})
	var archive strings.Builder
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "in/archive", Mode: 0o600}), w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args, input, query string
		files              []string
	}{
		{"-", "FROM box\n", "", []string{"Dockerfile"}},
		{"-", archive.String(), "", []string{"in/archive"}},
		{"-f in/archive -", archive.String(), "dockerfile=in/archive", []string{"in/archive"}},
		{"-f - " + bare, "FROM box\n", "dockerfile=.dockerfile.2ee6e08ab5b5dcc2e0b6", []string{"a", ".dockerfile.*", ".dockerfile.*.dockerignore"}},
		{"https://example.test/c.tar", "", "remote=https://example.test/c.tar", nil},
		{"-f sub/Dockerfile git@example.test:a/b.git#main:sub", "", "dockerfile=sub/Dockerfile&remote=git@example.test:a/b.git#main:sub", nil},
		{"github.com/a/b", "", "remote=github.com/a/b", nil},
	} {
		b := newBuilder(t, builtAnswer)
		stdout, stderr, code := moss(t, b.Engine, tc.input, append([]string{"build"}, strings.Fields(tc.args)...)...)
		query, err := url.QueryUnescape(b.query.Encode())
		own := b.query.Get("dockerfile")
		for i := range b.files {
			if strings.HasPrefix(own, ".dockerfile.") {
				b.files[i] = strings.Replace(b.files[i], own, ".dockerfile.*", 1)
				query = tc.query
			}
		}
		if code != 0 || stderr != "" || err != nil || query != tc.query || !slices.Equal(b.files, tc.files) {
			t.Errorf("build %s: %q, %q, %d, with %s and %q, want %s and %q", tc.args, stdout, stderr, code, query, b.files, tc.query, tc.files)
		}
	}
	for _, tc := range []struct {
		args, input, want string
		code              int
	}{
		{"", "", "want one argument, got 0", exitEngine},
		{"-f - -", "", "stdin cannot be the context and the Dockerfile", exitEngine},
		{"-f x -", "FROM box\n", "not an archive that could hold x", exitFailed},
		{"-f - https://example.test/c.tar", "FROM box\n", "cannot be combined with a URL", exitFailed},
		{dir + "/nothing", "", "nothing: no such file or directory", exitFailed},
		{dir + "/Dockerfile", "", "it is no folder", exitFailed},
		{bare, "", "has no Dockerfile", exitFailed},
		{"--progress fancy " + dir, "", "want auto, plain or tty", exitEngine},
		{"--progress tty " + dir, "", "requires a terminal", exitEngine},
		{"--build-arg =x " + dir, "", "want NAME=VALUE or NAME", exitEngine},
		{"-m much " + dir, "", "--memory", exitEngine},
		{"--ulimit x " + dir, "", "ulimit", exitEngine},
		{"--add-host x " + dir, "", "x", exitEngine},
		{"--secret src=x " + dir, "", "it has no id", exitEngine},
		{"--secret id=x,src=/nothing " + dir, "", "no such file", exitEngine},
		{"--secret id=x,env=NOTHING " + dir, "", "the variable NOTHING is not set", exitEngine},
		{"--secret id=x,src=a,env=b " + dir, "", "cannot be combined", exitEngine},
		{"--secret id=x,mode=1 " + dir, "", `unknown key "mode"`, exitEngine},
		{"--secret id " + dir, "", "id has no value", exitEngine},
	} {
		b := newBuilder(t, builtAnswer)
		stdout, stderr, code := moss(t, b.Engine, tc.input, append([]string{"build"}, strings.Fields(tc.args)...)...)
		if stdout != "" || !strings.Contains(stderr, tc.want) || code != tc.code || b.query != nil {
			t.Errorf("build %s: %q, %q, %d, want %q, %d and no request", tc.args, stdout, stderr, code, tc.want, tc.code)
		}
	}
}

// TestBuildEnds has builds fail in every way, and quiet ones.
func TestBuildEnds(t *testing.T) {
	dir := folder(t, map[string]string{"Dockerfile": "FROM box\n"})
	idFile := filepath.Join(t.TempDir(), "id")
	const exit3 = `{"errorDetail":{"code":3,"message":"The command '/bin/sh -c exit 3' returned a non-zero code: 3"},"error":"…"}`
	for _, tc := range []struct {
		args, answer   string
		stdout, stderr string
		code           int
		id             string
	}{
		{"", `{"stream":"out\n"}` + exit3, "out\n", "moss: The command '/bin/sh -c exit 3' returned a non-zero code: 3\n", 3, ""},
		{"-q", `{"stream":"out\n"}` + exit3, "", "out\nmoss: The command '/bin/sh -c exit 3' returned a non-zero code: 3\n", 3, ""},
		{"", `{"stream":"out\n"}{"errorDetail":{"message":"no such image"},"error":"no such image"}`, "out\n", "moss: no such image\n", 1, ""},
		{"-q", `{"stream":"` + builtID + `\n"}`, builtID + "\n", "", 0, builtID},
		{"-q", `{"aux":{"ID":"` + builtID + `"}}{"stream":"` + builtID + `\n"}`, builtID + "\n", "", 0, builtID},
		{"", `{"stream":"out\n"}`, "out\n", "moss: write " + idFile + ": the engine did not tell the image's id\n", 1, ""},
	} {
		if err := os.WriteFile(idFile, []byte("stale"), 0o600); err != nil {
			t.Fatal(err)
		}
		b := newBuilder(t, tc.answer)
		args := append(append([]string{"build", "--iidfile", idFile}, strings.Fields(tc.args)...), dir)
		stdout, stderr, code := moss(t, b.Engine, "", args...)
		if stdout != tc.stdout || stderr != tc.stderr || code != tc.code {
			t.Errorf("build %s of %s: %q, %q, %d, want %q, %q, %d", tc.args, tc.answer, stdout, stderr, code, tc.stdout, tc.stderr, tc.code)
		}
		if raw, err := os.ReadFile(idFile); string(raw) != tc.id || (err == nil) != (tc.id != "") {
			t.Errorf("build %s of %s: the file of the id has %q, %v, want %q", tc.args, tc.answer, raw, err, tc.id)
		}
	}
	b := newBuilder(t, "")
	b.Override["POST /build"] = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		clienttest.Fail(w, http.StatusBadRequest, "dockerfile parse error line 3: unknown instruction: FOO")
	}
	if stdout, stderr, code := moss(t, b.Engine, "", "build", dir); stdout != "" || stderr != "moss: dockerfile parse error line 3: unknown instruction: FOO\n" || code != 1 {
		t.Errorf("a status: %q, %q, %d", stdout, stderr, code)
	}
}

// TestBuildOnATerminal runs a build in one, and ends it with Ctrl-C.
func TestBuildOnATerminal(t *testing.T) {
	dir := folder(t, map[string]string{"Dockerfile": "FROM box\n"})
	const first = `{"id":"0","aux":{"Stage":0,"Number":1,"Total":2,"Instruction":"FROM box","State":"cached"}}
		{"id":"0","aux":{"Stage":0,"Number":2,"Total":2,"Instruction":"RUN sleep","State":"started"}}{"id":"0","stream":"asleep\n"}`
	b := newBuilder(t, first+`{"stream":"Successfully built 0123456789ab\n"}`)
	term := onTerminal(t, b.Engine, "build", dir)
	term.await("[1/2] FROM box" + strings.Repeat(" ", 79) + "cached\r\n")
	term.await("Successfully built 0123456789ab")
	if code := term.exitCode(); code != 0 || b.query.Get("steps") != "1" {
		t.Errorf("exit code %d with query %v, want 0 and steps", code, b.query)
	}
	b = newBuilder(t, "")
	gone := make(chan struct{})
	b.Override["POST /build"] = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, first)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}
	term = onTerminal(t, b.Engine, "build", dir)
	term.await("  | asleep")
	term.typeIn("\x03")
	if code := term.exitCode(); code != 130 {
		t.Errorf("Ctrl-C: exit code %d, want 130", code)
	}
	<-gone
}
