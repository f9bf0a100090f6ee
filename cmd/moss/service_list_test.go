package main

import (
	"encoding/binary"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"moss/api/client/clienttest"
)

const (
	webRecord = `{"ID":"0123456789abcdef012345678","Spec":{"Name":"web","Labels":{"a":"1"},"TaskTemplate":{"ContainerSpec":{"Image":"box:1@sha256:77"}},` +
		`"Mode":{"Replicated":{"Replicas":2}}},"Endpoint":{"Ports":[{"PublishedPort":8080,"TargetPort":80}]}}`
	allRecord = `{"ID":"fedcba9876543210fedcba987","Spec":{"Name":"all","TaskTemplate":{"ContainerSpec":{"Image":"box"}},"Mode":{"Global":{}}}}`
	webTasks  = `{"ID":"t1aaaaaaaaaaaaaaaaaaaaaaa","CreatedAt":"2026-01-01T00:00:02Z","ServiceID":"0123456789abcdef012345678","Slot":1,"NodeID":"n1","DesiredState":"running",` +
		`"Status":{"State":"running","Timestamp":"2026-01-01T00:00:03Z"},"Spec":{"ContainerSpec":{"Image":"box:1@sha256:77"}}},` +
		`{"ID":"t0aaaaaaaaaaaaaaaaaaaaaaa","CreatedAt":"2026-01-01T00:00:01Z","ServiceID":"0123456789abcdef012345678","Slot":1,"NodeID":"n2","DesiredState":"shutdown",` +
		`"Status":{"State":"failed","Err":"task: non-zero exit (7): this is an error","Timestamp":"2026-01-01T00:00:01Z"},"Spec":{"ContainerSpec":{"Image":"box:1@sha256:77"}}},` +
		`{"ID":"t2aaaaaaaaaaaaaaaaaaaaaaa","CreatedAt":"2026-01-01T00:00:02Z","ServiceID":"0123456789abcdef012345678","Slot":2,"NodeID":"n2","DesiredState":"running",` +
		`"Status":{"State":"running","Timestamp":"2026-01-01T00:00:03Z"},"Spec":{"ContainerSpec":{"Image":"box:1@sha256:77"}}}`
	allTasks = `{"ID":"t3aaaaaaaaaaaaaaaaaaaaaaa","ServiceID":"fedcba9876543210fedcba987","NodeID":"n1","DesiredState":"running","Status":{"State":"starting"},` +
		`"Spec":{"ContainerSpec":{"Image":"box"}}}`
)

// serviceEngine is an engine on the manager desk with two services; the node lap is down.
func serviceEngine(t *testing.T) *clienttest.Engine {
	t.Helper()
	engine, _ := swarmEngine(t, "false")
	engine.Override["GET /services"] = answer("[" + webRecord + "," + allRecord + "]")
	engine.Override["GET /services/web"] = answer(webRecord)
	engine.Override["GET /tasks"] = answer("[" + allTasks + "," + webTasks + "]")
	return engine
}

