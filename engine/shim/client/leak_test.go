package client_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"moss/engine/fault"
	"moss/engine/shim/client"
	"moss/engine/shim/proto"
	"moss/engine/task"
)

func openFiles(tb testing.TB) int {
	tb.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(fds)
}

func TestNothingLeft(t *testing.T) {
	r := newRunner(t)
	before := -1
	for range 3 {
		spec := newSpec(t, sh("echo; exit 1"))
		tk := prepare(t, r, spec)
		view := attach(t, tk, task.Attach{Stdin: true, Stdout: true})
		start(t, tk)
		wait(t, tk, 1)
		_ = view.Close()
		if err := tk.Delete(t.Context()); err != nil {
			t.Fatalf("Delete = %v", err)
		}
		entries, err := os.ReadDir(spec.Dir)
		if err != nil || len(entries) != 1 || entries[0].Name() != "config.json" {
			t.Errorf("the folder holds %v, %v, want only config.json", entries, err)
		}
		if states, err := os.ReadDir(spec.Runtime.Root); err != nil || len(states) > 0 {
			t.Errorf("the runtime keeps %v, %v, want nothing", states, err)
		}
		eventually(t, "end of the shim", func() bool { return len(processes(t, spec.Dir)) == 0 })
		eventually(t, "its reaping", func() bool { return before < 0 || openFiles(t) <= before })
		before = openFiles(t)
	}
	eventually(t, "no child is left as a zombie", func() bool { return stateOf(t, os.Getpid()).zombies == 0 })
}

func TestLongPath(t *testing.T) {
	spec := newSpec(t, sh("exit 5"))
	spec.Dir = filepath.Join(spec.Dir, strings.Repeat("long/", 40))
	if err := os.MkdirAll(spec.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	spec.Terminal = true
	writeConfig(t, spec, sh("exit 5"))
	tk := prepare(t, newRunner(t), spec)
	start(t, tk)
	wait(t, tk, 5)
	if err := tk.Delete(t.Context()); err != nil {
		t.Errorf("Delete = %v", err)
	}
}

func TestSocketIsPrivate(t *testing.T) {
	syscall.Umask(0)
	spec := newSpec(t, sh("exit 0"))
	prepare(t, newRunner(t), spec)
	for _, name := range []string{proto.SocketFile, proto.SpecFile, proto.LogFile} {
		info, err := os.Stat(filepath.Join(spec.Dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s = %v, %v, want mode 0600", name, info.Mode(), err)
		}
	}
}

func TestInheritsNothing(t *testing.T) {
	null, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0) // no O_CLOEXEC, as a careless library would
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(null) }()
	spec := newSpec(t, sh("ls=$(echo /proc/self/fd/*); echo $ls; trap"))
	spec.OpenStdin = false
	log := jsonLog(&spec)
	tk := prepare(t, newRunner(t), spec)
	start(t, tk)
	wait(t, tk, 0)
	if got := strings.TrimSpace(logText(t, log, "stdout", 1<<30)); strings.Contains(got, "/fd/4") {
		t.Errorf("the container has %q, want its streams and the shell's own folder at most", got)
	}
}

func TestPrepareErrors(t *testing.T) {
	r := newRunner(t)
	bad := newSpec(t, sh("exit 0"))
	bad.Log.Driver = "etwlogs"
	if _, err := r.Prepare(t.Context(), bad); !fault.Is(err, fault.Unsupported) {
		t.Errorf("Prepare with an unknown log driver = %v, want unsupported", err)
	}
	entries, err := os.ReadDir(bad.Dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v, want only config.json", entries, err)
	}
	noLog := newSpec(t, sh("exit 0"))
	noLog.Log = task.Log{Driver: "json-file", Path: "/no/such/folder/json.log", MaxFiles: 1}
	if _, err := r.Prepare(t.Context(), noLog); err == nil || !strings.Contains(err.Error(), "/no/such/folder/json.log") {
		t.Errorf("Prepare with an impossible log = %v, want an error that names it", err)
	}
	noDir := bad
	noDir.Dir = "/no/such/folder"
	if _, err := r.Prepare(t.Context(), noDir); err == nil {
		t.Error("Prepare in a missing folder = nil, want an error")
	}
	if _, err := client.New(client.Options{Path: "/no/such/shim"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("New without a binary = %v, want not found", err)
	}
	broken, err := client.New(client.Options{Path: "/bin/false"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broken.Prepare(t.Context(), newSpec(t, sh("exit 0"))); err == nil {
		t.Error("Prepare with a program that is no shim = nil, want an error")
	}
}

func TestRuntimeMissing(t *testing.T) {
	spec := newSpec(t, sh("exit 0"))
	spec.Runtime.Path = "/no/such/crun"
	tk := prepare(t, newRunner(t), spec)
	if _, err := tk.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "/no/such/crun") || fault.Is(err, fault.NotFound) {
		t.Errorf("Start = %v, want a plain error that names the runtime", err)
	}
	wait(t, tk, 128)
}

// TestMany: eight clients run tasks in the same folders again and again, as a restart policy does.
func TestMany(t *testing.T) {
	r := newRunner(t)
	var wg sync.WaitGroup
	for worker := range 8 {
		first := newSpec(t, sh("exit "+strconv.Itoa(worker)))
		wg.Go(func() {
			for range 8 {
				tk, err := r.Prepare(t.Context(), first)
				if err != nil {
					t.Errorf("Prepare = %v", err)
					return
				}
				if _, err := tk.Start(t.Context()); err != nil {
					t.Errorf("Start = %v", err)
				}
				if exit, err := tk.Wait(t.Context()); err != nil || exit.Code != worker {
					t.Errorf("Wait = %+v, %v, want code %d", exit, err, worker)
				}
				if err := tk.Delete(t.Context()); err != nil {
					t.Errorf("Delete = %v", err)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "end of all shims", func() bool { return len(processes(t, "moss-shim run "+os.Getenv(envLab))) == 0 })
}
