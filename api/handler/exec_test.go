package handler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"moss/engine/exec"
	"moss/engine/fault"
)

// execs is a fake that records calls and answers what the test sets.
type execs struct {
	said  string
	err   error
	late  error // of Start, after open
	info  exec.Info
	input string // what a started exec got from its client
}

func (f *execs) Create(_ context.Context, ref string, config exec.Config) (string, error) {
	f.said = fmt.Sprintf("create %s %+v", ref, config)
	return "7d", f.err
}

func (f *execs) Start(ctx context.Context, id string, opt exec.StartOptions, open func() (io.ReadWriteCloser, error)) error {
	f.said = fmt.Sprintf("start %s %+v", id, opt)
	if f.err != nil || opt.Detach {
		return f.err
	}
	conn, err := open()
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(conn)
	f.input = string(raw)
	_, werr := io.WriteString(conn, "output")
	return errors.Join(err, werr, f.late, ctx.Err(), conn.Close())
}

func (f *execs) Resize(_ context.Context, id string, width, height uint16) error {
	f.said = fmt.Sprintf("resize %s %dx%d", id, width, height)
	return f.err
}

func (f *execs) Inspect(id string) (exec.Info, error) {
	if f.info.ID == "" {
		return exec.Info{}, fault.NotFound("No such exec instance: %s", id)
	}
	return f.info, nil
}

func (f *execs) InspectEnd(_ context.Context, id string) (exec.Info, error) { return f.Inspect(id) }

func (f *execs) IDs(string) []string {
	if f.info.ID == "" {
		return nil
	}
	return []string{f.info.ID}
}

func TestExecCreate(t *testing.T) {
	a := newAPI(t)
	status, body := a.ask(http.MethodPost, "/v1.24/containers/web/exec",
		`{"AttachStdin":true,"AttachStdout":true,"AttachStderr":true,"DetachKeys":"ctrl-a","Tty":true,"Cmd":["a","b"],"Privileged":true,"User":"www","Container":"x"}`)
	if status != http.StatusCreated || strings.TrimSpace(body) != `{"Id":"7d","Warnings":[]}` {
		t.Errorf("create = %d %s", status, body)
	}
	if want := "create web {AttachStdin:true AttachStdout:true AttachStderr:true DetachKeys:ctrl-a Tty:true Cmd:[a b] Privileged:true User:www Env:[] WorkingDir:}"; a.execs.said != want {
		t.Errorf("engine was asked %q, want %q", a.execs.said, want)
	}
	if a.ask(http.MethodPost, "/v1.21/containers/web/exec", `{"Cmd":"a","DetachKeys":"ctrl-a"}`); !strings.Contains(a.execs.said, "DetachKeys: ") {
		t.Errorf("engine was asked %q at 1.21, want no detach keys", a.execs.said)
	}
	for _, version := range []string{"1.18", "1.24"} {
		a.ask(http.MethodPost, "/v"+version+"/containers/web/exec", `{"Cmd":"a","Env":["A=1","B"],"WorkingDir":"/tmp"}`)
		if !strings.Contains(a.execs.said, "Env:[A=1 B] WorkingDir:/tmp") {
			t.Errorf("engine was asked %q at %s, want variables and folder", a.execs.said, version)
		}
	}
	a.ask(http.MethodPost, "/v1.24/containers/web/exec", `{"Cmd":"a","Tty":true,"ConsoleSize":[24,80]}`)
	if a.execs.said != "resize 7d 80x24" {
		t.Errorf("engine was asked %q, want the size of the terminal", a.execs.said)
	}
	a.ask(http.MethodPost, "/v1.24/containers/web/exec", `{"Cmd":"a","ConsoleSize":[24,80]}`)
	if !strings.HasPrefix(a.execs.said, "create") {
		t.Errorf("engine was asked %q, want no size without a terminal", a.execs.said)
	}
	if status, body = a.ask(http.MethodPost, "/v1.24/containers/web/exec", `{"Cmd":5}`); status != 500 || !strings.Contains(body, "Cmd") {
		t.Errorf("create with a number = %d %s, want 500 naming Cmd", status, body)
	}
	a.execs.err = fault.Conflict("Container web is paused")
	if status, _ = a.ask(http.MethodPost, "/v1.24/containers/web/exec", `{"Cmd":["a"]}`); status != http.StatusConflict {
		t.Errorf("create in a paused container = %d, want 409", status)
	}
}

