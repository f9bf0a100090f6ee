package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"moss/api/client/clienttest"
	"moss/cmd/moss/tty/ttytest"
)

func TestExec(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("# of the shop\nB=2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	engine := clienttest.New(t)
	engine.Process = func(stdin io.Reader, stdout, stderr io.Writer, _ <-chan string) int {
		_, _ = io.WriteString(stderr, "err\n")
		_, _ = io.Copy(stdout, stdin)
		return 7
	}
	stdout, stderr, code := moss(t, engine, "input", "exec", "-i", "-u", "www", "--privileged", "--detach-keys", "ctrl-x",
		"-e", "A=1", "--env-file", file, "-w", "/srv", "web", "cat", "-n")
	if stdout != "input" || stderr != "err\n" || code != 7 {
		t.Errorf("got %q, %q, %d, want input, err, 7", stdout, stderr, code)
	}
	config, start := engine.Executed()
	want := map[string]any{
		"AttachStdin": true, "AttachStdout": true, "AttachStderr": true, "Cmd": []any{"cat", "-n"}, "User": "www", "Privileged": true, "DetachKeys": "ctrl-x",
		"Env": []any{"B=2", "A=1"}, "WorkingDir": "/srv",
	}
	if !reflect.DeepEqual(config, want) || start["Detach"] != false {
		t.Errorf("bodies %v and %v, want %v", config, start, want)
	}
	if got := engine.Requests()[0]; got != "POST /containers/web/exec" {
		t.Errorf("request %s", got)
	}
}

func TestExecDetached(t *testing.T) {
	engine := clienttest.New(t)
	engine.Process = func(io.Reader, io.Writer, io.Writer, <-chan string) int { return 0 }
	stdout, stderr, code := moss(t, engine, "", "exec", "-d", "-i", "web", "sleep", "9")
	config, start := engine.Executed()
	if stdout != "" || stderr != "" || code != 0 || start["Detach"] != true || config["AttachStdout"] != nil || config["AttachStdin"] != nil {
		t.Errorf("got %q, %q, %d with bodies %v and %v, want silence and nothing attached", stdout, stderr, code, config, start)
	}
}

// TestExecOutlivesItsOutput has a command close its output and end later: its exit code must still be found.
func TestExecOutlivesItsOutput(t *testing.T) {
	engine := clienttest.New(t)
	asked := 0
	engine.Override["GET /exec/"+clienttest.ExecID+"/json"] = func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 4 {
			clienttest.JSON(w, http.StatusOK, map[string]any{"ID": clienttest.ExecID, "Running": true, "ExitCode": nil})
			return
		}
		clienttest.JSON(w, http.StatusOK, map[string]any{"ID": clienttest.ExecID, "Running": false, "ExitCode": 4})
	}
	engine.Process = func(io.Reader, io.Writer, io.Writer, <-chan string) int { return 4 }
	if _, stderr, code := moss(t, engine, "", "exec", "web", "true"); code != 4 || stderr != "" {
		t.Errorf("exit code %d, stderr %q, want 4", code, stderr)
	}
}

func TestExecFails(t *testing.T) {
	for _, tc := range []struct {
		name, call, message string
		status, exit        int
		record              any // the exit code in the record
	}{
		{"no container", "POST /containers/web/exec", "No such container: web", 404, exitEngine, nil},
		{"paused", "POST /containers/web/exec", "Container web is paused", 409, exitEngine, nil},
		{"no command", "POST /exec/" + clienttest.ExecID + "/start", `exec: "nope": executable file not found in $PATH`, 400, exitNotFound, nil},
		{"no program", "POST /exec/" + clienttest.ExecID + "/start", `exec: "/etc": permission denied`, 400, exitNotRunable, nil},
		{"the record tells", "POST /exec/" + clienttest.ExecID + "/start", "the runtime speaks in tongues", 500, exitNotFound, exitNotFound},
		{"another file", "POST /exec/" + clienttest.ExecID + "/start", "OCI runtime exec failed: crun: open /proc/7/ns/net: permission denied", 500, exitEngine, nil},
		{"nobody tells", "POST /exec/" + clienttest.ExecID + "/start", "disk full", 500, exitEngine, nil},
	} {
		for _, args := range [][]string{{"exec", "web", "nope"}, {"exec", "-d", "web", "nope"}} {
			t.Run(tc.name+" "+args[1], func(t *testing.T) {
				engine := clienttest.New(t)
				engine.Override[tc.call] = func(w http.ResponseWriter, _ *http.Request) { clienttest.Fail(w, tc.status, tc.message) }
				engine.Override["GET /exec/"+clienttest.ExecID+"/json"] = func(w http.ResponseWriter, _ *http.Request) {
					clienttest.JSON(w, http.StatusOK, map[string]any{"ID": clienttest.ExecID, "ExitCode": tc.record})
				}
				stdout, stderr, code := moss(t, engine, "", args...)
				if code != tc.exit || stdout != "" || stderr != "moss: "+tc.message+"\n" {
					t.Errorf("got %q, %q, %d, want the message and %d", stdout, stderr, code, tc.exit)
				}
			})
		}
	}
}

