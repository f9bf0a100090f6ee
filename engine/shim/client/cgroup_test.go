package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/task"
)

const cgroupRoot = "/sys/fs/cgroup"

// delegateCgroups gives a user a group of their own in every v1 hierarchy, as an administrator may, and moves this process
// into it. Undo takes it back. On a machine without v1 it does nothing.
func delegateCgroups(uid int) (undo func(), err error) {
	var made []string
	undo = func() {
		for _, dir := range made {
			_ = os.WriteFile(filepath.Join(filepath.Dir(dir), "cgroup.procs"), []byte("0"), 0o600)
			for deadline := time.Now().Add(patience); unix.Rmdir(dir) == unix.EBUSY && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond) // its last process is ending
			}
		}
	}
	name := "moss-shim-test-" + strconv.Itoa(os.Getpid())
	for _, file := range v1Hierarchies() {
		root := filepath.Dir(file)
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return undo, err
		}
		made = append(made, dir)
		for _, set := range []string{"cpuset.cpus", "cpuset.mems"} {
			if data, err := os.ReadFile(filepath.Join(root, set)); err == nil {
				if err := os.WriteFile(filepath.Join(dir, set), data, 0o600); err != nil {
					return undo, err
				}
			}
		}
		if strings.HasSuffix(root, "/cpuset") { // a group below takes no process before it has processors
			if err := os.WriteFile(filepath.Join(dir, "cgroup.clone_children"), []byte("1"), 0o600); err != nil {
				return undo, err
			}
		}
		for _, own := range []string{"", "cgroup.procs", "tasks"} {
			if err := os.Chown(filepath.Join(dir, own), uid, uid); err != nil {
				return undo, err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0o600); err != nil {
			return undo, err
		}
	}
	if len(made) > 0 {
		err = os.Setenv(envGroup, "/"+name)
	}
	return undo, err
}

// v1Hierarchies lists a file of each v1 hierarchy that is mounted.
func v1Hierarchies() []string {
	files, err := filepath.Glob(cgroupRoot + "/*/release_agent") // in the topmost group of v1 only
	if err != nil {
		return nil
	}
	return files
}

// showCgroups leaves of /sys/fs/cgroup what is the user's own; the runtimes refuse the rest. Hierarchies without a
// delegated group are empty folders that cannot be written, which runc expects of a user without cgroups.
func showCgroups() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	stage := filepath.Join(os.Getenv(envLab), "tmp")
	if err := unix.Mount("tmpfs", stage, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount a view of cgroups: %w", err)
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == "unified" || !entry.IsDir() {
			continue
		}
		target := filepath.Join(stage, entry.Name())
		if err := os.Mkdir(target, 0o755); err != nil {
			return err
		}
		if os.Getenv(envGroup) == "" {
			continue
		}
		if err := unix.Mount(filepath.Join(cgroupRoot, entry.Name()), target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("show %s: %w", entry.Name(), err)
		}
	}
	if err := unix.Mount("", stage, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make the view read-only: %w", err)
	}
	if err := unix.Mount(stage, cgroupRoot, "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the view: %w", err)
	}
	return nil
}

// TestWithCgroup: added processes join the container's cgroup, pause uses its freezer, update reaches its files, and a
// frozen container can be killed.
func TestWithCgroup(t *testing.T) {
	group := os.Getenv(envGroup)
	if group == "" {
		t.Skip("the user has no v1 cgroups: run as root, which delegates some, on a machine with v1 hierarchies; tests/guest covers v2")
	}
	for _, runtime := range runtimes(t) {
		t.Run(runtime, func(t *testing.T) {
			b := sh("while :; do echo x; usleep 1000; done")
			b.cgroup, b.runtime = true, runtime
			spec := newSpec(t, b)
			tk := prepare(t, newRunner(t), spec)
			out := counting(attach(t, tk, task.Attach{Stdout: true}))
			start(t, tk)
			p := add(t, tk, "while :; do echo y; usleep 1000; done", nil)
			added := counting(attach(t, p, task.Attach{Stdout: true}))
			pid := start(t, p)
			file := func(controller, name string) string {
				data, err := os.ReadFile(filepath.Join(cgroupRoot, controller, group, spec.ID, name))
				if err != nil {
					t.Fatal(err)
				}
				return strings.TrimSpace(string(data))
			}
			if procs := strings.Fields(file("memory", "cgroup.procs")); !slices.Contains(procs, strconv.Itoa(pid)) {
				t.Errorf("the cgroup holds %v, want the added process %d as well", procs, pid)
			}
			if pids, err := tk.Pids(t.Context()); err != nil || !slices.Contains(pids, pid) || len(pids) < 2 {
				t.Errorf("Pids = %v, %v, want %d among them", pids, err, pid)
			}

			if err := tk.Update(t.Context(), json.RawMessage(`{"pids":{"limit":99},"memory":{"limit":67108864}}`)); err != nil {
				t.Fatalf("Update = %v", err)
			}
			if got := file("pids", "pids.max") + " " + file("memory", "memory.limit_in_bytes"); got != "99 67108864" {
				t.Errorf("limits are %s, want 99 67108864", got)
			}
			if err := tk.Update(t.Context(), json.RawMessage(`{"memory":{"limit":1}}`)); err == nil {
				t.Error("Update to less than what is used = nil, want an error")
			}

			for range 3 {
				eventually(t, "output", func() bool { return out.Load() > 0 && added.Load() > 0 })
				if err := tk.Pause(t.Context()); err != nil {
					t.Fatalf("Pause = %v", err)
				}
				if state := file("freezer", "freezer.state"); state != "FROZEN" {
					t.Errorf("freezer.state = %s, want FROZEN", state)
				}
				quiet(t, "no output of a paused container", out, added)
				if err := tk.Resume(t.Context()); err != nil {
					t.Fatalf("Resume = %v", err)
				}
			}
			if err := tk.Pause(t.Context()); err != nil {
				t.Fatalf("Pause = %v", err)
			}
			if err := tk.Signal(t.Context(), int(syscall.SIGKILL)); err != nil {
				t.Fatalf("Signal = %v", err)
			}
			wait(t, p, 137)
			wait(t, tk, 137)
			if _, err := os.Stat(filepath.Join(cgroupRoot, "memory", group, spec.ID)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the cgroup is still there (%v)", err)
			}
		})
	}
}

// TestPtyInPausedContainer: resizing the terminal of what is frozen does not wait for it.
func TestPtyInPausedContainer(t *testing.T) {
	tk, _ := idle(t)
	p := add(t, tk, "cat", func(spec *task.ExecSpec) { spec.Terminal, spec.OpenStdin = true, true })
	view := attach(t, p, task.Attach{Stdin: true, Stdout: true})
	start(t, p)
	if err := tk.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Resize(t.Context(), 100, 50); err != nil {
		t.Errorf("Resize = %v", err)
	}
	if err := tk.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(view, "\x04"); err != nil {
		t.Fatal(err)
	}
	wait(t, p, 0)
}
