package handler_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"moss/engine/container"
	"moss/engine/fault"
)

func TestVerbs(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct {
		method, path, body string
		status             int
		said               string
	}{
		{"POST", "/v1.24/containers/web/start", "", 204, "start web"},
		{"POST", "/containers//web/start", "", 204, "start web"},
		{"POST", "/containers/%2Fweb/start?detachKeys=ctrl-a", "", 204, `detach keys web "\x01"; start web`},
		{"POST", "/v1.24/containers/web/start", "{}", 204, "start web"},
		{"POST", "/v1.24/containers/web/start", `{"Binds":[]}`, 400, ""},
		{"POST", "/v1.23/containers/web/start", `{}`, 204, "start web"},
		{"POST", "/v1.23/containers/web/start", `{"Privileged":false}`, 204, "start web"},
		{"POST", "/v1.23/containers/web/start", `{"Privileged":true}`, 204, "reconfigure web privileged=true; start web"},
		{"POST", "/v1.18/containers/web/start", `{"Memory":"x"}`, 500, ""},
		{"POST", "/containers/web/stop", "", 204, "stop web default"},
		{"POST", "/v1.24/containers/web/start?detachKeys=ctrl-1", "", 500, ""},
		{"POST", "/containers/web/start?detachKeys=ctrl-1", "", 400, ""},
		{"POST", "/v1.21/containers/web/start?detachKeys=ctrl-1", "", 204, "start web"},
		{"POST", "/containers/web/pause", "", 204, "pause web"},
		{"POST", "/containers/web/unpause", "", 204, "unpause web"},
		{"POST", "/containers/web/update", `{"Memory":1}`, 200, "update web"},
		{"POST", "/containers/web/update", "", 200, "update web"},
		{"POST", "/containers/web/update", `{"Memory":"1"}`, 400, ""},
		{"POST", "/v1.21/containers/web/update", `{"Memory":1}`, 404, ""},
		{"POST", "/commit?container=web", "", 201, "commit web"},
		{"POST", "/commit?container=web", `{"Cmd":1}`, 400, ""},
		{"POST", "/containers/web/stop?t=5", "", 204, "stop web 5s"},
		{"POST", "/containers/web/stop?t=0", "", 204, "stop web 0s"},
		{"POST", "/containers/web/stop?t=-1", "", 204, "stop web -1s"},
		{"POST", "/containers/web/stop?t=x", "", 400, ""},
		{"POST", "/containers/web/stop?t=9223372036854775807", "", 400, ""},
		{"POST", "/containers/web/restart?t=7", "", 204, "restart web 7s"},
		{"POST", "/containers/web/restart", "", 204, "restart web default"},
		{"POST", "/containers/web/stop?signal=INT", "", 204, "stop web defaultINT"},
		{"POST", "/containers/web/restart?t=7&signal=9", "", 204, "restart web 7s9"},
		{"POST", "/containers/web/kill", "", 204, `kill web ""`},
		{"POST", "/containers/web/kill?signal=SIGINT", "", 204, `kill web "SIGINT"`},
		{"POST", "/containers/web/wait", "", 200, "wait web 0"},
		{"POST", "/v1.18/containers/web/wait?condition=not-running", "", 200, "wait web 0"},
		{"POST", "/containers/web/wait?condition=next-exit", "", 200, "wait web 1"},
		{"POST", "/containers/web/wait?condition=removed", "", 200, "wait web 2"},
		{"POST", "/containers/web/wait?condition=never", "", 400, ""},
		{"POST", "/containers/web/rename?name=/new", "", 204, "rename web /new"},
		{"POST", "/containers/web/rename", "", 400, ""},
		{"POST", "/containers/web/resize?h=24&w=80", "", 200, "resize web 80x24"},
		{"POST", "/v1.24/containers/web/resize?h=x&w=80", "", 500, ""},
		{"POST", "/containers/web/resize?h=x&w=80", "", 400, ""},
		{"POST", "/v1.24/containers/web/resize?w=80", "", 500, ""},
		{"POST", "/containers/web/resize?w=80", "", 400, ""},
		{"POST", "/v1.24/containers/web/resize?h=70000&w=80", "", 500, ""},
		{"POST", "/containers/web/resize?h=70000&w=80", "", 400, ""},
		{"POST", "/v1.24/containers/web/resize?h=-1&w=80", "", 500, ""},
		{"POST", "/containers/web/resize?h=-1&w=80", "", 400, ""},
		{"DELETE", "/containers/web", "", 204, "remove web {Force:false Volumes:false Link:false}"},
		{"DELETE", "/containers/web?v=1&force=true", "", 204, "remove web {Force:true Volumes:true Link:false}"},
		{"DELETE", "/containers/web/db?link=True", "", 204, "remove web/db {Force:false Volumes:false Link:true}"},
		{"GET", "/containers/web", "", 405, ""},
	} {
		status, body := a.ask(tc.method, tc.path, tc.body)
		if said := a.containers.said(); status != tc.status || said != tc.said {
			t.Errorf("%s %s %s = %d %q with calls %q, want %d, %q", tc.method, tc.path, tc.body, status, body, said, tc.status, tc.said)
		}
		if (status == 204 || tc.path == "/containers/web/resize?h=24&w=80") && body != "" {
			t.Errorf("%s %s: body %q, want none", tc.method, tc.path, body)
		}
	}
	if _, body := a.ask("POST", "/containers/web/wait", ""); body != "{\"StatusCode\":3}\n" {
		t.Errorf("wait = %q", body)
	}
}

