package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"moss/api/client/clienttest"
	"moss/cmd/moss/tty/ttytest"
)

// asMoss in the environment makes the test binary be the command, for tests that need a process of its own.
const asMoss = "MOSS_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asMoss) != "" {
		main()
	}
	os.Exit(m.Run())
}

// terminal runs the command as a process whose standard streams are a terminal of 40 by 100.
type terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	cmd    *exec.Cmd
	screen chan string
	rest   string // what was read from the screen behind what was waited for
}

func onTerminal(t *testing.T, engine *clienttest.Engine, args ...string) *terminal {
	t.Helper()
	master, slave := ttytest.Open(t)
	ttytest.Resize(t, master, 40, 100)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"--host", engine.Host()}, args...)...)
	cmd.Env = []string{asMoss + "=1", "HOME=/dev/null"} // a home that no user can make
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, slave: slave, cmd: cmd, screen: make(chan string, 1024)}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return
			}
			term.screen <- string(buffer[:n])
		}
	}()
	return term
}

// await reads the screen to the end of text: what stands behind it is left to those who read on.
func (term *terminal) await(text string) {
	term.t.Helper()
	seen := term.rest
	late := time.After(time.Minute)
	for !strings.Contains(seen, text) {
		select {
		case part := <-term.screen:
			seen += part
		case <-late:
			term.t.Fatalf("the screen shows %q, want %q", seen, text)
		}
	}
	_, term.rest, _ = strings.Cut(seen, text)
}

// next waits for more of the screen.
func (term *terminal) next() string {
	term.t.Helper()
	if rest := term.rest; rest != "" {
		term.rest = ""
		return rest
	}
	select {
	case part := <-term.screen:
		return part
	case <-time.After(time.Minute):
		term.t.Fatal("the screen shows nothing more")
		return ""
	}
}

func (term *terminal) typeIn(text string) {
	term.t.Helper()
	if _, err := io.WriteString(term.master, text); err != nil {
		term.t.Fatal(err)
	}
}

// exitCode waits for the command's end.
func (term *terminal) exitCode() int {
	term.t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = term.cmd.Process.Kill() })
	defer late.Stop()
	err := term.cmd.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		term.t.Fatal(err)
	}
	return term.cmd.ProcessState.ExitCode()
}

func TestTerminal(t *testing.T) {
	for _, tc := range []struct {
		name string
		act  func(term *terminal, engine *clienttest.Engine)
		want int
	}{
		{"exit", func(term *terminal, _ *clienttest.Engine) { term.typeIn("q") }, 5},
		{"detach keys", func(term *terminal, _ *clienttest.Engine) { term.typeIn("ab\x10\x11") }, 0},
		{"engine dies", func(_ *terminal, engine *clienttest.Engine) { engine.Kill() }, exitEngine},
		{"SIGTERM", func(term *terminal, _ *clienttest.Engine) { _ = term.cmd.Process.Signal(syscall.SIGTERM) }, 128 + 15},
		{"SIGHUP", func(term *terminal, _ *clienttest.Engine) { _ = term.cmd.Process.Signal(syscall.SIGHUP) }, 128 + 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			engine := clienttest.New(t)
			engine.Process = func(stdin io.Reader, stdout, _ io.Writer, _ <-chan string) int {
				_, _ = io.WriteString(stdout, "ready\r\n")
				buffer := make([]byte, 64)
				for {
					n, err := stdin.Read(buffer)
					if err != nil || bytes.ContainsAny(buffer[:n], "q\x11") {
						return 5
					}
				}
			}
			term := onTerminal(t, engine, "run", "-it", "box")
			before := ttytest.Mode(t, term.slave)
			term.await("ready")
			if !ttytest.IsRaw(t, term.slave) {
				t.Error("the terminal is not raw while the container runs")
			}
			if before.Lflag == ttytest.Mode(t, term.slave).Lflag {
				before.Lflag |= syscall.ICANON | syscall.ECHO | syscall.ISIG | syscall.IEXTEN // it was raw before we looked
			}
			tc.act(term, engine)
			if got := term.exitCode(); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
			if ttytest.IsRaw(t, term.slave) {
				t.Error("the terminal is left raw")
			}
		})
	}
}

func TestTerminalComesBackAsItWas(t *testing.T) {
	engine := clienttest.New(t)
	_, slave := ttytest.Open(t)
	before := ttytest.Mode(t, slave)
	a := &app{stdin: slave, stdout: io.Discard, stderr: io.Discard, lookup: os.LookupEnv}
	if code := a.runArgs([]string{"-H", engine.Host(), "run", "-it", "box"}); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if after := ttytest.Mode(t, slave); !reflect.DeepEqual(before, after) {
		t.Errorf("mode %+v, want %+v", after, before)
	}
}

func TestWindowSize(t *testing.T) {
	engine := clienttest.New(t)
	engine.Process = func(stdin io.Reader, stdout, _ io.Writer, _ <-chan string) int {
		_, _ = io.WriteString(stdout, "ready\r\n")
		_, _ = stdin.Read(make([]byte, 1))
		return 0
	}
	term := onTerminal(t, engine, "run", "-it", "box")
	term.await("ready")
	resize := "POST /containers/" + clienttest.ID + "/resize?"
	awaitRequest(t, engine, resize+"h=40&w=100")
	ttytest.Resize(t, term.master, 50, 120)
	awaitRequest(t, engine, resize+"h=50&w=120")
	term.typeIn("x")
	if code := term.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	host, _ := engine.Created()["HostConfig"].(map[string]any)
	if want := []any{40.0, 100.0}; !reflect.DeepEqual(host["ConsoleSize"], want) {
		t.Errorf("ConsoleSize %v, want %v", host["ConsoleSize"], want)
	}
}

func awaitRequest(t *testing.T, engine *clienttest.Engine, want string) {
	t.Helper()
	if !wasAsked(engine, want) {
		t.Fatalf("requests %q, want %s among them", engine.Requests(), want)
	}
}

// wasAsked waits for a request, and reports whether it came.
func wasAsked(engine *clienttest.Engine, want string) bool {
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(time.Millisecond) {
		if slices.Contains(engine.Requests(), want) {
			return true
		}
	}
	return false
}

// TestInterrupt leaves it to the container what an interrupt at the keyboard means, and ends with its code.
func TestInterrupt(t *testing.T) {
	engine := clienttest.New(t)
	engine.Process = func(_ io.Reader, stdout, _ io.Writer, signals <-chan string) int {
		_, _ = io.WriteString(stdout, "ready\n")
		if <-signals == "2" {
			return 42
		}
		return 1
	}
	term := onTerminal(t, engine, "run", "-i", "box")
	term.await("ready")
	awaitRequest(t, engine, "POST /containers/"+clienttest.ID+"/wait")
	term.typeIn("\x03")
	if code := term.exitCode(); code != 42 {
		t.Errorf("exit code %d, want 42", code)
	}
}

func TestTerminalNeeded(t *testing.T) {
	engine := clienttest.New(t)
	if _, stderr, code := moss(t, engine, "", "run", "-it", "box"); code != exitEngine || !strings.Contains(stderr, "not a terminal") {
		t.Errorf("exit code %d, stderr %q, want 125 and the reason", code, stderr)
	}
	if len(engine.Requests()) != 0 {
		t.Errorf("requests %q, want none", engine.Requests())
	}
}
