package client_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/shim/client"
	"moss/engine/shim/proto"
	"moss/engine/task"
)

// TestFolderGone takes the task's folder and the runtime's away while it runs, with the engine's own wait for its end.
func TestFolderGone(t *testing.T) {
	r := newRunner(t)
	spec := newSpec(t, sh("trap 'exit 3' TERM; while :; do sleep 0.05; done"))
	tk := prepare(t, r, spec)
	shim := shimOf(t, start(t, tk))
	ended := make(chan task.Exit, 1)
	go func() {
		exit, err := tk.Wait(t.Context())
		if err != nil {
			t.Error(err)
		}
		ended <- exit
	}()
	eventually(t, "the end is waited for", r.Waits)
	config, err := os.ReadFile(filepath.Join(spec.Dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	id := filepath.Join(spec.Runtime.Root, spec.ID)
	eventually(t, "the shim holds the bundle", func() bool {
		held, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", shim))
		return err == nil && slices.ContainsFunc(held, func(fd string) bool {
			to, err := os.Readlink(fd)
			return err == nil && to == filepath.Join(spec.Dir, "config.json")
		})
	})
	for range 2 {
		for _, dir := range []string{spec.Dir, id} {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the shim answers", func() bool {
			r.Restore(t.Context())
			st, err := tk.Status(t.Context())
			return err == nil && st.Pid != 0
		})
		if got, err := os.ReadFile(filepath.Join(spec.Dir, "config.json")); err != nil || string(got) != string(config) {
			t.Errorf("the bundle has %d bytes, %v, want %d", len(got), err, len(config))
		}
		if alive, err := proto.ReadAlive(spec.Dir); err != nil || alive.Shim.Pid != shim || alive.First.Pid == 0 {
			t.Errorf("the processes are noted as %+v, %v, want those of the shim %d", alive, err, shim)
		}
	}
	if err := os.RemoveAll(spec.Dir); err != nil {
		t.Fatal(err)
	}
	if err := tk.Signal(t.Context(), int(unix.SIGTERM)); err != nil { // by itself
		t.Fatal(err)
	}
	if exit := <-ended; exit.Code != 3 {
		t.Errorf("exit %+v, want code 3", exit)
	}
	if err := tk.Delete(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFolderGoneWithoutEngine takes the task's folder and the runtime's away while nobody waits for the task's end.
func TestFolderGoneWithoutEngine(t *testing.T) {
	r := newRunner(t)
	spec := newSpec(t, sh("while :; do sleep 0.05; done"))
	tk := prepare(t, r, spec)
	pid := start(t, tk)
	for _, when := range []string{"before the engine dies", "after it has died"} {
		ctx, die := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = tk.Wait(ctx)
		}()
		eventually(t, "the engine waits", func() bool { return client.Waits(tk) })
		if when != "before the engine dies" {
			die()
			<-ended
		}
		gone := spec.Dir + ".gone" // in one go: the shim writes into what is being emptied
		if err := errors.Join(os.Rename(spec.Dir, gone), os.RemoveAll(gone)); err != nil {
			t.Fatal(err)
		}
		die()
		<-ended
		eventually(t, "the next engine finds the task gone "+when, func() bool {
			var err error
			tk, err = newRunner(t).Adopt(t.Context(), spec.ID, spec.Dir)
			return err == nil
		})
		if st, err := tk.Status(t.Context()); err != nil || st.Pid != pid {
			t.Errorf("gone %s: %+v, %v, want pid %d", when, st, err, pid)
		}
	}
	if err := tk.Signal(t.Context(), int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	if _, err := tk.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if err := tk.Delete(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSocketThatCameBack: a call found no socket, and the monitor has written it again before the record is looked for. The
// container goes on.
func TestSocketThatCameBack(t *testing.T) {
	r := newRunner(t)
	spec := newSpec(t, sh("while :; do sleep 0.05; done"))
	tk := prepare(t, r, spec)
	pid := start(t, tk)
	if err := r.RecoverRecord(t.Context(), spec.Dir, fs.ErrNotExist); !fault.Is(err, fault.NotFound) {
		t.Errorf("the record of a container that runs: %v, want not found", err)
	}
	if st, err := tk.Status(t.Context()); err != nil || st.Exit != nil || st.Pid != pid {
		t.Errorf("%+v, %v, want pid %d", st, err, pid)
	}
}

// TestAdoptOfALivingShimWithoutSocket meets a folder that is being emptied or written again: it is no reason to end anything.
func TestAdoptOfALivingShimWithoutSocket(t *testing.T) {
	r := newRunner(t)
	spec := newSpec(t, sh("while :; do sleep 0.05; done"))
	tk := prepare(t, r, spec)
	pid := start(t, tk)
	goOn := hang(t, spec.Dir) // it would write the socket again
	if err := os.Remove(filepath.Join(spec.Dir, proto.SocketFile)); err != nil {
		t.Error(err)
	}
	if _, err := newRunner(t).Adopt(t.Context(), spec.ID, spec.Dir); !fault.Is(err, fault.NotFound) {
		t.Errorf("Adopt without the socket = %v, want not found", err)
	}
	goOn()
	eventually(t, "the next engine finds the task", func() bool {
		var err error
		tk, err = newRunner(t).Adopt(t.Context(), spec.ID, spec.Dir)
		return err == nil
	})
	if st, err := tk.Status(t.Context()); err != nil || st.Pid != pid {
		t.Errorf("%+v, %v, want pid %d", st, err, pid)
	}
}
