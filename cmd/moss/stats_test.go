package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"moss/api/client/clienttest"
)

const statsSample = `{"read":"2026-01-01T00:00:00Z","pids_stats":{"current":3},"networks":{"eth0":{"rx_bytes":1000,"tx_bytes":2500000}},
	"memory_stats":{"usage":10485760,"limit":104857600,"stats":{"inactive_file":1048576}},
	"blkio_stats":{"io_service_bytes_recursive":[{"op":"read","value":4096},{"op":"write","value":0}]},
	"cpu_stats":{"cpu_usage":{"total_usage":300},"system_cpu_usage":2000,"online_cpus":2},"precpu_stats":{"cpu_usage":{"total_usage":200},"system_cpu_usage":1000}}`

// running is a fake engine with containers that stats can measure, and events that a test sends.
type running struct {
	engine *clienttest.Engine
	events chan string

	mu   sync.Mutex // guards gone
	gone map[string]chan struct{}
}

func withRunning(t *testing.T, names ...string) *running {
	r := &running{engine: clienttest.New(t), events: make(chan string), gone: map[string]chan struct{}{}}
	list := make([]string, 0, len(names))
	for _, name := range names {
		list = append(list, fmt.Sprintf(`{"Id":"%s","Names":["/%s-1"]}`, name, name))
		r.serve(name)
	}
	r.engine.Override["GET /containers/json"] = answer("[" + strings.Join(list, ",") + "]")
	r.engine.Override["GET /events"] = func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case event := <-r.events:
				_, _ = io.WriteString(w, event)
				_ = http.NewResponseController(w).Flush()
			case <-req.Context().Done():
				return
			}
		}
	}
	return r
}

func (r *running) serve(name string) {
	gone := make(chan struct{})
	r.mu.Lock()
	r.gone[name] = gone
	r.mu.Unlock()
	r.engine.Override["GET /containers/"+name+"/json"] = answer(fmt.Sprintf(`{"Id":"%s","Name":"/%s-1"}`, name, name))
	r.engine.Override["GET /containers/"+name+"/stats"] = func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, statsSample)
		_ = http.NewResponseController(w).Flush()
		if req.URL.Query().Get("stream") != "1" {
			return
		}
		select {
		case <-gone:
		case <-req.Context().Done():
		}
	}
}

func (r *running) event(action, name string) {
	r.events <- fmt.Sprintf(`{"Type":"container","Action":"%s","Actor":{"ID":"%s","Attributes":{"name":"%s"}}}`, action, name, name)
}

func TestStatsOnce(t *testing.T) {
	r := withRunning(t, "web", "db")
	stdout, stderr, code := moss(t, r.engine, "", "stats", "--no-stream")
	want := "CONTAINER ID   NAME      CPU %     MEM USAGE / LIMIT   MEM %     NET I/O       BLOCK I/O    PIDS\n" +
		"web            web-1     20.00%    9MiB / 100MiB       9.00%     1kB / 2.5MB   4.1kB / 0B   3\n" +
		"db             db-1      20.00%    9MiB / 100MiB       9.00%     1kB / 2.5MB   4.1kB / 0B   3\n"
	if stdout != want || stderr != "" || code != 0 {
		t.Errorf("got:\n%s%s%d, want:\n%s", stdout, stderr, code, want)
	}
	stdout, _, _ = moss(t, r.engine, "", "stats", "--no-stream", "--format", "json", "db")
	if want := `{"BlockIO":"4.1kB / 0B","CPUPerc":"20.00%","Container":"db","ID":"db","MemPerc":"9.00%","MemUsage":"9MiB / 100MiB","Name":"db-1","NetIO":"1kB / 2.5MB","PIDs":"3"}` + "\n"; stdout != want {
		t.Errorf("json: %s", stdout)
	}
	stdout, _, _ = moss(t, r.engine, "", "stats", "--no-stream", "--format", "{{.Name}} {{.PIDs}}", "db", "web")
	if stdout != "db-1 3\nweb-1 3\n" {
		t.Errorf("template: %s", stdout)
	}
	if _, stderr, code := moss(t, r.engine, "", "stats", "--no-stream", "gone"); code != exitFailed || strings.Count(stderr, "\n") != 1 {
		t.Errorf("a missing container: %q, %d", stderr, code)
	}
	if _, stderr, code := moss(t, r.engine, "", "stats", "--format", "{{.Name"); code != exitEngine || strings.Count(stderr, "\n") != 1 {
		t.Errorf("half a template: %q, %d", stderr, code)
	}
	// One that ends while it is measured is left out of the list, and an error where it was named.
	r.engine.Override["GET /containers/db/stats"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Fail(w, http.StatusNotFound, "No such container: db")
	}
	if stdout, stderr, code := moss(t, r.engine, "", "stats", "--no-stream", "--format", "{{.Name}}"); stdout != "web-1\n" || stderr != "" || code != 0 {
		t.Errorf("one is gone: %q, %q, %d", stdout, stderr, code)
	}
	if stdout, _, code := moss(t, r.engine, "", "stats", "--no-stream", "--format", "{{.Name}}", "web", "db"); stdout != "web-1\n" || code != exitFailed {
		t.Errorf("a named one is gone: %q, %d", stdout, code)
	}
}

// TestStatsEnd streams until the containers that were named are gone.
func TestStatsEnd(t *testing.T) {
	r := withRunning(t, "web")
	close(r.gone["web"])
	stdout, stderr, code := moss(t, r.engine, "", "stats", "web")
	if stderr != "" || code != 0 || strings.Contains(stdout, "\x1b") {
		t.Errorf("got %q, %q, %d, want an end without escapes", stdout, stderr, code)
	}
}

func TestStatsLive(t *testing.T) {
	r := withRunning(t, "web", "db")
	r.serve("late")
	term := onTerminal(t, r.engine, "stats")
	term.await("20.00%")
	r.event("start", "late")
	term.await("late ")
	r.event("rename", "db")
	r.events <- `{"Type":"container","Action":"rename","Actor":{"ID":"db","Attributes":{"name":"other","oldName":"/db"}}}`
	term.await("other ")
	r.event("die", "web")
	term.awaitScreen(func(screen string) bool {
		return strings.Contains(screen, "late ") && strings.Contains(screen, "other ") && !strings.Contains(screen, "web-1 ")
	})
	r.engine.Kill()
	if code := term.exitCode(); code != exitFailed {
		t.Errorf("exit code %d after the engine's end, want 1", code)
	}
}

// awaitScreen reads tables until one of them is good.
func (term *terminal) awaitScreen(good func(screen string) bool) {
	term.t.Helper()
	var seen strings.Builder
	for {
		seen.WriteString(term.next())
		screens := strings.Split(seen.String(), cursorHome)
		if len(screens) > 2 && good(screens[len(screens)-2]) {
			return
		}
	}
}
