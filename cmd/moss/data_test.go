package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"moss/api/client/clienttest"
)

func TestLooks(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /containers/web/top"] = answer(`{"Titles":["PID","CMD"],"Processes":[["1","sleep\u001b 9"],["12345678901","x"]]}`)
	engine.Override["GET /containers/web/changes"] = answer(`[{"Path":"/a","Kind":0},{"Path":"/b","Kind":1},{"Path":"/c","Kind":2},{"Path":"/d","Kind":9}]`)
	engine.Override["GET /containers/web/json"] = answer(`{"Id":"1","NetworkSettings":{"Ports":{"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"8080"},{"HostIp":"::","HostPort":"8080"}],"53/udp":null}}}`)
	for _, tc := range []struct {
		args, stdout, stderr, last string
		code                       int
	}{
		{"top web -eo pid,args", "PID           CMD\n1             sleep? 9\n12345678901   x\n", "", "GET /containers/web/top?ps_args=-eo+pid%2Cargs", 0},
		{"top web", "PID           CMD\n1             sleep? 9\n12345678901   x\n", "", "GET /containers/web/top", 0},
		{"diff web", "C /a\nA /b\nD /c\n? /d\n", "", "GET /containers/web/changes", 0},
		{"port web", "80/tcp -> 0.0.0.0:8080\n80/tcp -> [::]:8080\n", "", "GET /containers/web/json", 0},
		{"port web 80", "0.0.0.0:8080\n[::]:8080\n", "", "GET /containers/web/json", 0},
		{"port web 53/udp", "", "moss: container web publishes no port 53/udp\n", "GET /containers/web/json", 1},
		{"diff gone", "", "moss: no such thing: /containers/gone/changes\n", "GET /containers/gone/changes", 1},
	} {
		stdout, stderr, code := moss(t, engine, "", strings.Fields(tc.args)...)
		requests := engine.Requests()
		if stdout != tc.stdout || stderr != tc.stderr || code != tc.code || requests[len(requests)-1] != tc.last {
			t.Errorf("moss %s: %q, %q, %d after %s", tc.args, stdout, stderr, code, requests[len(requests)-1])
		}
	}
}