func TestExecStart(t *testing.T) {
	for _, tc := range []struct {
		name, version, headers, body, said, head string
	}{
		{"plain", "v1.24", "Content-Type: application/json\r\n", `{}`, "{Detach:false Raw:false}", "HTTP/1.1 200 OK"},
		{"upgrade", "v1.24", "Content-Type: application/json\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n", `{"Tty":true}`, "{Detach:false Raw:true}", "HTTP/1.1 101 UPGRADED"},
		{"the tty of the create without a body", "v1.24", "", ``, "{Detach:false Raw:true}", "HTTP/1.1 200 OK"},
		{"any media type before 1.22", "v1.21", "Content-Type: text/plain\r\n", `{}`, "{Detach:false Raw:false}", "HTTP/1.1 200 OK"},
		{"another media type", "v1.22", "Content-Type: text/plain\r\n", `{}`, "", "HTTP/1.1 500 Internal Server Error"},
		{"detached", "v1.24", "Content-Type: application/json\r\n", `{"Detach":true}`, "{Detach:true Raw:false}", "HTTP/1.1 200 OK"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAPI(t)
			a.execs.info = exec.Info{ID: "7d", Config: exec.Config{Cmd: []string{"sh"}, Tty: true}}
			c := a.dial()
			fmt.Fprintf(c, "POST /%s/exec/7d/start HTTP/1.1\r\nHost: moss\r\nContent-Length: %d\r\n%s\r\n%sinput", //nolint:errcheck // the answer tells
				tc.version, len(tc.body), tc.headers, tc.body)
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(raw), tc.head+"\r\n") {
				t.Errorf("answer = %q, want %q", raw, tc.head)
			}
			if want := "start 7d " + tc.said; tc.said != "" && a.execs.said != want {
				t.Errorf("engine was asked %q, want %q", a.execs.said, want)
			}
			attached := tc.said != "" && !strings.Contains(tc.said, "Detach:true")
			if got := strings.HasSuffix(string(raw), "\r\n\r\noutput") && a.execs.input == "input"; got != attached {
				t.Errorf("attached = %v, want %v: %q, input %q", got, attached, raw, a.execs.input)
			}
		})
	}
}

func TestExecStartErrors(t *testing.T) {
	a := newAPI(t)
	if status, body := a.ask(http.MethodPost, "/v1.24/exec/nope/start", ``); status != http.StatusNotFound || !strings.Contains(body, "No such exec instance: nope") {
		t.Errorf("start of nothing = %d %s, want 404", status, body)
	}
	a.execs.err = fault.Conflict("exec command 7d is already running")
	for _, body := range []string{`{}`, `{"Detach":true}`} {
		if status, _ := a.ask(http.MethodPost, "/v1.24/exec/7d/start", body); status != http.StatusConflict {
			t.Errorf("start %s = %d, want 409", body, status)
		}
	}
	if status, _ := a.ask(http.MethodPost, "/v1.24/exec/7d/start", `{"Detach":1}`); status != 500 {
		t.Errorf("start with a number = %d, want 500", status)
	}
}

func TestExecResize(t *testing.T) {
	a := newAPI(t)
	if status, body := a.ask(http.MethodPost, "/v1.24/exec/7d/resize?h=30&w=90", ""); status != http.StatusCreated || body != "" || a.execs.said != "resize 7d 90x30" {
		t.Errorf("resize = %d %q, engine was asked %q", status, body, a.execs.said)
	}
	for _, query := range []string{"h=30", "w=90", "h=x&w=1", "h=-1&w=1"} {
		if status, _ := a.ask(http.MethodPost, "/v1.24/exec/7d/resize?"+query, ""); status != 500 {
			t.Errorf("resize?%s = %d, want 500", query, status)
		}
	}
}

func TestExecInspect(t *testing.T) {
	a := newAPI(t)
	if status, body := a.ask(http.MethodGet, "/v1.24/exec/nope/json", ""); status != http.StatusNotFound || !strings.Contains(body, "No such exec instance: nope") {
		t.Errorf("inspect of nothing = %d %s, want 404", status, body)
	}
	a.execs.info = exec.Info{ID: "7d", ContainerID: "4fa6e0", Running: true, Config: exec.Config{Cmd: []string{"sh"}}}
	_, body := a.ask(http.MethodGet, "/v1.24/exec/7d/json", "")
	if got := field(t, body, "ContainerID"); got != "4fa6e0" || field(t, body, "Running") != true || field(t, body, "Container") != nil {
		t.Errorf("inspect at 1.24 = %s", body)
	}
	for _, cut := range []bool{false, true} {
		a.execs.info.Cut = cut
		resp := a.open(http.MethodGet, "/v1.24/exec/7d/json", "") //nolint:bodyclose // The cleanup of open does.
		if got := resp.Header.Get("X-Output-Cut") != ""; got != cut {
			t.Errorf("cut output: %t, the header says %t", cut, got)
		}
	}
	_, body = a.ask(http.MethodGet, "/v1.21/exec/7d/json", "")
	if got := field(t, body, "Container", "Id"); got != "4fa6e0" || field(t, body, "ContainerID") != nil {
		t.Errorf("inspect at 1.21 = %s, want the container's record in it", body)
	}
	_, body = a.ask(http.MethodGet, "/v1.24/containers/web/json", "")
	if got := fmt.Sprint(field(t, body, "ExecIDs")); got != "[7d]" {
		t.Errorf("ExecIDs of the container = %s, want [7d]", got)
	}
	a.containers.record, a.containers.err = nil, noSuch()
	if status, body := a.ask(http.MethodGet, "/v1.21/exec/7d/json", ""); status != http.StatusNotFound || !strings.Contains(body, "No such exec instance: 7d") {
		t.Errorf("inspect when the container has gone = %d %s, want 404", status, body)
	}
}
