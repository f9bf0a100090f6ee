package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/destination"
	"moss/engine/fault"
	"moss/engine/logdriver"
	"moss/engine/network"
	"moss/engine/ocispec"
	"moss/engine/pidfd"
	"moss/engine/record"
	"moss/engine/task"
	"moss/engine/tree"
)

// Start runs the container's process. fault.NotModified if it runs already; fault.NotFound if the command is not in the
// image. When it cannot start, the container stays as it was, with the exit code that shells give (126, 127) or 128.
func (m *Manager) Start(ctx context.Context, ref string) error {
	c, err := m.index.find(ref)
	if err != nil {
		return err
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	return m.startContainer(context.WithoutCancel(ctx), c, container.OpStart) // it keeps starting even if the client hangs up
}

// startContainer does the work of Start and of the restart policy. The caller holds the token.
func (m *Manager) startContainer(ctx context.Context, c *ctr, op container.Op) error {
	m.starting.RLock()
	defer m.starting.RUnlock()
	if m.ending {
		return fault.Unavailable("the engine is shutting down") // a container that is Restarting stays so for the next one
	}
	r := c.record()
	if _, err := r.Next(op); err != nil {
		return err
	}
	if err := m.endLeftover(ctx, c); err != nil {
		return err
	}
	if err := m.launchTask(ctx, c, op); err != nil {
		return m.startFailed(c, op, err)
	}
	return nil
}

// startFailed records why a container did not start and tells of it as of an end, which is what waiting clients look for.
func (m *Manager) startFailed(c *ctr, op container.Op, cause error) error {
	code := 128
	switch {
	case isNeedMissing(cause): // says nothing of the command
	case fault.Is(cause, fault.NotFound):
		code = 127
	case fault.Is(cause, fault.Forbidden):
		code = 126
		cause = fault.Internal("%w", cause) // the documents know no 403 here
	}
	_, err := m.applyEvent(c, life.StartFailed{Op: op, Code: code, Error: fault.Text(cause), At: time.Now()})
	if err != nil {
		return fmt.Errorf("killed while it was being restarted: %w", cause) // the kill has noted the end already
	}
	return cause
}

// launchTask brings a container from rest to Running, or leaves everything as it was.
func (m *Manager) launchTask(ctx context.Context, c *ctr, op container.Op) (err error) {
	r := c.record()
	spec, err := container.SpecOf(r)
	if err != nil {
		return err
	}
	var back undo
	defer func() { back.run(ctx, &err) }()
	back.push(func(context.Context) error { m.pruneCgroups(r); return nil })
	defer m.holdCgroups(r)()

	with, err := m.openNamespaces(c.id, &spec)
	defer func() { m.logReleaseError(c.id, with.close()) }()
	if err != nil {
		return err
	}
	near, err := m.linkedNeighbours(r)
	if err != nil {
		return err
	}
	m.placeEtc(c, &with)
	spec.Env = linkEnv(r.Name, near, spec.Env)
	parts, err := m.prepareParts(ctx, c, &spec, &with, &back)
	if err != nil {
		return err
	}
	parts.near = near
	c.addStep(&spec, parts.rootfs)
	if err := m.mountVolumes(ctx, c.id, &spec, &back); err != nil {
		return err
	}
	bundle, err := m.writeBundle(c, &spec, parts)
	if err != nil {
		return err
	}
	c.setStarting(parts.task, op)
	back.push(func(context.Context) error { c.setTask(nil); return nil })
	c.joinViewers(ctx, parts.task)

	pid, err := parts.task.Start(ctx)
	if err != nil {
		return err
	}
	m.keepFilter(c.id, bundle)
	return m.recordStarted(ctx, c, op, parts, pid)
}

// recordStarted publishes a process that runs. From here on the watcher owns what launchTask has made.
func (m *Manager) recordStarted(ctx context.Context, c *ctr, op container.Op, parts parts, pid int) error {
	after, err := m.applyEvent(c, life.Started{
		Op: op, Process: identifyProcess(pid), At: time.Now().UTC(), BootID: m.opt.BootID, Network: recordNetwork(parts.sandbox),
	})
	if err != nil {
		// A kill has ended the restarting meanwhile, and it means this process too. Only then can launch take it back.
		killed := parts.task.Signal(ctx, int(unix.SIGKILL))
		if killed == nil {
			_, killed = parts.task.Wait(ctx)
		}
		if killed != nil && !fault.Is(killed, fault.Conflict) {
			return errors.Join(err, killed)
		}
		return err
	}
	m.layerApart(ctx, c)
	m.linksChanged(c)
	m.namesChanged(c)
	m.publishNetwork("connect", after)
	m.publishVolumes("mount", after)
	m.publishEvent("start", after)
	m.tellBegan(after)
	m.watchTask(c, parts.task, nil)
	m.opt.Log.Info().Str("container", c.id).Str("name", after.Name).Int("pid", pid).Msg("container started")
	return nil
}

// identifyProcess tells a container's process from a later one of the same number.
func identifyProcess(pid int) pidfd.ID {
	process, err := pidfd.Find(pid)
	if err != nil {
		return pidfd.ID{Pid: pid} // it has ended already
	}
	return process
}

// parts is what a container's process is put together from.
type parts struct {
	sandbox network.Sandbox
	with    *joined
	near    []neighbour
	rootfs  string
	task    task.Task
}

// prepareParts makes the network, the mount and the monitor side by side; none needs another.
func (m *Manager) prepareParts(ctx context.Context, c *ctr, spec *container.Spec, with *joined, back *undo) (p parts, err error) {
	p.with = with
	dir := m.taskDir(c.id)
	if err := tree.RemovePath(dir); err != nil {
		return p, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return p, err
	}
	back.push(func(context.Context) error { return tree.RemovePath(dir) })
	if err := m.setLogAside(c.record().LogPath); err != nil {
		return p, err
	}

	var joinErr, mountErr, taskErr error
	joined, mounted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(joined)
		p.sandbox, joinErr = m.joinNetwork(ctx, c.record(), spec, with)
	}()
	go func() {
		defer close(mounted)
		p.rootfs, mountErr = m.holdLayer(ctx, c)
	}()
	p.task, taskErr = m.opt.Tasks.Prepare(ctx, m.taskSpec(c.record(), spec))
	<-joined
	<-mounted
	if taskErr == nil {
		back.push(p.task.Delete)
	}
	if joinErr == nil {
		back.push(func(ctx context.Context) error { return m.opt.Networks.Leave(ctx, c.id) })
	}
	if mountErr == nil {
		back.push(func(ctx context.Context) error { return m.dropLayer(ctx, c) })
	}
	if err := errors.Join(joinErr, mountErr, taskErr); err != nil {
		return p, fmt.Errorf("start %s: %w", c.record().Name, err)
	}
	return p, nil
}

