package exec

import (
	"bufio"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func TestKillFamily(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `sh -c 'sleep 1000 & echo $!; wait' & wait`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The grandchild holds the pipe open: its end is the end of all.
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if parent := parentOf(parentOf(grandchild)); parent != cmd.Process.Pid {
		t.Errorf("parent of the parent of %d = %d, want %d", grandchild, parent, cmd.Process.Pid)
	}
	killFamily(cmd.Process.Pid)
	if rest, err := r.ReadString('\n'); rest != "" || err == nil {
		t.Errorf("read %q, %v, want the end", rest, err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Errorf("Wait = %v, %s, want a kill", err, cmd.ProcessState)
	}
	killFamily(cmd.Process.Pid) // nothing is there any more
}