func TestServiceList(t *testing.T) {
	engine := serviceEngine(t)
	for _, tc := range []struct{ args, want, request string }{
		{
			"service ls", "ID             NAME      MODE         REPLICAS   IMAGE     PORTS\n" +
				"fedcba987654   all       global       0/1        box       \n0123456789ab   web       replicated   1/2        box:1     *:8080->80/tcp\n", "GET /services",
		},
		{"service ls -q", "fedcba987654\n0123456789ab\n", "GET /services"},
		{"service ls -q -f mode=global -f name=x", "fedcba987654\n", "GET /services?filters=%7B%22name%22%3A%5B%22x%22%5D%7D"},
		{"service list --no-trunc --format {{.ID}}|{{.Image}}|{{.Labels}}|{{.Replicas}}", "fedcba9876543210fedcba987|box||0/1\n0123456789abcdef012345678|box:1@sha256:77|a=1|1/2\n", "GET /tasks"},
		{"service inspect -f {{.Spec.Name}} web", "web\n", "GET /services/web"},
		{"__complete service rm w", "web\n:4\n", "GET /services"},
		{"__complete service scale w", "web=\n:6\n", "GET /services"},
		{"__complete service create --constraint node.hostname==d", "node.hostname==desk\n:4\n", "GET /nodes"},
		{"__complete service create --constraint node.role", "node.role==manager\nnode.role==worker\n:6\n", ""},
		{"__complete service update --restart-condition n", "none\non-failure\nany\n:4\n", ""},
		{"__complete service create --mode g", "replicated\nglobal\n:4\n", ""},
		{"__complete service create --log-driver local --log-opt max-f", "max-file=\n:6\n", ""},
	} {
		before := len(engine.Requests())
		stdout, stderr, code := moss(t, engine, "", splitLine(tc.args)...)
		requests := engine.Requests()[before:]
		if stdout != tc.want || code != 0 || tc.request != "" && !slices.Contains(requests, tc.request) || tc.request == "" && len(requests) > 0 {
			t.Errorf("moss %s: %q, %q, %d after %q, want %q after %s", tc.args, stdout, stderr, code, requests, tc.want, tc.request)
		}
	}
	stdout, _, _ := moss(t, engine, "", "service", "ls", "-q")
	if got := engine.Requests(); stdout == "" || got[len(got)-1] != "GET /services" {
		t.Errorf("ids only: %q, want no request for tasks", got[len(got)-1])
	}
}

func TestServiceRemove(t *testing.T) {
	engine := serviceEngine(t)
	engine.Override["DELETE /services/web"] = answer("")
	if stdout, stderr, code := moss(t, engine, "", "service", "rm", "web", "gone"); stdout != "web\n" || stderr != "moss: no such thing: /services/gone\n" || code != exitFailed {
		t.Errorf("got %q, %q, %d", stdout, stderr, code)
	}
}

func TestTaskList(t *testing.T) {
	engine := serviceEngine(t)
	const format = "{{.ID}}|{{.Name}}|{{.Image}}|{{.Node}}|{{.DesiredState}}|{{.Error}}"
	for _, tc := range []struct{ args, want, request string }{
		{
			"service ps --format " + format + " web", "t3aaaaaaaaaa|all.n1|box|desk|Running|\nt1aaaaaaaaaa|web.1|box:1|desk|Running|\n" +
				"t0aaaaaaaaaa|web.1|box:1|lap|Shutdown|\"task: non-zero exit (7): this…\"\nt2aaaaaaaaaa|web.2|box:1|lap|Running|\n",
			"GET /tasks?filters=%7B%22service%22%3A%5B%220123456789abcdef012345678%22%5D%7D",
		},
		{"service ps -q -f desired-state=running web", "t3aaaaaaaaaa\nt1aaaaaaaaaa\nt0aaaaaaaaaa\nt2aaaaaaaaaa\n", "GET /tasks?filters=%7B%22desired-state%22%3A%5B%22running%22%5D%2C%22service%22%3A%5B%220123456789abcdef012345678%22%5D%7D"},
		{"node ps -q", "t3aaaaaaaaaa\nt1aaaaaaaaaa\nt0aaaaaaaaaa\nt2aaaaaaaaaa\n", "GET /tasks?filters=%7B%22node%22%3A%5B%22n1%22%5D%7D"},
		{"node ps -q self lap", "t3aaaaaaaaaa\nt1aaaaaaaaaa\nt0aaaaaaaaaa\nt2aaaaaaaaaa\n", "GET /tasks?filters=%7B%22node%22%3A%5B%22n1%22%2C%22n2%22%5D%7D"},
		{"service ps --no-trunc --format {{.ID}}~{{.Image}}~{{.Error}} web", "t3aaaaaaaaaaaaaaaaaaaaaaa box \nt1aaaaaaaaaaaaaaaaaaaaaaa box:1@sha256:77 \n" +
			"t0aaaaaaaaaaaaaaaaaaaaaaa box:1@sha256:77 \"task: non-zero exit (7): this is an error\"\nt2aaaaaaaaaaaaaaaaaaaaaaa box:1@sha256:77 \n", "GET /nodes"},
	} {
		stdout, stderr, code := moss(t, engine, "", splitLine(tc.args)...)
		if stdout != tc.want || stderr != "" || code != 0 || !slices.Contains(engine.Requests(), tc.request) {
			t.Errorf("moss %s: %q, %q, %d after %q, want %q after %s", tc.args, stdout, stderr, code, engine.Requests(), tc.want, tc.request)
		}
	}
	stdout, _, _ := moss(t, engine, "", "service", "ps", "web")
	lines := strings.Split(stdout, "\n")
	if len(lines) != 6 || !strings.HasPrefix(lines[0], "ID             NAME       IMAGE     NODE      DESIRED STATE   CURRENT STATE") ||
		!strings.HasPrefix(lines[3], `t0aaaaaaaaaa   \_ web.1   box:1     lap       Shutdown        Failed `) || !strings.Contains(lines[2], " ago") || !strings.Contains(lines[1], "Starting    ") {
		t.Errorf("service ps:\n%s", stdout)
	}
	if _, stderr, code := moss(t, engine, "", "service", "ps", "-f", "service=x", "web"); code != exitFailed || !strings.Contains(stderr, "not a filter") {
		t.Errorf("a filter of its own: %q, %d", stderr, code)
	}
	if _, stderr, code := moss(t, engine, "", "service", "ps", "gone"); code != exitFailed || stderr != "moss: no such thing: /services/gone\n" {
		t.Errorf("a missing service: %q, %d", stderr, code)
	}
}