func (m *Manager) taskSpec(r *container.Record, spec *container.Spec) task.Spec {
	return task.Spec{
		ID: r.ID, Dir: m.taskDir(r.ID),
		Terminal: spec.Config.Tty, OpenStdin: spec.Config.OpenStdin, StdinOnce: spec.Config.StdinOnce,
		Width: uint16(spec.Host.ConsoleSize[1]), Height: uint16(spec.Host.ConsoleSize[0]),
		Log:        m.taskLog(r, spec),
		StopSignal: spec.StopSignal, Runtime: m.opt.Runtime, Keepalive: m.opt.Keepalive,
	}
}

func (m *Manager) taskLog(r *container.Record, spec *container.Spec) task.Log {
	l := task.Log{
		Driver: spec.Log.Driver.Name, Path: r.LogPath, MaxSize: spec.Log.MaxSize, MaxFiles: spec.Log.MaxFiles, Compress: spec.Log.Compress,
	}
	if spec.Log.Driver.Writes == logdriver.Journal {
		l.Path, l.Fields = m.journalEnd(r), spec.Log.JournalFields(r)
		return l
	}
	if attrs := spec.Log.Attrs.Of(r); attrs != nil {
		l.Attrs, _ = json.Marshal(attrs) //nolint:errchkjson // strings
	}
	return l
}

