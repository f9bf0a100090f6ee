package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"moss/api/client/clienttest"
)

// moss runs the command in this process against a fake engine, with input as its stdin.
func moss(t *testing.T, engine *clienttest.Engine, input string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return mossAt(t, engine, nil, input, args...)
}

// mossAt is moss with an environment, which names the engine if that is nil.
func mossAt(t *testing.T, engine *clienttest.Engine, env map[string]string, input string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	go func() {
		_, _ = io.WriteString(writer, input)
		_ = writer.Close()
	}()
	var out, errs bytes.Buffer
	a := &app{
		stdin: reader, stdout: &out, stderr: &errs, completion: time.Minute,
		lookup: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
	}
	if engine != nil {
		args = append([]string{"--host", engine.Host()}, args...)
	}
	code = a.runArgs(args)
	return out.String(), errs.String(), code
}

func TestRun(t *testing.T) {
	engine := clienttest.New(t)
	engine.Process = func(_ io.Reader, stdout, stderr io.Writer, _ <-chan string) int {
		_, _ = io.WriteString(stdout, "out\n")
		_, _ = io.WriteString(stderr, "err\n")
		return 7
	}
	stdout, stderr, code := moss(t, engine, "", "run", "--rm", "--name", "web", "box", "prog", "-x")
	if stdout != "out\n" || stderr != "err\n" || code != 7 {
		t.Errorf("got %q, %q, %d, want out, err, 7", stdout, stderr, code)
	}
	ctr := "/containers/" + clienttest.ID
	want := []string{
		"POST /containers/create?name=web", "POST " + ctr + "/attach?stderr=1&stdout=1&stream=1", "POST " + ctr + "/start",
		"POST " + ctr + "/wait", "DELETE " + ctr + "?v=1",
	}
	if got := engine.Requests(); !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
	if host, _ := engine.Created()["HostConfig"].(map[string]any); host["AutoRemove"] != nil {
		t.Errorf("AutoRemove = %v for an attached run, want it left out: the exit code could be gone", host["AutoRemove"])
	}
}

func TestRunDetached(t *testing.T) {
	engine := clienttest.New(t)
	stdout, stderr, code := moss(t, engine, "", "run", "-d", "--rm", "box")
	if stdout != clienttest.ID+"\n" || stderr != "" || code != 0 {
		t.Errorf("got %q, %q, %d, want the id", stdout, stderr, code)
	}
	if host, _ := engine.Created()["HostConfig"].(map[string]any); host["AutoRemove"] != true || len(engine.Requests()) != 2 {
		t.Errorf("AutoRemove = %v and requests %q, want true and two", host["AutoRemove"], engine.Requests())
	}
}

// TestRunPipes sends input through a container that echoes it, in frames that arrive in small pieces, and goes on
// writing after the end of its input.
func TestRunPipes(t *testing.T) {
	engine := clienttest.New(t)
	engine.Chunk = 1000
	engine.Process = func(stdin io.Reader, stdout, stderr io.Writer, _ <-chan string) int {
		hash := sha256.New()
		_, _ = io.CopyBuffer(struct{ io.Writer }{stdout}, io.TeeReader(stdin, hash), make([]byte, 30_000))
		_, _ = fmt.Fprintf(stderr, "%x", hash.Sum(nil))
		return 0
	}
	input := strings.Repeat("0123456789\x10\x11\x00\xff moss", 1<<18)
	stdout, stderr, code := moss(t, engine, input, "run", "-i", "box", "cat")
	if code != 0 || stdout != input || stderr != fmt.Sprintf("%x", sha256.Sum256([]byte(input))) {
		t.Errorf("exit code %d, %d bytes came back of %d, hash %s", code, len(stdout), len(input), stderr)
	}
}

// TestRunInputNobodyReads ends although its input has neither an end nor a reader.
func TestRunInputNobodyReads(t *testing.T) {
	engine := clienttest.New(t)
	engine.Process = func(io.Reader, io.Writer, io.Writer, <-chan string) int { return 3 }
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	defer func() { _ = reader.Close() }()
	a := &app{stdin: reader, stdout: io.Discard, stderr: io.Discard, lookup: os.LookupEnv}
	if code := a.runArgs([]string{"-H", engine.Host(), "run", "-i", "box"}); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
}

