package reaper

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// role makes this test's program one that runs its arguments by Run: Run wants a process without other children.
const role = "REAPER_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := context.WithCancel(context.Background())
	if limit, err := time.ParseDuration(os.Getenv(role)); err == nil {
		ctx, stop = context.WithTimeout(context.Background(), limit)
	}
	code, err := Run(ctx, append([]string{"/bin/sh", "-c"}, os.Args[1:]...), []string{role + "=", "GIVEN=yes"}, []*os.File{os.Stdin, os.Stdout, os.Stderr})
	stop()
	if err != nil {
		code = 99
	}
	os.Exit(code)
}

// runScript runs a script by Run in a process of its own, for as long as limit says ("none": without end).
func runScript(t *testing.T, limit, script string) (code int, output string, usage *os.ProcessState) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, script)
	cmd.Env = append(os.Environ(), role+"="+limit)
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(string(out)), cmd.ProcessState
}

func TestTheStatusIsThatOfTheProgram(t *testing.T) {
	for _, tc := range []struct {
		script string
		want   int
	}{{"exit 0", 0}, {"exit 7", 7}, {"kill -KILL $$", 128 + 9}} {
		if code, _, _ := runScript(t, "none", tc.script); code != tc.want {
			t.Errorf("%s: got %d, want %d", tc.script, code, tc.want)
		}
	}
	if _, out, _ := runScript(t, "none", "echo $GIVEN"); out != "yes" {
		t.Errorf("the variable: got %q, want yes", out)
	}
}

// A process in a session of its own whose parent has ended is killed, and the CPU time of one that was is counted.
func TestWhatTheProgramLeavesIsEndedAndCounted(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	code, _, usage := runScript(t, "none", `(setsid sh -c 'echo $$ >`+pidFile+`.new && mv `+pidFile+`.new `+pidFile+`; i=0; while :; do i=$((i+1)); done' &)
		until [ -e `+pidFile+` ]; do :; done; pid=$(cat `+pidFile+`)
		until [ "$(cut -d' ' -f14 /proc/$pid/stat)" -ge 20 ]; do :; done; echo $pid; exit 3`)
	if code != 3 {
		t.Errorf("status: got %d, want 3", code)
	}
	raw, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(raw))); err == nil {
		t.Errorf("process %s is left", raw)
	}
	if got := usage.UserTime() + usage.SystemTime(); got < 200*time.Millisecond {
		t.Errorf("CPU time: got %s, want that of the process that was left, 200ms or more", got)
	}
}

func TestTheEndOfTheContextEndsTheProgram(t *testing.T) {
	if code, _, _ := runScript(t, "50ms", "sleep 1000 & wait"); code != 128+int(unix.SIGTERM) {
		t.Errorf("got %d, want %d", code, 128+int(unix.SIGTERM))
	}
}
