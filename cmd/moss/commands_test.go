package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/api/client/clienttest"
)

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func TestList(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /containers/json"] = answer(`[{"Id":"` + clienttest.ID + `","Names":["/web","/other/alias"],
		"Image":"box","Command":"httpd -f -p 8080 --and-more","Created":1,"State":"running","Status":"Up 3 minutes",
		"Ports":[{"IP":"::","PrivatePort":80,"PublicPort":8080,"Type":"tcp"},{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":8080,"Type":"tcp"},
		{"PrivatePort":53,"Type":"udp"}],"Labels":{"b":"2","a":"1"},"SizeRw":1234,"SizeRootFs":2000000}]`)
	stdout, stderr, code := moss(t, engine, "", "ps", "-a", "-s", "--filter", "status=running")
	lines := strings.Split(stdout, "\n")
	if code != 0 || stderr != "" || len(lines) != 3 {
		t.Fatalf("got %q, %q, %d", stdout, stderr, code)
	}
	if want := "CONTAINER ID   IMAGE     COMMAND                  CREATED        STATUS         PORTS"; !strings.HasPrefix(lines[0], want) {
		t.Errorf("heading %q, want %q", lines[0], want)
	}
	for _, want := range []string{
		"0123456789ab   box", `"httpd -f -p 8080 --…"`, "Up 3 minutes", "53/udp, 0.0.0.0:8080->80/tcp, [::]:8080->80/tcp",
		"web   ", "1.23kB (virtual 2MB)",
	} {
		if !strings.Contains(lines[1], want) {
			t.Errorf("row %q lacks %q", lines[1], want)
		}
	}
	if want := "GET /containers/json?all=1&filters=%7B%22status%22%3A%5B%22running%22%5D%7D&size=1"; engine.Requests()[0] != want {
		t.Errorf("request %s, want %s", engine.Requests()[0], want)
	}
	for _, tc := range []struct{ args, want string }{
		{"ps -q", "0123456789ab\n"},
		{"ps -q --no-trunc", clienttest.ID + "\n"},
		{"ps --format {{.Names}}:{{.Labels}}", "web:a=1,b=2\n"},
		{"ps --no-trunc --format {{.Names}}", "web,other/alias\n"},
		{`ps --format {{.Label\t"a"}}{{.Label\t"none"}}`, "1\n"},
		{`ps --format {{.ID}}\t{{.State}}`, "0123456789ab\trunning\n"},
	} {
		if stdout, stderr, _ := moss(t, engine, "", strings.Fields(tc.args)...); stdout != tc.want {
			t.Errorf("moss %s: %q, %q, want %q", tc.args, stdout, stderr, tc.want)
		}
	}
	if stdout, _, _ := moss(t, engine, "", "ps", "--format", "table {{.Names}}\t{{.State}}"); stdout != "NAMES     STATE\nweb       running\n" {
		t.Errorf("table of a template: %q", stdout)
	}
	if stdout, _, _ := moss(t, engine, "", "ps", "--format", "json"); !strings.HasPrefix(stdout, `{"Command":`) || !strings.HasSuffix(stdout, "}\n") {
		t.Errorf("json: %q", stdout)
	}
	if _, stderr, code := moss(t, engine, "", "ps", "--format", "{{.Nonsense}}"); code != exitFailed || !strings.Contains(stderr, "Nonsense") {
		t.Errorf("a field that is none: exit code %d, stderr %q", code, stderr)
	}
}

func TestImages(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /images/json"] = answer(`[
		{"Id":"sha256:0123456789abcdef","RepoTags":["reg:5000/a/box:v1","box:latest"],"RepoDigests":["box@sha256:77"],"Created":1,"Size":4670000},
		{"Id":"sha256:fedcba9876543210","RepoTags":["<none>:<none>"],"RepoDigests":["<none>@<none>"],"Created":1,"Size":12}]`)
	stdout, _, _ := moss(t, engine, "", "images", "--digests", "--format", "{{.Repository}}|{{.Tag}}|{{.Digest}}|{{.ID}}|{{.Size}}")
	want := "reg:5000/a/box|v1|<none>|0123456789ab|4.67MB\nbox|latest|sha256:77|0123456789ab|4.67MB\n<none>|<none>|<none>|fedcba987654|12B\n"
	if stdout != want {
		t.Errorf("images:\n%swant:\n%s", stdout, want)
	}
	if stdout, _, _ := moss(t, engine, "", "images", "-q", "--no-trunc", "box"); stdout != "sha256:0123456789abcdef\nsha256:fedcba9876543210\n" {
		t.Errorf("images -q: %q", stdout)
	}
	if last := engine.Requests()[1]; last != "GET /images/json?filter=box" {
		t.Errorf("request %s, want the name as filter", last)
	}
}

func TestInspect(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /containers/web/json"] = answer(`{"Id":"1","Name":"/web","State":{"ExitCode":0,"Pid":12345678},"Config":{"Env":["A=<1>"]}}`)
	engine.Override["GET /images/box/json"] = answer(`{"Id":"sha256:2"}`)
	engine.Override["GET /networks/front"] = answer(`{"Name":"front","IPAM":{"Config":[{"Subnet":"10.7.0.0/24"}]}}`)
	stdout, stderr, code := moss(t, engine, "", "inspect", "web", "none", "box")
	want := "[\n    {\n        \"Id\": \"1\",\n        \"Name\": \"/web\",\n        \"State\": {\n            \"ExitCode\": 0,\n" +
		"            \"Pid\": 12345678\n        },\n        \"Config\": {\n            \"Env\": [\n                \"A=<1>\"\n" +
		"            ]\n        }\n    },\n    {\n        \"Id\": \"sha256:2\"\n    }\n]\n"
	if stdout != want || stderr != "moss: no container, image, volume or network is named none\n" || code != exitFailed {
		t.Errorf("got %s, %q, %d", stdout, stderr, code)
	}
	for format, want := range map[string]string{
		"{{.State.Pid}} {{if eq .State.ExitCode 0}}well{{end}}": "12345678 well\n",
		"{{json .Config.Env}} {{join .Config.Env `,`}}":         `["A=<1>"] A=<1>` + "\n",
		"json": `{"Config":{"Env":["A=<1>"]},"Id":"1","Name":"/web","State":{"ExitCode":0,"Pid":12345678}}` + "\n",
	} {
		if stdout, stderr, _ := moss(t, engine, "", "inspect", "-f", format, "web"); stdout != want {
			t.Errorf("inspect -f %q: %q, %q, want %q", format, stdout, stderr, want)
		}
	}
	if _, _, code := moss(t, engine, "", "inspect", "--type", "container", "box"); code != exitFailed {
		t.Errorf("an image as a container: exit code %d, want 1", code)
	}
	for _, args := range [][]string{{"inspect"}, {"inspect", "--type", "network"}, {"network", "inspect"}} {
		stdout, stderr, code := moss(t, engine, "", append(args, "-f", "{{.Name}} {{(index .IPAM.Config 0).Subnet}}", "front")...)
		if stdout != "front 10.7.0.0/24\n" || stderr != "" || code != 0 {
			t.Errorf("%s of a network: %q, %q, %d", args, stdout, stderr, code)
		}
	}
	if stdout, _, _ := moss(t, engine, "", "inspect", "none"); stdout != "[]\n" {
		t.Errorf("inspect of nothing: %q, want an empty array", stdout)
	}
}

func TestVerbs(t *testing.T) {
	engine := clienttest.New(t)
	done := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	for _, path := range []string{"a/stop", "b/stop", "a/kill", "a/restart", "a/start", "a/rename"} {
		engine.Override["POST /containers/"+path] = done
	}
	engine.Override["DELETE /containers/a"] = done
	engine.Override["POST /containers/a/wait"] = answer(`{"StatusCode":9}`)
	engine.Override["POST /containers/b/stop"] = func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Millisecond) // the other's answer is there first: the order of the output is that of the arguments all the same
		done(w, r)
	}
	for _, tc := range []struct {
		args, stdout, stderr string
		code                 int
		request              string
	}{
		{"stop -t 3 b a", "b\na\n", "", 0, "POST /containers/a/stop?t=3"},
		{"stop a none", "a\n", "moss: no such thing: /containers/none/stop\n", 1, "POST /containers/none/stop"},
		{"stop -s HUP -t -1 a", "a\n", "", 0, "POST /containers/a/stop?signal=HUP&t=-1"},
		{"restart --signal 2 a", "a\n", "", 0, "POST /containers/a/restart?signal=2"},
		{"stop --timeout 0 a", "a\n", "", 0, "POST /containers/a/stop?t=0"},
		{"restart a", "a\n", "", 0, "POST /containers/a/restart"},
		{"kill -s HUP a", "a\n", "", 0, "POST /containers/a/kill?signal=HUP"},
		{"restart -t 0 a", "a\n", "", 0, "POST /containers/a/restart?t=0"},
		{"start a", "a\n", "", 0, "POST /containers/a/start"},
		{"rename a z", "", "", 0, "POST /containers/a/rename?name=z"},
		{"wait a", "9\n", "", 0, "POST /containers/a/wait"},
		{"rm -fv a", "a\n", "", 0, "DELETE /containers/a?force=1&v=1"},
		{"rm -f none", "none\n", "", 0, "DELETE /containers/none?force=1"},
		{"rm none", "", "moss: no such thing: /containers/none\n", 1, "DELETE /containers/none"},
	} {
		stdout, stderr, code := moss(t, engine, "", strings.Fields(tc.args)...)
		if stdout != tc.stdout || stderr != tc.stderr || code != tc.code || !slices.Contains(engine.Requests(), tc.request) {
			t.Errorf("moss %s: %q, %q, %d, want %q, %q, %d and %s among %q",
				tc.args, stdout, stderr, code, tc.stdout, tc.stderr, tc.code, tc.request, engine.Requests())
		}
	}
}

func TestLogs(t *testing.T) {
	for _, tty := range []bool{false, true} {
		engine := clienttest.New(t)
		record := `{"Id":"1","Config":{"Tty":false}}`
		if tty {
			record = `{"Id":"1","Config":{"Tty":true}}`
		}
		engine.Override["GET /containers/web/json"] = answer(record)
		engine.Override["GET /containers/1/logs"] = func(w http.ResponseWriter, _ *http.Request) {
			if tty {
				_, _ = io.WriteString(w, "raw\r\n")
				return
			}
			_, _ = (&clienttest.Frames{W: w, Stream: 1}).Write([]byte("out\n"))
			_, _ = (&clienttest.Frames{W: w, Stream: 2}).Write([]byte("err\n"))
		}
		stdout, stderr, code := moss(t, engine, "", "logs", "-ft", "--tail", "3", "--since", "5", "web")
		wantOut, wantErr := "out\n", "err\n"
		if tty {
			wantOut, wantErr = "raw\r\n", ""
		}
		if stdout != wantOut || stderr != wantErr || code != 0 {
			t.Errorf("tty %t: got %q, %q, %d", tty, stdout, stderr, code)
		}
		// The time of the first of the last lines would take the place of their number. These have none.
		for i, want := range []string{
			"GET /containers/1/logs?since=5&stderr=1&stdout=1&tail=4&timestamps=1",
			"GET /containers/1/logs?follow=1&since=5&stderr=1&stdout=1&tail=3&timestamps=1",
		} {
			if got := engine.Requests()[1+i]; got != want {
				t.Errorf("request %s, want %s", got, want)
			}
		}
	}
}

func TestLogsUntil(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /containers/web/json"] = answer(`{"Id":"1","Config":{"Tty":true}}`)
	engine.Override["GET /containers/1/logs"] = answer("2026-01-02T03:04:05Z line\n")
	for args, want := range map[string]string{
		"--until 5":      "GET /containers/1/logs?stderr=1&stdout=1&tail=all&until=5",
		"-n 0 --until 5": "GET /containers/1/logs?stderr=1&stdout=1&tail=0&until=5",
		"--since 2026-01-02T03:04:05Z --until 2026-01-02T03:04:05.5Z": "GET /containers/1/logs?since=1767323045.000000000" +
			"&stderr=1&stdout=1&tail=all&until=1767323045.500000000",
		"-f -n 1 --until 1767323046": "GET /containers/1/logs?follow=1&stderr=1&stdout=1&tail=all&until=1767323046",
	} {
		stdout, stderr, code := moss(t, engine, "", append(append([]string{"logs"}, strings.Fields(args)...), "web")...)
		if !slices.Contains(engine.Requests(), want) || !strings.HasSuffix(stdout, " line\n") || stderr != "" || code != 0 {
			t.Errorf("logs %s: %q, %q, %d, want %s among %q", args, stdout, stderr, code, want, engine.Requests())
		}
	}
	if _, stderr, code := moss(t, engine, "", "logs", "--until", "never", "web"); code != exitEngine || !strings.HasPrefix(stderr, "moss: time ") {
		t.Errorf("logs --until never: %q, %d, want 125 and the reason", stderr, code)
	}
}

func TestImport(t *testing.T) {
	engine := clienttest.New(t)
	var body, length string
	engine.Override["POST /images/create"] = func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body, length = string(raw), r.Header.Get("Content-Length")
		_, _ = io.WriteString(w, `{"status":"sha256:77"}`)
	}
	path := filepath.Join(t.TempDir(), "root.tar")
	if err := os.WriteFile(path, []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := moss(t, engine, "", "import", "-m", "why", "-c", "CMD [\"sh\"]", path, "reg:5000/box:v1")
	if stdout != "sha256:77\n" || stderr != "" || code != 0 || body != "archive" || length != "7" {
		t.Errorf("got %q, %q, %d, body %q of length %s", stdout, stderr, code, body, length)
	}
	if want := "POST /images/create?changes=CMD+%5B%22sh%22%5D&fromSrc=-&message=why&repo=reg%3A5000%2Fbox&tag=v1"; engine.Requests()[0] != want {
		t.Errorf("request %s, want %s", engine.Requests()[0], want)
	}
	if _, _, code := moss(t, engine, "from a pipe", "import", "-"); code != 0 || body != "from a pipe" {
		t.Errorf("exit code %d, body %q", code, body)
	}
	if _, _, code := moss(t, engine, "", "import", "https://x.example/y.tar", "box"); code != 0 || body != "" {
		t.Errorf("import of a URL: exit code %d, body %q", code, body)
	}
	if last := engine.Requests()[2]; last != "POST /images/create?fromSrc=https%3A%2F%2Fx.example%2Fy.tar&repo=box" {
		t.Errorf("request %s, want the URL as the source", last)
	}
	for _, source := range []string{t.TempDir() + "/none", t.TempDir(), "ftp://x/y.tar"} {
		if _, stderr, code := moss(t, engine, "", "import", source); code != exitFailed || !strings.HasPrefix(stderr, "moss: ") {
			t.Errorf("import %s: exit code %d, stderr %q, want 1 and a reason", source, code, stderr)
		}
	}
}

func TestEventsAndInfo(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /events"] = answer(`{"status":"die","Type":"container","Action":"die","Actor":{"ID":"x","Attributes":{"name":"web\u001b[2J","exitCode":"3"}},"time":1,"timeNano":1000000005}` + "\n")
	stdout, _, code := moss(t, engine, "", "events", "--filter", "event=die", "--until", "5")
	if !strings.HasSuffix(stdout, " container die x (exitCode=3, name=web?[2J)\n") || code != 0 {
		t.Errorf("events: %q, %d", stdout, code)
	}
	if stdout, _, _ := moss(t, engine, "", "events", "--format", "{{.Action}} {{.Actor.Attributes.exitCode}}"); stdout != "die 3\n" {
		t.Errorf("events --format: %q", stdout)
	}
	engine.Override["GET /info"] = answer(`{"Containers":3,"MemTotal":8000000000,"Driver":"overlay","DriverStatus":[["Backing","ext4"]],"Labels":["tier=dev"],"Warnings":["no limits"]}`)
	stdout, stderr, _ := moss(t, engine, "", "info")
	if want := "Containers: 3\nStorage driver: overlay\nMemory: 8GB\nLabels:\n tier=dev\nStorage:\n Backing: ext4\n"; stdout != want || stderr != "moss: warning: no limits\n" {
		t.Errorf("info: %q, %q, want %q", stdout, stderr, want)
	}
	engine.Override["GET /version"] = answer(`{"Version":"0.1","ApiVersion":"1.24","Os":"linux","Arch":"amd64"}`)
	if stdout, _, _ := moss(t, engine, "", "version", "--format", "{{.Server.Version}}/{{.Client.Version}}"); stdout != "0.1/dev\n" {
		t.Errorf("version: %q", stdout)
	}
	engine.Kill()
	stdout, stderr, code = moss(t, engine, "", "version")
	if code != exitFailed || !strings.HasPrefix(stdout, "Client:") || !strings.HasPrefix(stderr, "moss: no engine at ") {
		t.Errorf("version without an engine: %q, %q, %d", stdout, stderr, code)
	}
	if _, stderr, code := moss(t, engine, "", "version", "--client"); code != 0 || stderr != "" {
		t.Errorf("version --client: %q, %d", stderr, code)
	}
}

func TestAttachCommand(t *testing.T) {
	engine := clienttest.New(t)
	state := `{"Id":"` + clienttest.ID + `","State":{"Running":false},"Config":{"OpenStdin":true}}`
	engine.Override["GET /containers/web/json"] = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, state) }
	if _, stderr, code := moss(t, engine, "", "attach", "web"); code != exitFailed || !strings.Contains(stderr, "is not running") {
		t.Errorf("attach to a stopped container: exit code %d, stderr %q", code, stderr)
	}
	engine.Process = func(stdin io.Reader, stdout, _ io.Writer, _ <-chan string) int {
		_, _ = io.Copy(stdout, stdin)
		return 4
	}
	if stdout, stderr, code := moss(t, engine, "hello", "start", "-ai", "web"); stdout != "hello" || code != 4 {
		t.Errorf("start -ai: %q, %q, %d, want hello and 4", stdout, stderr, code)
	}
}

func TestNearestCommand(t *testing.T) {
	if _, stderr, code := moss(t, clienttest.New(t), "", "fly"); code != exitEngine || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, stderr %q, want 125 and one line", code, stderr)
	}
}

// TestHelp makes sure that every command has a short text, an example and a group.
func TestHelp(t *testing.T) {
	a := &app{lookup: os.LookupEnv}
	for _, cmd := range a.rootCommand(nil).Commands() {
		if cmd.Short == "" || cmd.Example == "" || cmd.GroupID == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("moss %s: short %q, example %q, group %q", cmd.Name(), cmd.Short, cmd.Example, cmd.GroupID)
		}
	}
}

// TestOneCommandIsMade makes sure that a command is found under its name, alone, and that all are there otherwise.
func TestOneCommandIsMade(t *testing.T) {
	a := &app{lookup: os.LookupEnv}
	for _, c := range a.allCommands() {
		if made := a.rootCommand([]string{"-H", "unix:///x", c.name, "run"}).Commands(); len(made) != 1 || made[0].Name() != c.name {
			t.Errorf("moss %s: %d commands are made, the first is %s", c.name, len(made), made[0].Name())
		}
	}
	for args, want := range map[string]string{
		"--host x ps -a": "ps", "-Hx ps": "ps", "--host=x --version": "", "": "", "-H": "", "help run": "help", "-- run": "run",
	} {
		if got := commandName(strings.Fields(args)); got != want {
			t.Errorf("commandName(%s) = %q, want %q", args, got, want)
		}
	}
	if all := a.rootCommand([]string{"help", "run"}).Commands(); len(all) != len(a.allCommands()) {
		t.Errorf("moss help run makes %d commands, want all %d", len(all), len(a.allCommands()))
	}
}

func TestUnknownCommand(t *testing.T) {
	for args, want := range map[string]string{
		"imges":      "moss: unknown command \"imges\" (did you mean 'images'?); see 'moss --help'\n",
		"biuld":      "moss: unknown command \"biuld\" (did you mean 'build'?); see 'moss --help'\n",
		"frobnicate": "moss: unknown command \"frobnicate\"; see 'moss --help'\n",
		"x":          "moss: unknown command \"x\"; see 'moss --help'\n",
		"image prun": "moss: unknown command \"prun\" (did you mean 'prune'?); see 'moss image --help'\n",
	} {
		if _, stderr, code := mossAt(t, nil, nil, "", strings.Fields(args)...); code != exitEngine || stderr != want {
			t.Errorf("moss %s: %q, %d, want %q, 125", args, stderr, code, want)
		}
	}
}

func TestHostOfTheEnvironmentIsNamed(t *testing.T) {
	gone := "unix://" + filepath.Join(t.TempDir(), "none")
	for _, tc := range []struct {
		name, host, want string
	}{
		{"DOCKER_HOST", gone, "moss: no engine at " + gone + ": no such file or directory (DOCKER_HOST names that host)\n"},
		{"MOSS_HOST", gone, "moss: no engine at " + gone + ": no such file or directory (MOSS_HOST names that host)\n"},
		{"DOCKER_HOST", "ssh://x", "moss: DOCKER_HOST: host \"ssh://x\": moss speaks unix:// and tcp://\n"},
	} {
		if _, stderr, code := mossAt(t, nil, map[string]string{tc.name: tc.host}, "", "ps"); code != exitFailed || stderr != tc.want {
			t.Errorf("%s=%s: %q, %d, want %q", tc.name, tc.host, stderr, code, tc.want)
		}
	}
	if _, stderr, _ := mossAt(t, nil, map[string]string{"DOCKER_HOST": gone}, "", "rm", "a"); strings.Count(stderr, "DOCKER_HOST") != 1 {
		t.Errorf("rm: %q, want the variable once", stderr)
	}
}