func TestRunStartFails(t *testing.T) {
	for message, want := range map[string]int{
		`exec: "nope": executable file not found in $PATH`:                                                             exitNotFound,
		"open executable: No such file or directory: OCI runtime error":                                                exitNotFound,
		"crun: executable file `nope` not found in $PATH: No such file":                                                exitNotFound,
		"exec: \"/etc\": permission denied":                                                                            exitNotRunable,
		"open executable: Permission denied: OCI permission denied":                                                    exitNotRunable,
		"exec /script: exec format error":                                                                              exitNotRunable,
		"driver failed programming external connectivity\nport is in use":                                              exitEngine,
		"driver failed programming external connectivity on endpoint 7: Bind for 0.0.0.0:80 failed: permission denied": exitEngine,
		"bind source path does not exist and cannot be made: mkdir /nosuch: permission denied":                         exitEngine,
		"bind source path cannot be used: stat /root/x: permission denied":                                             exitEngine,
		"OCI runtime create failed: crun: error stat'ing file `/dev/nosuch`: No such file or directory":                exitEngine,
		"OCI runtime create failed: crun: mount `/a` to `/b`: Is a directory":                                          exitEngine,
	} {
		engine := clienttest.New(t)
		engine.Override["POST /containers/"+clienttest.ID+"/start"] = func(w http.ResponseWriter, _ *http.Request) {
			clienttest.Fail(w, http.StatusInternalServerError, message)
		}
		_, stderr, code := moss(t, engine, "", "run", "--rm", "box", "nope")
		if code != want || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "moss: ") {
			t.Errorf("%q: exit code %d, stderr %q, want %d and one line", message, code, stderr, want)
		}
		last := engine.Requests()[len(engine.Requests())-1]
		if last != "DELETE /containers/"+clienttest.ID+"?force=1&v=1" {
			t.Errorf("%q: the last request is %s, want the removal", message, last)
		}
	}
}

func TestPortTaken(t *testing.T) {
	const taken = "start p2: Bind for 0.0.0.0:8080 failed: port is already allocated"
	created := " (container p2 is created and not started; remove it with 'moss rm p2')"
	holder := `[{"Names":["/p0"],"Ports":[{"PublicPort":808}]},{"Names":["/p1"],"Ports":[{"PrivatePort":80},{"PublicPort":8080}]}]`
	for _, tc := range []struct {
		args, running, want string
		code                int
	}{
		{"run -p 8080:80 box", holder, taken + " to container p1" + created, exitEngine},
		{"run -d -p 8080:80 box", holder, taken + " to container p1" + created, exitEngine},
		{"run -d --rm -p 8080:80 box", holder, taken + " to container p1", exitEngine},
		{"run -p 8080:80 box", "[]", taken + created, exitEngine},
		{"start p2", holder, taken + " to container p1", exitFailed},
		{"start -a p2", holder, taken + " to container p1", exitEngine},
	} {
		engine := clienttest.New(t)
		refuse := func(w http.ResponseWriter, _ *http.Request) {
			clienttest.Fail(w, http.StatusInternalServerError, taken)
		}
		engine.Override["POST /containers/"+clienttest.ID+"/start"], engine.Override["POST /containers/p2/start"] = refuse, refuse
		record := answer(`{"Id":"` + clienttest.ID + `","Name":"/p2","State":{"Status":"created"}}`)
		engine.Override["GET /containers/"+clienttest.ID+"/json"], engine.Override["GET /containers/p2/json"] = record, record
		engine.Override["GET /containers/json"] = answer(tc.running)
		if _, stderr, code := moss(t, engine, "", strings.Fields(tc.args)...); code != tc.code || stderr != "moss: "+tc.want+"\n" {
			t.Errorf("moss %s: %q, %d, want %q, %d", tc.args, stderr, code, tc.want, tc.code)
		}
	}
}

func TestRunStartFailsByRecord(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /containers/"+clienttest.ID+"/start"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Fail(w, http.StatusInternalServerError, "the runtime speaks in tongues")
	}
	engine.Override["GET /containers/"+clienttest.ID+"/json"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.JSON(w, http.StatusOK, map[string]any{"Id": clienttest.ID, "State": map[string]any{"ExitCode": 126}})
	}
	if _, stderr, code := moss(t, engine, "", "run", "box"); code != exitNotRunable {
		t.Errorf("exit code %d, stderr %q, want 126 from the record", code, stderr)
	}
}

func TestRunImageMissing(t *testing.T) {
	for pull, want := range map[string]string{
		"missing": "Unable to find image 'box' locally\nmoss: pull box: no such repository\n",
		"never":   "moss: image box is not here; download it with 'moss pull', 'moss load' or 'moss import'\n",
		"always":  "moss: pull box: no such repository\n",
	} {
		engine := clienttest.New(t)
		engine.Override["POST /containers/create"] = func(w http.ResponseWriter, _ *http.Request) {
			clienttest.Fail(w, http.StatusNotFound, "No such image: box:latest")
		}
		engine.Override["POST /images/create"] = func(w http.ResponseWriter, _ *http.Request) {
			clienttest.Fail(w, http.StatusNotFound, "no such repository")
		}
		_, stderr, code := moss(t, engine, "", "run", "--pull", pull, "box")
		if code != exitEngine || stderr != want {
			t.Errorf("pull %s: exit code %d, stderr %q, want %q", pull, code, stderr, want)
		}
	}
}

