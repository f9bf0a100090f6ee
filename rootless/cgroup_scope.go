package rootless

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The user's manager answers within milliseconds, also when it has to ask the machine's, and within seconds where the
// machine is overloaded; one that hangs must not keep the engine from starting.
const (
	scopeCall = 10 * time.Second
	scopeMove = 10 * time.Second
)

// errNoManager means that no systemd runs for this user.
var errNoManager = errors.New("no systemd of the user's own")

// joinScope asks the user's systemd for a scope with delegated controllers and moves this process there. A shell of a
// login session has no cgroup that its user may divide, and an engine started from one could apply no limits. The scope
// goes with its last process.
func joinScope(ctx context.Context, runDir string) error {
	runtimeDir := os.Getenv("XDG_RUNTIME_DIR")
	if _, err := os.Stat(filepath.Join(runtimeDir, "systemd", "private")); runtimeDir == "" || err != nil {
		return errNoManager
	}
	name := fmt.Sprintf("moss-%08x-%d.scope", crc32.ChecksumIEEE([]byte(runDir)), os.Getpid())
	call, cancel := context.WithTimeout(ctx, scopeCall)
	defer cancel()
	const manager = "org.freedesktop.systemd1"
	out, err := exec.CommandContext(call, "busctl", "--user", "call", manager, "/org/freedesktop/systemd1", manager+".Manager",
		"StartTransientUnit", "ssa(sv)a(sa(sv))", name, "fail",
		"3", "Description", "s", "moss, rootless container engine", "Delegate", "b", "true",
		"PIDs", "au", "1", strconv.Itoa(os.Getpid()), "0").CombinedOutput()
	if err != nil {
		return fmt.Errorf("ask the user's systemd for a scope: %w: %s", err, strings.TrimSpace(string(out)))
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(scopeMove); ; {
		raw, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return err
		}
		if filepath.Base(parseSelf(string(raw))[""]) == name {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("the user's systemd did not move the engine to %s", name)
		}
	}
}