// writeBundle writes the files that the container's process starts with: the managed files of its /etc and config.json. It
// returns the key under which the compiled seccomp filter is to be kept; empty if it is already, or there is none.
func (m *Manager) writeBundle(c *ctr, spec *container.Spec, p parts) (filterKey string, err error) {
	r := c.record()
	hostName, err := os.Hostname()
	if err != nil {
		return "", err
	}
	if p.with.network == nil { // otherwise the files are the other's
		c.files.Lock()
		err := writeEtc(r, spec, &p, spec.Hostname(r.ID, hostName))
		c.files.Unlock()
		if err != nil {
			return "", err
		}
	}
	if err := errors.Join(makeSources(spec.Binds), checkDevices(spec.Devices)); err != nil {
		return "", err
	}
	if err := m.enterUser(p.rootfs, spec); err != nil {
		return "", err
	}
	ids, err := lookupUser(p.rootfs, spec.Config.User, spec.Host.GroupAdd)
	if err != nil {
		return "", err
	}
	idMap := m.idMap(&spec.Host)
	owner, err := toEngineIDs(idMap, ids)
	if err != nil {
		return "", err
	}
	if err := setNetwork(&p, idMap, spec); err != nil {
		return "", err
	}
	aptPath, err := m.writeAptConf(r.ID, p.rootfs, idMap)
	if err != nil {
		return "", err
	}
	oci, err := m.opt.Specs.Build(ocispec.Input{
		ID: r.ID, Spec: spec, Rootfs: p.rootfs, User: ids, Sandbox: p.sandbox, HostName: hostName, Join: p.with.oci, IDMap: idMap,
		HostnamePath: r.HostnamePath, HostsPath: r.HostsPath, ResolvConf: r.ResolvConf,
		AptConf: aptPath, CgroupsPath: m.cgroupsPath(r),
	})
	if err != nil {
		return "", err
	}
	workingDir, err := destination.Resolve(oci)
	if err != nil {
		return "", err
	}
	if err := makeFolder(p.rootfs, workingDir, idMap, owner); err != nil {
		return "", err
	}
	filterKey = m.useFilter(oci)
	raw, err := json.Marshal(oci)
	if err != nil {
		return "", err
	}
	// Should the engine die between the start and its record, the next one learns from here what network it has.
	if err := record.PutVolatile(m.networkPath(r.ID), recordNetwork(p.sandbox)); err != nil {
		return "", err
	}
	return filterKey, os.WriteFile(filepath.Join(m.taskDir(r.ID), "config.json"), raw, 0o600)
}

// useFilter puts the compiled seccomp filter into a spec. It returns the key of one that must be compiled; empty if none must.
func (m *Manager) useFilter(oci *specs.Spec) (missing string) {
	if m.opt.Seccomp == nil {
		return ""
	}
	key := ocispec.SeccompKey(oci)
	if key == "" {
		return ""
	}
	bpf, ok := m.opt.Seccomp.Get(key)
	if !ok {
		return key
	}
	ocispec.UseCompiledSeccomp(oci, bpf)
	return ""
}

// keepFilter keeps the filter that the runtime has just compiled, so that the next start need not.
func (m *Manager) keepFilter(containerID, key string) {
	if key != "" {
		m.opt.Seccomp.Keep(key, filepath.Join(m.opt.Runtime.Root, containerID, "seccomp.bpf"))
	}
}

// networkPath is the file, beside the task's own, that tells of the network of a container that is being started.
func (m *Manager) networkPath(containerID string) string {
	return filepath.Join(m.taskDir(containerID), "network.json")
}
