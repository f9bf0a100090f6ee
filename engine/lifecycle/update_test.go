package lifecycle

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/ocispec"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

// limited is an engine whose cgroups can be limited.
func (w *world) limited() *Manager {
	w.t.Helper()
	m := w.engine()
	m.opt.Controllers = container.Controllers{Memory: true, Swap: true, CPU: true, Cpuset: true, Pids: true}
	specs, err := ocispec.New(ocispec.Options{Controllers: m.opt.Controllers})
	w.must(err)
	m.opt.Specs, m.limits.specs, m.cgroups.base = specs, specs, "/moss"
	return m
}

func (w *world) limits(id string) string {
	var all strings.Builder
	for _, raw := range w.tasks.Task(id).Updates() {
		all.Write(raw)
	}
	return all.String()
}

func TestUpdateOfARunningContainer(t *testing.T) {
	w := newWorld(t)
	m := w.limited()
	id := w.create(m, "web", func(_ *container.Config, h *container.HostConfig) { h.Memory, h.CPUShares = 64<<20, 512 })
	w.must(m.Start(t.Context(), id))
	warnings, err := m.Update(t.Context(), id, container.HostConfig{Memory: 32 << 20})
	w.must(err)
	if got, want := w.limits(id), `{"memory":{"limit":33554432,"swap":67108864,"checkBeforeUpdate":true}}`; got != want || len(warnings) > 0 {
		t.Errorf("the cgroup got %s, warnings %q; want %s", got, warnings, want)
	}
	if r, err := m.inventory.Get(id); err != nil || r.Host.Memory != 32<<20 || r.Host.CPUShares != 512 {
		t.Errorf("record: memory %d, shares %d", r.Host.Memory, r.Host.CPUShares)
	}
	if _, told := w.log.last("update"); !told {
		t.Error("no update event")
	}
	w.must(m.Stop(t.Context(), id, container.StopOptions{}))
	if _, err := m.Update(t.Context(), id, container.HostConfig{CPUShares: 2}); err != nil {
		t.Errorf("update of a stopped container: %v", err)
	}
	m.Close()
	if r, err := w.engine().inventory.Get(id); err != nil || r.Host.Memory != 32<<20 || r.Host.CPUShares != 2 {
		t.Errorf("the next engine: memory %d, shares %d", r.Host.Memory, r.Host.CPUShares)
	}
}

func TestUpdateThatTheKernelRefuses(t *testing.T) {
	w := newWorld(t)
	m := w.limited()
	id := w.create(m, "web", func(_ *container.Config, h *container.HostConfig) { h.Memory = 64 << 20 })
	w.must(m.Start(t.Context(), id))
	tries := 0
	w.tasks.GroupErr = func(_ task.Spec, verb string) error {
		if tries++; tries == 1 && verb == "update" {
			return errors.New("device or resource busy")
		}
		return nil
	}
	_, err := m.Update(t.Context(), id, container.HostConfig{Memory: 5 << 20, CPUShares: 7})
	if err == nil || !strings.Contains(err.Error(), "busy") || !strings.Contains(err.Error(), "Cannot update container "+id) {
		t.Errorf("error = %v, want the kernel's reason", err)
	}
	if r, err := m.inventory.Get(id); err != nil || r.Host.Memory != 64<<20 || r.Host.CPUShares != 0 {
		t.Errorf("record: memory %d, shares %d, want it as it was", r.Host.Memory, r.Host.CPUShares)
	}
	want := `{"memory":{"limit":67108864,"swap":134217728,"checkBeforeUpdate":true},"cpu":{"shares":1024}}`
	if got := w.limits(id); got != want {
		t.Errorf("the cgroup was given back %s, want %s", got, want)
	}
	w.must(m.Kill(t.Context(), id, ""))
}