// answerStates answers with one state of the tasks after the other, and stays with the last.
func answerStates(rows ...string) http.HandlerFunc {
	next := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "["+rows[min(next, len(rows)-1)]+"]")
		next++
	}
}

func TestServiceWait(t *testing.T) {
	const service = `{"ID":"77","Spec":{"Name":"web","TaskTemplate":{"ContainerSpec":{"Image":"box"}},"Mode":{"Replicated":{"Replicas":1}}}}`
	task := func(state, more string) string {
		return `{"Slot":1,"DesiredState":"running","Status":{"State":"` + state + `"` + more + `},"Spec":{"ContainerSpec":{"Image":"box"}}}`
	}
	engine := clienttest.New(t)
	engine.Override["POST /services/create"] = answer(`{"ID":"77"}`)
	engine.Override["GET /services/77"] = answer(service)
	engine.Override["GET /tasks"] = answerStates("", task("preparing", ""), task("pending", `,"Err":"no suitable node"`), task("running", ""))
	stdout, stderr, code := moss(t, engine, "", "service", "create", "--name", "web", "box")
	const want = "overall progress: 0 out of 1 tasks\n1/1: pending: no suitable node\noverall progress: 1 out of 1 tasks\nservice web converged\n"
	if stdout != "77\n" || stderr != want || code != 0 {
		t.Errorf("create: %q, %q, %d, want %q", stdout, stderr, code, want)
	}
	if got := engine.Requests(); got[len(got)-1] != "GET /tasks?filters=%7B%22service%22%3A%5B%2277%22%5D%7D" {
		t.Errorf("last request %s, want the service's tasks", got[len(got)-1])
	}
	engine.Override["GET /tasks"] = answerStates(task("starting", ""), task("running", ""))
	if stdout, stderr, code := moss(t, engine, "", "service", "create", "-q", "box"); stdout != "77\n" || stderr != "" || code != 0 {
		t.Errorf("create -q: %q, %q, %d", stdout, stderr, code)
	}
	engine.Override["POST /services/77/update"] = answer("")
	engine.Override["GET /services/77"] = answer(strings.TrimSuffix(service, "}") + `,"UpdateStatus":{"State":"paused","Message":"task failed"}}`)
	engine.Override["GET /tasks"] = answerStates(strings.ReplaceAll(task("running", ""), "box", "old"))
	if stdout, stderr, code := moss(t, engine, "", "service", "update", "-q", "--force", "77"); stdout != "77\n" || code != exitFailed ||
		stderr != "moss: wait for service web: the update is paused: task failed\n" {
		t.Errorf("a paused update: %q, %q, %d", stdout, stderr, code)
	}
	engine.Override["GET /services/77"] = answerStates(service)
	if stdout, stderr, code := moss(t, engine, "", "service", "scale", "77=1"); code != exitFailed || !strings.Contains(stderr, "decode service 77") {
		t.Errorf("an answer that is no service: %q, %q, %d", stdout, stderr, code)
	}
}

