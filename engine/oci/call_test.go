package oci

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moss/engine/task"
)

// script makes a runtime of a shell script.
func script(t *testing.T, lines ...string) task.Runtime {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runtime")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+strings.Join(lines, "\n")+"\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return task.Runtime{Path: path}
}

// A runtime that hangs has processes of its own: some have left its group, the parent of others has ended.
func TestOverdueRuntimeEndsWhole(t *testing.T) {
	dir := t.TempDir()
	rt := New(script(t, "cd "+dir,
		"(sh -c 'echo $$ >>pids; sleep 1000 & echo $! >>pids; wait' &)",
		"sleep 1000 & echo $! >>pids; setsid sleep 1000 & echo $! >>pids; wait",
	), dir, []string{"PATH=/usr/local/bin:/usr/bin:/bin"})
	for name, call := range map[string]func(context.Context) error{
		"exec": func(ctx context.Context) error {
			return rt.ExecDetached(ctx, Launch{ID: "x", Dir: dir, Log: "log", PidFile: "pid"}, "process.json")
		},
		"delete": func(ctx context.Context) error { return rt.Delete(ctx, "x", true) },
	} {
		ctx, expire := context.WithCancel(t.Context())
		go func() {
			defer expire()
			for t.Context().Err() == nil { // until all are there that must end
				if pids, _ := os.ReadFile(filepath.Join(dir, "pids")); strings.Count(string(pids), "\n") == 4 {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		err := call(overdue{ctx})
		if err == nil || !strings.Contains(err.Error(), "did not end in time and was killed") {
			t.Errorf("%s: %v", name, err)
		}
		pids, err := os.ReadFile(filepath.Join(dir, "pids"))
		if err != nil || len(strings.Fields(string(pids))) != 4 {
			t.Fatalf("%s: processes %q, %v", name, pids, err)
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			for end := time.Now().Add(time.Minute); runs(pid); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s: process %s goes on", name, pid)
				}
			}
		}
		if err := os.Remove(filepath.Join(dir, "pids")); err != nil {
			t.Fatal(err)
		}
	}
}

// overdue is a context whose deadline has come when it ends.
type overdue struct{ context.Context } //nolint:containedctx // it is one

func (o overdue) Err() error {
	if o.Context.Err() == nil {
		return nil
	}
	return context.DeadlineExceeded
}

// runs tells whether a process has not ended.
func runs(pid string) bool {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, _ := strings.Cut(string(data), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}

// crun and runc make a copy of themselves before anything else. Killed then, they leave it.
func TestKilledRuntimeLeavesNothing(t *testing.T) {
	dir, system := t.TempDir(), t.TempDir()
	rt := New(script(t, `echo "$TMPDIR" >`+system+`/where; touch "$_LIBCONTAINER_STATEDIR/crun.aBc123" && kill -9 $$`), dir, []string{"PATH=/usr/bin:/bin"})
	if err := rt.RunDetached(t.Context(), Launch{ID: "x", Dir: dir, Log: "log", PidFile: "pid"}); err == nil {
		t.Error("a killed runtime has run a container")
	}
	if where, err := os.ReadFile(system + "/where"); err != nil || strings.TrimSpace(string(where)) != dir {
		t.Errorf("folder for temporary files: %q, %v, want %s", where, err, dir)
	}
	if err := rt.Delete(t.Context(), "x", true); err == nil {
		t.Error("a killed runtime has deleted a container")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