// TestStartBodyOfNoType: what a client sends along is read or refused, not dropped, however old the client.
func TestStartBodyOfNoType(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct {
		version, body string
		status        int
	}{
		{"1.18", `{"Privileged":true}`, 500},
		{"1.23", `{"Privileged":true}`, 500},
		{"1.24", `{"Privileged":true}`, 400},
		{"1.18", `{}`, 204},
		{"1.23", `null`, 204},
		{"1.24", `{}`, 204},
	} {
		c := a.dial()
		_, err := fmt.Fprintf(c, "POST /v%s/containers/web/start HTTP/1.1\r\nHost: moss\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
			tc.version, len(tc.body), tc.body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close() //nolint:errcheck // Only the status counts.
		if resp.StatusCode != tc.status {
			t.Errorf("start at %s with %s and no Content-Type = %d, want %d", tc.version, tc.body, resp.StatusCode, tc.status)
		}
	}
}

// TestErrors asks every endpoint for a container at the ends of the error forms.
func TestErrors(t *testing.T) {
	a := newAPI(t)
	a.containers.record = nil
	for _, kind := range []struct {
		err    error
		status int
	}{
		{noSuch(), 404},
		{fault.Conflict("taken"), 409},
		{fault.Invalid("bad"), 400},
		{fault.NotAcceptable("no"), 406},
		{fault.Unsupported("no"), 501},
		{fault.Unavailable("later"), 503},
		{errors.New("trouble"), 500},
		{fmt.Errorf("start web: %w", fault.NotModified("already")), 304},
	} {
		a.containers.err = kind.err
		for _, endpoint := range []string{
			"GET /containers/json", "POST /containers/create", "GET /containers/nope/json", "GET /containers/nope/logs?stdout=1",
			"POST /containers/nope/start", "POST /containers/nope/stop", "POST /containers/nope/restart", "POST /containers/nope/kill",
			"POST /containers/nope/wait", "POST /containers/nope/attach?stream=1", "POST /containers/nope/resize?h=1&w=1",
			"POST /containers/nope/rename?name=x", "DELETE /containers/nope",
		} {
			if kind.status == 409 && strings.Contains(endpoint, "/resize") {
				continue // TestResizeRefused
			}
			method, path, _ := strings.Cut(endpoint, " ")
			body := ""
			if strings.HasSuffix(path, "create") {
				body = `{"Image":"x"}`
			}
			for version, want := range map[string]string{
				"": fmt.Sprintf("{\"message\":%q}\n", kind.err), "/v1.24": fmt.Sprintf("{\"message\":%q}\n", kind.err),
				"/v1.23": kind.err.Error() + "\n", "/v1.20": kind.err.Error() + "\n",
			} {
				if kind.status == 304 {
					want = ""
				}
				wanted := kind.status
				switch {
				case strings.Contains(path, "/attach") && want != "":
					want = kind.err.Error() + "\n" // in the stream's media type, at every version
				case strings.Contains(path, "/resize") && wanted == 400 && version != "":
					wanted = 500
				}
				if status, got := a.ask(method, version+path, body); status != wanted || got != want {
					t.Errorf("%s %s%s = %d %q, want %d %q", method, version, path, status, got, wanted, want)
				}
			}
		}
	}
}

func TestKillOfStopped(t *testing.T) {
	a := newAPI(t)
	a.containers.record.State = container.Exited
	a.containers.err = fault.Conflict("Container web is not running")
	for version, want := range map[string]int{"/v1.18": 204, "/v1.19": 204, "/v1.20": 409, "/v1.24": 409} {
		if status, _ := a.ask("POST", version+"/containers/web/kill", ""); status != want {
			t.Errorf("kill of a stopped container at %s = %d, want %d", version, status, want)
		}
	}
	a.containers.record.State = container.Running // its end has not been seen yet
	for cause, want := range map[error]int{fault.Conflict("the task is not running"): 204, errors.New("not permitted"): 409} {
		a.containers.err = fault.Conflict("Cannot kill container: web: %w", cause)
		if status, _ := a.ask("POST", "/v1.18/containers/web/kill", ""); status != want {
			t.Errorf("kill at 1.18 that fails since %v = %d, want %d", cause, status, want)
		}
	}
	a.containers.err = noSuch()
	if status, _ := a.ask("POST", "/v1.18/containers/web/kill", ""); status != 404 {
		t.Errorf("kill of no container at 1.18 = %d, want 404", status)
	}
}

// TestResizeRefused has the one status that the documents know for a container that cannot be resized.
func TestResizeRefused(t *testing.T) {
	a := newAPI(t)
	for err, want := range map[error]int{fault.Conflict("no terminal"): 500, noSuch(): 404} {
		a.containers.err = err
		if status, body := a.ask("POST", "/containers/web/resize?h=1&w=1", ""); status != want || !strings.Contains(body, err.Error()) {
			t.Errorf("resize with %v = %d %q, want %d", err, status, body, want)
		}
	}
}

func TestCreate(t *testing.T) {
	a := newAPI(t)
	status, body := a.ask("POST", "/v1.24/containers/create?name=web", `{
		"Image":"busybox","Cmd":"sh","AttachStdout":true,"Labels":{"a":"b"},"HostConfig":{"Memory":5,"AutoRemove":true,"ShmSize":7,"Dns":["192.0.2.1"]},
		"NetworkingConfig":{"EndpointsConfig":{"default":{"Aliases":["x"]}}}}`)
	if status != 201 || body != "{\"Id\":\"4fa6\",\"Warnings\":[]}\n" {
		t.Errorf("create = %d %q", status, body)
	}
	c := a.containers
	if said := c.said(); said != "create web" || c.created.Image != "busybox" || len(c.created.Cmd) != 1 || c.created.Labels["a"] != "b" {
		t.Errorf("create got %q, %+v", said, c.created)
	}
	if c.host.Memory != 5 || c.host.ShmSize != 7 || c.host.DNS[0] != "192.0.2.1" || c.nets["default"].Aliases[0] != "x" {
		t.Errorf("create got %+v, %+v", c.host, c.nets)
	}
	if !c.host.AutoRemove {
		t.Error("AutoRemove at 1.24 was dropped: nobody would remove the container")
	}
	a.containers.warnings = []string{"no limits"}
	if _, body := a.ask("POST", "/v1.18/containers/create", `{"Image":"b","Memory":9,"HostConfig":{"ShmSize":7}}`); !strings.Contains(body, `["no limits"]`) {
		t.Errorf("create = %q, want the warning", body)
	}
	if c.host.Memory != 9 || c.host.ShmSize != 0 {
		t.Errorf("create at 1.18 got %+v, want the memory of the top level and no ShmSize", c.host)
	}
	a.containers.said()
	for _, tc := range []struct{ body, want string }{
		{"", "Config cannot be empty in order to create a container"},
		{"null", "Config cannot be empty in order to create a container"},
		{"{", "ends too early"},
		{`{"Image":5}`, "invalid value for Image: got number, want a string"},
		{`{"HostConfig":{"Memory":"5"}}`, "invalid value for HostConfig.Memory: got string, want an integer"},
		{`{} {}`, "unexpected data after the value"},
	} {
		status, body := a.ask("POST", "/containers/create", tc.body)
		if status != 400 || !strings.Contains(body, tc.want) {
			t.Errorf("create with %q = %d %q, want 400 with %q", tc.body, status, body, tc.want)
		}
	}
	if said := a.containers.said(); said != "" {
		t.Errorf("bad bodies reached the engine: %s", said)
	}
}

// TestKnownValues asks for values of settings that versions do not have.
// TestLaterCreate: what later versions warn of, and what they choose where the client does not.
func TestLaterCreate(t *testing.T) {
	a := newAPI(t)
	const mounted = `{"Image":"box","HostConfig":{"VolumeDriver":"local","Mounts":[{"Type":"tmpfs","Target":"/x"}]}}`
	for version, want := range map[string]bool{"1.47": false, "1.48": true} {
		if status, body := a.ask("POST", "/v"+version+"/containers/create", mounted); status != 201 || strings.Contains(body, "VolumeDriver has no effect") != want {
			t.Errorf("create at %s = %d %s, want the warning: %v", version, status, body, want)
		}
	}
}

func TestKnownValues(t *testing.T) {
	a := newAPI(t)
	unlessStopped := `{"HostConfig":{"RestartPolicy":{"Name":"unless-stopped"}}}`
	for _, tc := range []struct {
		version, body, want string // of the answer; empty: the engine is asked
	}{
		{"1.20", unlessStopped, "invalid restart policy 'unless-stopped' at version 1.20"},
		{"1.21", unlessStopped, ""},
		{"1.18", `{"HostConfig":{"NetworkMode":"front"}}`, "invalid network mode 'front' at version 1.18"},
		{"1.20", `{"HostConfig":{"NetworkMode":"front"}}`, "invalid network mode 'front' at version 1.20"},
		{"1.21", `{"HostConfig":{"NetworkMode":"front"}}`, ""},
		{"1.18", `{"HostConfig":{"NetworkMode":"default"}}`, ""},
		{"1.18", `{"HostConfig":{"NetworkMode":"host"}}`, ""},
		{"1.18", `{"HostConfig":{"NetworkMode":"container:front"}}`, ""},
		{"1.23", `{"Hostname":"a_b"}`, ""},
		{"1.24", `{"Hostname":"a_b"}`, "invalid hostname format: a_b"},
		{"1.24", `{"Hostname":"-a"}`, "invalid hostname format: -a"},
		{"1.24", `{"Hostname":"a..b"}`, "invalid hostname format: a..b"},
		{"1.24", `{"Hostname":"` + strings.Repeat("a", 64) + `"}`, "invalid hostname format"},
		{"1.24", `{"Hostname":"a-b.c"}`, ""},
	} {
		status, body := a.ask("POST", "/v"+tc.version+"/containers/create", tc.body)
		asked := a.containers.said() != ""
		if asked != (tc.want == "") || !asked && (status != 400 || !strings.Contains(body, tc.want)) {
			t.Errorf("create at %s with %s = %d %q, the engine asked %v, want 400 with %q or the engine asked", tc.version, tc.body, status, body, asked, tc.want)
		}
	}
	status, body := a.ask("POST", "/v1.20/containers/web/start", `{"NetworkMode":"front"}`)
	if said := a.containers.said(); status != 500 || !strings.Contains(body, "front") || said != "" {
		t.Errorf("start at 1.20 in a network = %d %q with calls %q, want 500 and none", status, body, said)
	}
}

// A container that cannot be measured is listed without sizes, and so are all others with theirs.
func TestListsOfWhatCannotBeMeasured(t *testing.T) {
	a := newAPI(t)
	a.containers.sizeErr = errors.New("too deep")
	for _, path := range []string{"/containers/json?size=1", "/system/df"} {
		if status, body := a.ask("GET", path, ""); status != 200 || !strings.Contains(body, `"Id":"4fa6e0`) || strings.Contains(body, "SizeRw") {
			t.Errorf("%s = %d %q, want 200 with the container, without its sizes", path, status, body)
		}
	}
	if status, _ := a.ask("GET", "/containers/web/json?size=1", ""); status != 500 {
		t.Errorf("inspect of what cannot be measured = %d, want 500", status)
	}
	a.containers.sizeErr = fault.NotFound("gone")
	if status, body := a.ask("GET", "/containers/json?size=1", ""); status != 200 || body != "[]\n" {
		t.Errorf("list with a container that has gone meanwhile = %d %q, want none", status, body)
	}
}

func TestListAndInspect(t *testing.T) {
	a := newAPI(t)
	for path, want := range map[string]string{
		"/containers/json":                                              "list {All:false Limit:0 Since: Before: Filters:map[]}",
		"/containers/json?all=1":                                        "list {All:true Limit:0 Since: Before: Filters:map[]}",
		"/containers/json?limit=3&since=a&before=b":                     "list {All:false Limit:3 Since:a Before:b Filters:map[]}",
		"/containers/json?limit=-1":                                     "list {All:false Limit:0 Since: Before: Filters:map[]}",
		"/containers/json?filters=%7B%22status%22%3A%5B%22a%22%5D%7D":   "list {All:false Limit:0 Since: Before: Filters:map[status:[a]]}",
		"/containers/json?size=1":                                       "list {All:false Limit:0 Since: Before: Filters:map[]}; size 4fa6e0",
		"/containers/json?filters=%7B%22l%22%3A%7B%22a%22%3Atrue%7D%7D": "list {All:false Limit:0 Since: Before: Filters:map[l:[a]]}",
	} {
		status, body := a.ask("GET", path, "")
		if said := a.containers.said(); status != 200 || said != want {
			t.Errorf("%s = %d %q with calls %q, want %q", path, status, body, said, want)
		}
		if sized := strings.Contains(body, `"SizeRw":10,"SizeRootFs":20`); sized != strings.Contains(path, "size") {
			t.Errorf("%s = %q: sizes there %v", path, body, sized)
		}
	}
	for _, path := range []string{"/containers/json?limit=x", "/containers/json?filters=x"} {
		if status, body := a.ask("GET", path, ""); status != 400 {
			t.Errorf("%s = %d %q, want 400", path, status, body)
		}
	}
	a.containers.record = nil
	if _, body := a.ask("GET", "/containers/json", ""); body != "[]\n" {
		t.Errorf("no containers = %q, want []", body)
	}

	a = newAPI(t)
	for path, sized := range map[string]bool{
		"/v1.24/containers/web/json": false, "/v1.24/containers/web/json?size=1": true, "/v1.20/containers/web/json?size=1": false,
	} {
		status, body := a.ask("GET", path, "")
		if status != 200 || field(t, body, "Name") != "/web" || field(t, body, "State", "Running") != true {
			t.Errorf("%s = %d %q", path, status, body)
		}
		if got := field(t, body, "SizeRw") != nil; got != sized {
			t.Errorf("%s: size there %v, want %v", path, got, sized)
		}
	}
}

// TestListFiltersByVersion has 400 for the filters and states that a version does not have.
func TestListFiltersByVersion(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct {
		key, value, before, first string
	}{
		{"isolation", "default", "1.21", "1.22"},
		{"ancestor", "busybox", "1.23", "1.24"},
		{"before", "web", "1.23", "1.24"},
		{"since", "web", "1.23", "1.24"},
		{"volume", "/data", "1.23", "1.24"},
		{"network", "bridge", "1.23", "1.24"},
		{"status", "created", "1.19", "1.20"},
		{"status", "dead", "1.21", "1.22"},
	} {
		query := fmt.Sprintf("/containers/json?filters=%%7B%%22%s%%22%%3A%%5B%%22%s%%22%%5D%%7D", tc.key, tc.value)
		if status, body := a.ask("GET", "/v"+tc.before+query, ""); status != 400 || !strings.Contains(body, tc.key) {
			t.Errorf("%s=%s at %s = %d %q, want 400 naming it", tc.key, tc.value, tc.before, status, body)
		}
		if status, body := a.ask("GET", "/v"+tc.first+query, ""); status != 200 {
			t.Errorf("%s=%s at %s = %d %q, want 200", tc.key, tc.value, tc.first, status, body)
		}
	}
}