// TestServiceWaitInterrupted: an interrupt ends the wait, and the service goes on.
func TestServiceWaitInterrupted(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /services/create"] = answer(`{"ID":"77"}`)
	engine.Override["GET /services/77"] = answer(`{"ID":"77","Spec":{"Name":"web"}}`)
	var once sync.Once
	engine.Override["GET /tasks"] = func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) }) // the command waits, so that it catches it
		_, _ = io.WriteString(w, "[]")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		stdout, stderr, code := moss(t, engine, "", "service", "create", "-q", "box")
		if stdout != "77\n" || code != 0 || stderr != "moss: the service goes on in the background; see 'moss service ps web'\n" {
			t.Errorf("got %q, %q, %d", stdout, stderr, code)
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the interrupt does not end the wait")
	}
}

func TestServiceLogs(t *testing.T) {
	ctr := func(id, service, task string) string {
		return `{"Id":"` + id + `","Labels":{"com.docker.swarm.service.id":"` + service + `id","com.docker.swarm.service.name":"` + service +
			`","com.docker.swarm.task.id":"` + task + `","com.docker.swarm.task.name":"` + service + `.1.` + task + `"}}`
	}
	engine := serviceEngine(t)
	engine.Override["GET /containers/json"] = answer("[" + ctr("c2", "web", "t2aaaaaaaaaaaaaaaaaaaaaaa") + "," + ctr("c1", "web", "t1aaaaaaaaaaaaaaaaaaaaaaa") + "," + ctr("c3", "db", "t9") + "]")
	for _, id := range []string{"c1", "c2", "c3"} {
		engine.Override["GET /containers/"+id+"/json"] = answer(`{"Id":"` + id + `","Config":{}}`)
		engine.Override["GET /containers/"+id+"/logs"] = func(w http.ResponseWriter, _ *http.Request) {
			line := "of " + id + "\n"
			_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{1, 0, 0, 0}, uint32(len(line))), line...))
		}
	}
	const elsewhere = "moss: warning: not on this node, so that their logs are not shown: web.2 (lap)\n"
	for _, tc := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"web", "web.1.t1aaaaaaaaaa | of c1\nweb.1.t2aaaaaaaaaa | of c2\n", elsewhere, 0},
		{"--no-trunc web", "web.1.t1aaaaaaaaaaaaaaaaaaaaaaa | of c1\nweb.1.t2aaaaaaaaaaaaaaaaaaaaaaa | of c2\n", elsewhere, 0},
		{"--raw web", "of c1\nof c2\n", elsewhere, 0},
		{"t1aaaaaaaaaa", "web.1.t1aaaaaaaaaa | of c1\n", "", 0},
		{"db", "db.1.t9 | of c3\n", "", 0},
		{"gone", "", "moss: no such thing: /services/gone\n", exitFailed},
		{"--since x web", "", "", exitEngine},
	} {
		stdout, stderr, code := moss(t, engine, "", append([]string{"service", "logs"}, splitLine(tc.args)...)...)
		if stdout != tc.stdout || tc.code != exitEngine && stderr != tc.stderr || code != tc.code {
			t.Errorf("service logs %s: %q, %q, %d, want %q, %q, %d", tc.args, stdout, stderr, code, tc.stdout, tc.stderr, tc.code)
		}
	}
	if want := "GET /containers/json?all=1&filters=%7B%22label%22%3A%5B%22com.docker.swarm.service.name%22%5D%7D"; engine.Requests()[0] != want {
		t.Errorf("request %s, want %s", engine.Requests()[0], want)
	}
	// A worker says nothing of services: its own containers are shown all the same.
	engine.Override["GET /services/web"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Fail(w, http.StatusNotAcceptable, "This node is not a swarm manager.")
	}
	if stdout, stderr, code := moss(t, engine, "", "service", "logs", "--raw", "web"); stdout != "of c1\nof c2\n" || stderr != "" || code != 0 {
		t.Errorf("on a worker: %q, %q, %d", stdout, stderr, code)
	}
}
