package client_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/task"
)

// processState returns the letter of a process's state, 0 if it has gone.
func processState(pid int) byte {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	if rest == "" {
		return 0
	}
	return rest[0]
}

// counting copies a view's bytes into a counter.
func counting(view task.Streams) *atomic.Int64 {
	var n atomic.Int64
	go func() {
		buf := make([]byte, 4096)
		for {
			got, err := view.Read(buf)
			n.Add(int64(got))
			if err != nil {
				return
			}
		}
	}()
	return &n
}

// TestPauseWithoutCgroup: processes that fork all the time, of the container and added ones, are all stopped, and one that
// was stopped before the pause is so after it.
func TestPauseWithoutCgroup(t *testing.T) {
	const forks = "while :; do sh -c 'true; echo x'; done"
	for name, hostPID := range map[string]bool{"own pid namespace": false, "host pid namespace": true} {
		t.Run(name, func(t *testing.T) {
			b := sh(forks + " & " + forks + " & " + forks)
			b.hostPID = hostPID
			tk := prepare(t, newRunner(t), newSpec(t, b))
			first := counting(attach(t, tk, task.Attach{Stdout: true}))
			start(t, tk)
			p := add(t, tk, forks, nil)
			added := counting(attach(t, p, task.Attach{Stdout: true}))
			start(t, p)
			still := add(t, tk, "echo; exec sleep 1000", nil)
			stillView := attach(t, still, task.Attach{Stdout: true})
			stillPid := start(t, still)
			if _, err := io.ReadFull(stillView, make([]byte, 9)); err != nil {
				t.Fatal(err)
			}
			if err := still.Signal(t.Context(), int(syscall.SIGSTOP)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it stops itself", func() bool { return processState(stillPid) == 'T' })
			for round := range 5 {
				eventually(t, "output", func() bool { return first.Load() > 0 && added.Load() > 0 })
				if err := tk.Pause(t.Context()); err != nil {
					t.Fatalf("Pause = %v", err)
				}
				pids, err := tk.Pids(t.Context())
				if err != nil || len(pids) < 5 {
					t.Fatalf("Pids = %v, %v, want the container's", pids, err)
				}
				// One that has its signal may still be on its way to it.
				eventually(t, fmt.Sprintf("round %d: %d are stopped", round, pids), func() bool {
					return !slices.ContainsFunc(pids, func(pid int) bool { return !strings.ContainsRune("TD", rune(processState(pid))) })
				})
				quiet(t, "no output of a paused container", first, added)
				if err := tk.Resume(t.Context()); err != nil {
					t.Fatalf("Resume = %v", err)
				}
			}
			if state := processState(stillPid); state != 'T' {
				t.Errorf("the process that was stopped before is in state %c, want stopped", state)
			}
		})
	}
}

// TestPids: what the container runs, whoever started it, and nothing else.
func TestPids(t *testing.T) {
	other := start(t, prepare(t, newRunner(t), newSpec(t, bundle{args: []string{"sleep", "999"}})))
	for name, b := range map[string]bundle{
		"own pid namespace": {}, "host pid namespace": {hostPID: true}, "another's pid namespace": {joinPID: other},
	} {
		t.Run(name, func(t *testing.T) {
			b.args = sh("(setsid sleep 1000 &); (sleep 1000 &); exec sleep 1000").args
			tk := prepare(t, newRunner(t), newSpec(t, b))
			start(t, tk)
			p := add(t, tk, "setsid sleep 1000 & true", nil)
			start(t, p)
			wait(t, p, 0)
			eventually(t, "four processes", func() bool {
				pids, err := tk.Pids(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				lines := make([]string, 0, len(pids))
				for _, pid := range pids {
					line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
					lines = append(lines, strings.ReplaceAll(strings.TrimSuffix(string(line), "\x00"), "\x00", " "))
				}
				return strings.Join(lines, ",") == strings.Repeat("sleep 1000,", 3)+"sleep 1000"
			})
		})
	}
}

func TestUpdateWithoutCgroup(t *testing.T) {
	tk, _ := idle(t)
	if err := tk.Update(t.Context(), json.RawMessage(`{"pids":{"limit":9}}`)); !fault.Is(err, fault.Unsupported) {
		t.Errorf("Update = %v, want unsupported", err)
	}
}

// TestExecSeccomp: an added process gets the container's filter, also when the runtime was given it compiled.
func TestExecSeccomp(t *testing.T) {
	profile := map[string]any{
		"defaultAction": "SCMP_ACT_ALLOW",
		"syscalls":      []map[string]any{{"names": []string{"mkdir", "mkdirat"}, "action": "SCMP_ACT_ERRNO", "errnoRet": int(syscall.ENOTTY)}},
	}
	filtered := func(seccomp any, annotations map[string]string) (task.Task, task.Spec) {
		spec := newSpec(t, bundle{args: []string{"sleep", "1000"}})
		file := filepath.Join(spec.Dir, "config.json")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := json.Unmarshal(data, &config); err != nil {
			t.Fatal(err)
		}
		config["linux"].(map[string]any)["seccomp"] = seccomp
		config["annotations"] = annotations
		if data, err = json.Marshal(config); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		tk := prepare(t, newRunner(t), spec)
		start(t, tk)
		return tk, spec
	}
	check := func(name string, tk task.Task) {
		out, errs := run(t, tk, "grep Seccomp: /proc/self/status; mkdir /dev/x", 1)
		if !strings.Contains(out, "Seccomp:\t2") || !strings.Contains(errs, "Inappropriate ioctl") {
			t.Errorf("%s filter: %q, %q, want mode 2 and the filter's own error", name, out, errs)
		}
	}
	plain, spec := filtered(profile, nil)
	check("plain", plain)
	bpf, err := os.ReadFile(filepath.Join(spec.Runtime.Root, spec.ID, "seccomp.bpf"))
	if err != nil {
		t.Fatal(err)
	}
	compiled, _ := filtered(map[string]any{"defaultAction": "SCMP_ACT_ERRNO"},
		map[string]string{"run.oci.seccomp_bpf_data": base64.StdEncoding.EncodeToString(bpf)})
	check("compiled", compiled)
}

// TestExecSurvivesTheEngine: the engine that added a process is killed; the next one speaks to it.
func TestExecSurvivesTheEngine(t *testing.T) {
	spec := newSpec(t, bundle{args: []string{"sleep", "1000"}})
	id := execID()
	startEngine(t, order{Spec: spec, Start: true, Exec: &task.ExecSpec{
		ID: id, OpenStdin: true, Process: process(t, sh("read line; echo got $line; exit 8"), false),
	}})()
	tk, err := newRunner(t).Adopt(t.Context(), spec.ID, spec.Dir)
	if err != nil {
		t.Fatalf("Adopt = %v", err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = tk.Signal(ctx, int(syscall.SIGKILL))
		_, _ = tk.Wait(ctx)
		_ = tk.Delete(ctx)
	})
	p, err := tk.AdoptExec(t.Context(), id)
	if err != nil {
		t.Fatalf("AdoptExec = %v", err)
	}
	view := attach(t, p, task.Attach{Stdin: true, Stdout: true})
	if _, err := io.WriteString(view, "it\n"); err != nil {
		t.Fatal(err)
	}
	wait(t, p, 8)
	if out, err := io.ReadAll(view); err != nil || !strings.Contains(string(out), "got it\n") {
		t.Errorf("view = %q, %v, want %q", out, err, "got it\n")
	}
}

// TestShimKilledWithExec: added processes end with the shim, and their end is told.
func TestShimKilledWithExec(t *testing.T) {
	for name, b := range map[string]bundle{
		"own pid namespace": {args: []string{"sleep", "1000"}}, "host pid namespace": {args: []string{"sleep", "1000"}, hostPID: true},
	} {
		t.Run(name, func(t *testing.T) {
			tk := prepare(t, newRunner(t), newSpec(t, b))
			pid := start(t, tk)
			marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
			p := add(t, tk, "while :; do sleep 1; done # "+marker, nil)
			start(t, p)
			if err := syscall.Kill(shimOf(t, pid), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if exit := wait(t, p, 137); exit.Error == "" {
				t.Errorf("Wait = %+v, want an error text", exit)
			}
			wait(t, tk, 137)
			if _, err := p.Start(t.Context()); !fault.Is(err, fault.Conflict) {
				t.Errorf("Start = %v, want a conflict", err)
			}
			eventually(t, "its processes end", func() bool { return len(processes(t, marker)) == 0 })
			if err := p.Delete(t.Context()); err != nil {
				t.Errorf("Delete = %v", err)
			}
		})
	}
}

// TestKeepaliveResumes: a paused container hears the stop signal when the engine's outer process has gone.
func TestKeepaliveResumes(t *testing.T) {
	spec := newSpec(t, sh("trap 'exit 3' TERM; echo; while :; do sleep 1 & wait $!; done"))
	spec.Keepalive = filepath.Join(spec.Dir, "alive")
	if err := syscall.Mkfifo(spec.Keepalive, 0o600); err != nil {
		t.Fatal(err)
	}
	outer, err := os.OpenFile(spec.Keepalive, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	tk := prepare(t, newRunner(t), spec)
	view := attach(t, tk, task.Attach{Stdout: true})
	start(t, tk)
	if _, err := io.ReadFull(view, make([]byte, 9)); err != nil { // the trap is set
		t.Fatal(err)
	}
	if err := tk.Pause(t.Context()); err != nil {
		t.Fatalf("Pause = %v", err)
	}
	_ = outer.Close()
	wait(t, tk, 3)
}