// TestCPUsThatAreNotThere: create, update and a start with settings of its own refuse them, also where there are no cgroups. What
// the record holds already is in the way of no other change.
func TestCPUsThatAreNotThere(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	cpus := "0-3"
	m.opt.Machine = func() container.Machine { return container.Machine{CPUs: cpus, Nodes: "0"} }
	id := w.create(m, "web", func(_ *container.Config, h *container.HostConfig) { h.CpusetCpus, h.NanoCPUs = "3", 4e9 })
	cpus = "0-1"
	refused := func(verb string, err error) {
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "available: 0") {
			t.Errorf("%s: error %v, want fault.Invalid with what is available", verb, err)
		}
	}
	_, err := m.Update(t.Context(), id, container.HostConfig{CpusetCpus: "0-2"})
	refused("update", err)
	_, err = m.Update(t.Context(), id, container.HostConfig{CpusetMems: "1"})
	refused("update", err)
	refused("reconfigure", m.Reconfigure(t.Context(), id, container.HostConfig{CpusetCpus: "2"}))
	_, _, err = m.Create(t.Context(), "", container.Config{Image: "busybox"}, container.HostConfig{CpusetCpus: "2"}, nil)
	refused("create", err)
	if _, err := m.Update(t.Context(), id, container.HostConfig{CPUShares: 7}); err != nil {
		t.Errorf("update of another limit: %v", err)
	}
	if r, err := m.inventory.Get(id); err != nil || r.Host.CpusetCpus != "3" || r.Host.CpusetMems != "" || r.Host.CPUShares != 7 {
		t.Errorf("record: %+v, %v, want the CPUs of the create and the new shares", r.Host, err)
	}
}

func TestUpdateWithoutCgroups(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web")
	w.must(m.Start(t.Context(), id))
	warnings, err := m.Update(t.Context(), id, container.HostConfig{Memory: 32 << 20, CPUShares: 2})
	w.must(err)
	if all := strings.Join(warnings, "\n"); !strings.Contains(all, "memory limit") || !strings.Contains(all, "CPU shares") || w.limits(id) != "" {
		t.Errorf("warnings %q, the cgroup got %s; want a warning for each limit", all, w.limits(id))
	}
	if _, err := m.Update(t.Context(), "nope", container.HostConfig{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("update of none: %v", err)
	}
	if _, err := m.Update(t.Context(), id, container.HostConfig{Memory: 1}); !fault.Is(err, fault.Invalid) {
		t.Errorf("update with a bad value: %v", err)
	}
	c, err := m.index.find(id)
	w.must(err)
	w.must(m.Kill(t.Context(), id, ""))
	_, err = m.lives.applyEvent(c, life.RemovalBegun{})
	w.must(err)
	if _, err := m.Update(t.Context(), id, container.HostConfig{CPUShares: 3}); !fault.Is(err, fault.Conflict) {
		t.Errorf("update of one that is being removed: %v, want a conflict", err)
	}
}

// TestUpdateEndsARestartLoop: a policy that would not restart the container ends its waiting.
func TestUpdateEndsARestartLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tasks.Script = func(task.Spec, *tasktest.Proc) int { return 1 }
		m := w.engine()
		id := w.create(m, "web", always)
		w.must(m.Start(t.Context(), id))
		time.Sleep(50 * time.Millisecond)
		if _, err := m.Update(t.Context(), id, container.HostConfig{RestartPolicy: container.RestartPolicy{Name: "unless-stopped"}}); err != nil {
			t.Fatal(err)
		}
		if got := w.state(m, id); got != container.Restarting {
			t.Errorf("with another policy that restarts: %s", got)
		}
		if _, err := m.Update(t.Context(), id, container.HostConfig{RestartPolicy: container.RestartPolicy{Name: "no"}}); err != nil {
			t.Fatal(err)
		}
		r, err := m.inventory.Get(id)
		w.must(err)
		if r.State != container.Exited || r.StoppedByUser {
			t.Errorf("with the policy no: %s, stopped by user %t", r.State, r.StoppedByUser)
		}
		time.Sleep(time.Minute)
		if got := w.state(m, id); got != container.Exited {
			t.Errorf("a minute later: %s", got)
		}
	})
}
