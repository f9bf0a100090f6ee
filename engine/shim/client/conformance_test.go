package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"moss/engine/pidfd"
	"moss/engine/shim/client"
	"moss/engine/shim/proto"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

func TestConformance(t *testing.T) {
	programs := map[tasktest.Program]bundle{
		tasktest.Exit3:         sh("exit 3"),
		tasktest.Hello:         sh("echo out; echo err >&2"),
		tasktest.Prompt:        sh("echo out; echo err >&2; read x"),
		tasktest.Cat:           {args: []string{"cat"}},
		tasktest.Trap:          sh("trap 'exit 7' TERM; trap '' WINCH; echo ready; while :; do sleep 1 & wait $!; done"),
		tasktest.Missing:       {args: []string{"nope"}},
		tasktest.NotExecutable: {args: []string{"/bin/plainfile"}},
	}
	for _, runtime := range runtimes(t) {
		for _, cgroup := range []bool{false, true} {
			if cgroup && os.Getenv(envGroup) == "" {
				continue // TestWithCgroup tells
			}
			t.Run(fmt.Sprintf("%s, cgroup %t", runtime, cgroup), func(t *testing.T) {
				tasktest.Run(t, func(t *testing.T) tasktest.Harness {
					t.Helper()
					programs := maps.Clone(programs)
					for name, b := range programs {
						b.runtime, b.cgroup = runtime, cgroup
						programs[name] = b
					}
					return harness(t, programs)
				})
			})
		}
	}
}

// runtimes lists the installed ones. crun is always there.
func runtimes(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("runc"); err != nil {
		t.Log("runc is missing, so only crun is tested: install it (apt-get install runc)")
		return []string{"crun"}
	}
	return []string{"crun", "runc"}
}

func harness(t *testing.T, programs map[tasktest.Program]bundle) tasktest.Harness {
	t.Helper()
	runner := newRunner(t)
	return tasktest.Harness{
		Runner: configuring{runner, t, programs},
		Hang: func(t *testing.T, _ task.Task, spec task.Spec) func() {
			t.Helper()
			runner.SetLimits(300*time.Millisecond, 100*time.Millisecond, patience)
			goOn := hang(t, spec.Dir)
			return func() {
				runner.SetLimits(patience, time.Second, patience)
				goOn()
			}
		},
		Spec: func(t *testing.T, p tasktest.Program) task.Spec {
			t.Helper()
			spec := newSpec(t, programs[p])
			spec.ID += "-" + string(p)
			return spec
		},
		Process: func(t *testing.T, p tasktest.Program, terminal bool) json.RawMessage {
			t.Helper()
			return process(t, programs[p], terminal)
		},
	}
}

// hang stops a task's shim until the returned function is called.
func hang(t *testing.T, dir string) (goOn func()) {
	t.Helper()
	alive, err := proto.ReadAlive(dir)
	if err == nil {
		err = alive.Shim.Signal(int(syscall.SIGSTOP))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = alive.Shim.Signal(int(syscall.SIGCONT)) })
	for !stopped(alive.Shim.Pid) {
		if t.Context().Err() != nil {
			t.Fatal("the shim does not stop")
		}
		time.Sleep(time.Millisecond)
	}
	return func() {
		if err := alive.Shim.Signal(int(syscall.SIGCONT)); err != nil {
			t.Error(err)
		}
	}
}

// stopped reports whether all threads of a process stand still: each stops when it next leaves the kernel.
func stopped(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return false
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if stat, ok := pidfd.ReadStat(id); err != nil || !ok || !stat.Still() {
			return false
		}
	}
	return true
}

// configuring brings config.json in line with what the suite changed in the spec.
type configuring struct {
	*client.Runner
	t        *testing.T
	programs map[tasktest.Program]bundle
}

func (c configuring) Prepare(ctx context.Context, spec task.Spec) (task.Task, error) {
	_, program, _ := strings.Cut(spec.ID, "-")
	writeConfig(c.t, spec, c.programs[tasktest.Program(program)])
	return c.Runner.Prepare(ctx, spec)
}