func TestRunPullsMissingImage(t *testing.T) {
	const found = "Unable to find image 'reg:5000/box' locally\n"
	for args, want := range map[string]string{"run -d": found + "abc: Pulling\n", "run -d -q": "", "create": found + "abc: Pulling\n"} {
		engine := clienttest.New(t)
		pulled := false
		engine.Override["POST /containers/create"] = func(w http.ResponseWriter, _ *http.Request) {
			if !pulled {
				clienttest.Fail(w, http.StatusNotFound, "No such image: reg:5000/box:latest")
				return
			}
			clienttest.JSON(w, http.StatusCreated, map[string]any{"Id": clienttest.ID})
		}
		engine.Override["POST /images/create"] = func(w http.ResponseWriter, r *http.Request) {
			pulled = r.URL.RawQuery == "fromImage=reg%3A5000%2Fbox&tag=latest"
			_, _ = io.WriteString(w, `{"status":"Pulling","id":"abc"}`)
		}
		stdout, stderr, code := moss(t, engine, "", append(strings.Fields(args), "reg:5000/box")...)
		if code != 0 || stdout != clienttest.ID+"\n" || stderr != want {
			t.Errorf("moss %s: got %q, %q, %d, want the id and %q", args, stdout, stderr, code, want)
		}
	}
}

func TestMissingNetworkIsNotAMissingImage(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /networks/mine"] = answer(`{"Id":"1"}`) // it goes between the two requests
	engine.Override["POST /containers/create"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Fail(w, http.StatusNotFound, "network mine not found")
	}
	engine.Override["GET /images/box/json"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.JSON(w, http.StatusOK, map[string]any{"Id": "sha256:1"})
	}
	if _, stderr, code := moss(t, engine, "", "run", "--network", "mine", "box"); code != exitEngine || stderr != "moss: network mine not found\n" {
		t.Errorf("exit code %d, stderr %q, want the engine's own words", code, stderr)
	}
}

func TestCIDFile(t *testing.T) {
	engine := clienttest.New(t)
	path := filepath.Join(t.TempDir(), "id")
	if _, stderr, code := moss(t, engine, "", "create", "--cidfile", path, "box"); code != 0 {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != clienttest.ID {
		t.Errorf("cidfile holds %q, %v", raw, err)
	}
	if _, _, code := moss(t, engine, "", "create", "--cidfile", path, "box"); code != exitEngine {
		t.Errorf("a cidfile that exists: exit code %d, want 125", code)
	}
	engine.Override["POST /containers/create"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Fail(w, http.StatusConflict, "name taken")
	}
	other := filepath.Join(t.TempDir(), "id")
	if _, _, code := moss(t, engine, "", "create", "--cidfile", other, "box"); code != exitEngine {
		t.Errorf("exit code %d, want 125", code)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a failed create leaves its cidfile behind")
	}
}

func TestRunForwardsSignals(t *testing.T) {
	engine := clienttest.New(t)
	engine.Process = func(_ io.Reader, stdout, _ io.Writer, signals <-chan string) int {
		_, _ = io.WriteString(stdout, "got "+<-signals)
		return 128 + 10
	}
	go func() {
		if wasAsked(engine, "POST /containers/"+clienttest.ID+"/wait") { // the command has left its setup
			_ = syscall.Kill(os.Getpid(), syscall.SIGUSR1)
		}
	}()
	stdout, stderr, code := moss(t, engine, "", "run", "box")
	if stdout != "got 10" || code != 138 || stderr != "" {
		t.Errorf("got %q, %q, %d, want signal 10 and 138", stdout, stderr, code)
	}
}

// told is a buffer that tells of its first text.
type told struct {
	bytes.Buffer

	once sync.Once
	some chan struct{}
}

func (b *told) Write(p []byte) (int, error) {
	defer b.once.Do(func() { close(b.some) })
	return b.Buffer.Write(p)
}

func TestEngineDiesMidway(t *testing.T) {
	engine := clienttest.New(t)
	out := &told{some: make(chan struct{})}
	engine.Process = func(_ io.Reader, stdout, _ io.Writer, signals <-chan string) int {
		_, _ = io.WriteString(stdout, "begun")
		<-out.some
		_ = wasAsked(engine, "POST /containers/"+clienttest.ID+"/wait")
		go engine.Kill()
		<-signals
		return 0
	}
	var errs bytes.Buffer
	a := &app{stdin: os.Stdin, stdout: out, stderr: &errs, lookup: func(string) (string, bool) { return "", false }}
	code := a.runArgs([]string{"--host", engine.Host(), "run", "--rm", "box"})
	if out.String() != "begun" || code != exitEngine || !strings.Contains(errs.String(), "lost the connection to the engine") {
		t.Errorf("got %q, %q, %d, want 125 and a lost connection", out, &errs, code)
	}
	close(engine.Signals())
}

func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	engine := clienttest.New(t)
	engine.Process = func(_ io.Reader, stdout, _ io.Writer, _ <-chan string) int {
		_, _ = io.WriteString(stdout, "text")
		return 0
	}
	var stderr bytes.Buffer
	a := &app{stdin: nil, stdout: full, stderr: &stderr, lookup: os.LookupEnv}
	if code := a.runArgs([]string{"-H", engine.Host(), "run", "box"}); code != exitEngine || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit code %d, stderr %q, want 125 and the reason", code, stderr.String())
	}
}