func TestExportFile(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /containers/web/export"] = answer("an archive")
	engine.Override["GET /containers/cut/export"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "web.tar")
	if stdout, stderr, code := moss(t, engine, "", "export", "web"); stdout != "an archive" || stderr != "" || code != 0 {
		t.Errorf("export: %q, %q, %d", stdout, stderr, code)
	}
	if _, stderr, code := moss(t, engine, "", "export", "-o", path, "web"); stderr != "" || code != 0 {
		t.Errorf("export -o: %q, %d", stderr, code)
	}
	if _, stderr, code := moss(t, engine, "", "export", "-o", path, "cut"); code != exitFailed || !strings.Contains(stderr, "lost the connection") {
		t.Errorf("a stream that is cut: %q, %d", stderr, code)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "an archive" {
		t.Errorf("the file holds %q, %v, want what it held before the failure", raw, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("the folder holds %v, %v, want one file", names, err)
	}
	if _, stderr, code := moss(t, engine, "", "export", "-o", "/dev/null", "web"); stderr != "" || code != 0 {
		t.Errorf("export to a device: %q, %d", stderr, code)
	}
	if _, _, code := moss(t, engine, "", "export", "-o", dir, "web"); code != exitFailed {
		t.Errorf("export to a folder: exit code %d, want 1", code)
	}
}

func TestCommitCommand(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /commit"] = answer(`{"Id":"sha256:77"}`)
	stdout, stderr, code := moss(t, engine, "", "commit", "-a", "me", "-m", "why", "-c", "CMD a", "-p=false", "web", "reg:5000/box:v1")
	if stdout != "sha256:77\n" || stderr != "" || code != 0 {
		t.Errorf("got %q, %q, %d", stdout, stderr, code)
	}
	_, _, _ = moss(t, engine, "", "commit", "web")
	want := []string{
		"POST /commit?author=me&changes=CMD+a&comment=why&container=web&pause=0&repo=reg%3A5000%2Fbox&tag=v1",
		"POST /commit?container=web&pause=1",
	}
	if got := engine.Requests(); !reflect.DeepEqual(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

func TestUpdateCommand(t *testing.T) {
	engine := clienttest.New(t)
	var body map[string]any
	engine.Override["POST /containers/web/update"] = func(w http.ResponseWriter, r *http.Request) {
		body = nil
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		clienttest.JSON(w, http.StatusOK, map[string]any{"Warnings": []string{"no swap limit"}})
	}
	for args, want := range map[string]map[string]any{
		"-m 64m --memory-swap -1 --memory-reservation 1m --kernel-memory 2m": {"Memory": 67108864.0, "MemorySwap": -1.0, "MemoryReservation": 1048576.0, "KernelMemory": 2097152.0},
		"--cpus 1.5 -c 512":                         {"NanoCpus": 1500000000.0, "CpuShares": 512.0},
		"--cpu-period 1000 --cpu-quota 500":         {"CpuPeriod": 1000.0, "CpuQuota": 500.0},
		"--cpuset-cpus 0-1 --cpuset-mems 0":         {"CpusetCpus": "0-1", "CpusetMems": "0"},
		"--blkio-weight 500 --restart on-failure:3": {"BlkioWeight": 500.0, "RestartPolicy": map[string]any{"Name": "on-failure", "MaximumRetryCount": 3.0}},
	} {
		stdout, stderr, code := moss(t, engine, "", append(append([]string{"update"}, strings.Fields(args)...), "web")...)
		if stdout != "web\n" || stderr != "moss: warning: no swap limit\n" || code != 0 || !reflect.DeepEqual(body, want) {
			t.Errorf("update %s: %q, %q, %d with %v, want %v", args, stdout, stderr, code, body, want)
		}
	}
	for _, args := range []string{"web", "-m x web", "--cpus 1 --cpu-quota 5 web", "--restart often web", "-m 5m"} {
		if _, stderr, code := moss(t, engine, "", append([]string{"update"}, strings.Fields(args)...)...); code != exitEngine || strings.Count(stderr, "\n") != 1 {
			t.Errorf("update %s: %q, %d, want 125 and one line", args, stderr, code)
		}
	}
}

func TestCheckCommand(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /info"] = answer(`{"Warnings":["no limits"]}`)
	if stdout, stderr, code := moss(t, engine, "", "system", "check"); stdout != "No damaged files are known.\n" || stderr != "" || code != 0 {
		t.Errorf("got %q, %q, %d", stdout, stderr, code)
	}
	engine.Override["GET /info"] = answer(`{"Warnings":["no limits","damaged: engine.json: empty\u001b"]}`)
	if stdout, stderr, code := moss(t, engine, "", "system", "check"); !strings.HasPrefix(stdout, "engine.json: empty") ||
		strings.Contains(stdout, "\x1b") || strings.Count(stdout, "\n") != 1 || stderr != "" || code != exitFailed {
		t.Errorf("got %q, %q, %d", stdout, stderr, code)
	}
}

func TestPlatformFlags(t *testing.T) {
	const arm = "=%7B%22architecture%22%3A%22arm64%22%2C%22os%22%3A%22linux%22%7D"
	const amd = "=%7B%22architecture%22%3A%22amd64%22%2C%22os%22%3A%22linux%22%7D"
	for args, want := range map[string]string{
		"create --platform linux/arm64 box":                         "POST /containers/create?platform=linux%2Farm64",
		"run --platform linux/arm64 --name x box":                   "POST /containers/create?name=x&platform=linux%2Farm64",
		"create --pull always --platform linux/arm64 box":           "POST /images/create?fromImage=box&platform=linux%2Farm64&tag=latest",
		"history --platform linux/arm64 box":                        "GET /images/box/history?platform" + arm,
		"image inspect --platform arm64 box":                        "GET /images/box/json?platform" + arm,
		"push --platform linux/arm64 box:v1":                        "POST /images/box/push?platform" + arm + "&tag=v1",
		"rmi --platform linux/arm64 --platform linux/amd64 box":     "DELETE /images/box?platforms" + arm + "&platforms" + amd,
		"rmi --platform linux/arm64,linux/amd64 box":                "DELETE /images/box?platforms" + arm + "&platforms" + amd,
		"save --platform linux/arm64 box":                           "GET /images/get?names=box&platform" + arm,
		"load --platform linux/arm64 -i /dev/null":                  "POST /images/load?platform" + arm + "&quiet=0",
		"import --platform linux/arm64 http://example.test/a.tar a": "POST /images/create?fromSrc=http%3A%2F%2Fexample.test%2Fa.tar&platform=linux%2Farm64&repo=a",
	} {
		engine := clienttest.New(t)
		if _, stderr, _ := moss(t, engine, "", strings.Fields(args)...); !slices.Contains(engine.Requests(), want) {
			t.Errorf("moss %s: requests %q, %q, want %s", args, engine.Requests(), stderr, want)
		}
		wrong := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(args, "linux/arm64", "a/b/c/d"), " arm64", " a/b/c/d"))
		if _, stderr, code := moss(t, clienttest.New(t), "", wrong...); code != exitEngine || !strings.HasPrefix(stderr, "moss: platform ") {
			t.Errorf("moss %s: %q, %d, want 125 and the reason", wrong, stderr, code)
		}
	}
}

func TestPauseCommands(t *testing.T) {
	engine := clienttest.New(t)
	for _, verb := range []string{"pause", "unpause"} {
		engine.Override["POST /containers/web/"+verb] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
		stdout, stderr, code := moss(t, engine, "", verb, "web", "gone")
		if stdout != "web\n" || stderr != "moss: no such thing: /containers/gone/"+verb+"\n" || code != exitFailed {
			t.Errorf("%s: %q, %q, %d", verb, stdout, stderr, code)
		}
	}
}

func TestVolumes(t *testing.T) {
	engine := clienttest.New(t)
	var body map[string]any
	engine.Override["POST /volumes/create"] = func(w http.ResponseWriter, r *http.Request) {
		body = nil
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		clienttest.JSON(w, http.StatusCreated, map[string]any{"Name": "data"})
	}
	engine.Override["GET /volumes"] = answer(`{"Volumes":[{"Name":"z","Driver":"local","Labels":{"a.b-c":"1"},"Mountpoint":"/m"},{"Name":"data","Driver":"local"}],"Warnings":null}`)
	engine.Override["GET /volumes/data"] = answer(`{"Name":"data"}`)
	engine.Override["DELETE /volumes/data"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	stdout, stderr, code := moss(t, engine, "", "volume", "create", "-d", "local", "-o", "type=tmpfs", "--label", "a=b", "data")
	want := map[string]any{"Name": "data", "Driver": "local", "DriverOpts": map[string]any{"type": "tmpfs"}, "Labels": map[string]any{"a": "b"}}
	if stdout != "data\n" || stderr != "" || code != 0 || !reflect.DeepEqual(body, want) {
		t.Errorf("create: %q, %q, %d with %v, want %v", stdout, stderr, code, body, want)
	}
	for _, tc := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"volume ls", "DRIVER    VOLUME NAME\nlocal     data\nlocal     z\n", "", 0},
		{"volume ls -q", "data\nz\n", "", 0},
		{`volume ls --format {{.Name}}:{{.Label\x20"a.b-c"}}`, "data:\nz:1\n", "", 0},
		{`volume ls --format table\x20{{.Name}}\t{{.Label\x20"a.b-c"}}`, "VOLUME NAME   b c\ndata          \nz             1\n", "", 0},
		{"volume inspect --format {{.Name}} data", "data\n", "", 0},
		{"volume inspect data", "[\n    {\n        \"Name\": \"data\"\n    }\n]\n", "", 0},
		{"inspect --format {{.Name}} data", "data\n", "", 0},
		{"inspect --type volume --format {{.Name}} data", "data\n", "", 0},
		{"volume rm data gone", "data\n", "moss: no such thing: /volumes/gone\n", 1},
		{"volume rm -f gone", "gone\n", "", 0},
	} {
		fields := strings.Fields(tc.args)
		for i := range fields {
			fields[i] = strings.ReplaceAll(fields[i], `\x20`, " ")
		}
		if stdout, stderr, code := moss(t, engine, "", fields...); stdout != tc.stdout || stderr != tc.stderr || code != tc.code {
			t.Errorf("moss %s: %q, %q, %d, want %q, %q, %d", tc.args, stdout, stderr, code, tc.stdout, tc.stderr, tc.code)
		}
	}
	for _, sub := range (&app{lookup: os.LookupEnv}).volumeCommand().Commands() {
		if sub.Short == "" || sub.Example == "" {
			t.Errorf("moss volume %s has no short text or no example", sub.Name())
		}
	}
}