func TestExecEngineDies(t *testing.T) {
	engine := clienttest.New(t)
	engine.Process = func(_ io.Reader, stdout, _ io.Writer, signals <-chan string) int {
		_, _ = io.WriteString(stdout, "begun")
		go engine.Kill()
		<-signals
		return 0
	}
	stdout, stderr, code := moss(t, engine, "", "exec", "web", "sleep", "9")
	if stdout != "begun" || code != exitEngine || strings.Count(stderr, "\n") != 1 {
		t.Errorf("got %q, %q, %d, want 125 and one line", stdout, stderr, code)
	}
	close(engine.Signals())
}

func TestExecTerminal(t *testing.T) {
	for _, tc := range []struct {
		name string
		act  func(term *terminal)
		want int
	}{
		{"exit", func(term *terminal) { term.typeIn("q") }, 5},
		{"detach keys", func(term *terminal) { term.typeIn("ab\x10\x11") }, 0},
		{"SIGTERM", func(term *terminal) { _ = term.cmd.Process.Signal(syscall.SIGTERM) }, 128 + 15},
	} {
		t.Run(tc.name, func(t *testing.T) {
			engine := clienttest.New(t)
			engine.Process = func(stdin io.Reader, stdout, _ io.Writer, _ <-chan string) int {
				_, _ = io.WriteString(stdout, "ready\r\n")
				buffer := make([]byte, 64)
				for {
					n, err := stdin.Read(buffer)
					if err != nil || strings.ContainsAny(string(buffer[:n]), "q\x11") {
						return 5
					}
				}
			}
			term := onTerminal(t, engine, "exec", "-it", "web", "sh")
			term.await("ready")
			if !ttytest.IsRaw(t, term.slave) {
				t.Error("the terminal is not raw while the command runs")
			}
			if config, _ := engine.Executed(); !reflect.DeepEqual(config["ConsoleSize"], []any{40.0, 100.0}) {
				t.Errorf("ConsoleSize %v, want 40 and 100", config["ConsoleSize"])
			}
			resize := "POST /exec/" + clienttest.ExecID + "/resize?"
			awaitRequest(t, engine, resize+"h=40&w=100")
			ttytest.Resize(t, term.master, 50, 120)
			awaitRequest(t, engine, resize+"h=50&w=120")
			tc.act(term)
			if got := term.exitCode(); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
			if ttytest.IsRaw(t, term.slave) {
				t.Error("the terminal is left raw")
			}
		})
	}
}

// TestExecResizeTriesAgain has the engine know no terminal at first: the command is only about to start.
func TestExecResizeTriesAgain(t *testing.T) {
	engine := clienttest.New(t)
	resizes := make(chan struct{}, 64)
	engine.Override["POST /exec/"+clienttest.ExecID+"/resize"] = func(w http.ResponseWriter, _ *http.Request) {
		resizes <- struct{}{}
		if len(resizes) < 3 {
			clienttest.Fail(w, http.StatusInternalServerError, "it does not run yet")
		}
	}
	engine.Process = func(_ io.Reader, stdout, _ io.Writer, signals <-chan string) int {
		<-signals
		_, _ = io.WriteString(stdout, "sized\r\n")
		return 0
	}
	term := onTerminal(t, engine, "exec", "-t", "web", "sh")
	for len(resizes) < 3 {
		awaitRequest(t, engine, "POST /exec/"+clienttest.ExecID+"/resize?h=40&w=100")
	}
	close(engine.Signals())
	term.await("sized")
	if got := term.exitCode(); got != 0 {
		t.Errorf("exit code %d, want 0", got)
	}
}
