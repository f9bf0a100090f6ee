package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/destination"
	"moss/engine/fault"
	"moss/engine/logdriver"
	"moss/engine/logforward"
	"moss/engine/logsink"
	"moss/engine/network"
	"moss/engine/ocispec"
	"moss/engine/pidfd"
	"moss/engine/record"
	"moss/engine/task"
	"moss/engine/tree"
)

// launcher starts the processes of containers.
type launcher struct {
	opt        *Options
	folders    folders
	lives      *lives
	follower   *follower
	records    *records
	cgroups    *cgroups
	namespaces *namespaces
	links      *links
	networks   *Networks
	layers     *layers
	volumes    *volumes
	images     *imageMounts
	userns     *userNamespaces
	etc        *etcFiles
	init       *initProgram
}

// launchTask brings a container from rest to Running, or leaves everything as it was.
func (l *launcher) launchTask(ctx context.Context, c *ctr, op container.Op) (err error) {
	r := c.record()
	spec, err := container.SpecOf(r)
	if err != nil {
		return err
	}
	var back undo
	defer func() { back.run(ctx, &err) }()
	back.push(func(context.Context) error { l.cgroups.pruneParents(r.Host.CgroupPath()); return nil })
	defer l.cgroups.holdCgroups(r)()

	with, err := l.namespaces.openNamespaces(c.id, &spec)
	defer l.namespaces.closeJoined(c.id, &with)
	if err != nil {
		return err
	}
	near, err := l.links.linkedNeighbours(r)
	if err != nil {
		return err
	}
	l.etc.placeEtc(c, &with)
	spec.Env = linkEnv(r.Name, near, spec.Env)
	parts, err := l.prepareParts(ctx, c, &spec, &with, &back)
	if err != nil {
		return err
	}
	parts.near = near
	c.addStep(&spec, parts.rootfs)
	release, err := l.bindSources(ctx, c.id, &spec, &back)
	if err != nil {
		return err
	}
	defer release()
	bundle, err := l.writeBundle(c, &spec, parts)
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
	l.keepFilter(c.id, bundle)
	return l.recordStarted(ctx, c, op, parts, pid)
}

// bindSources turns the volumes and images of a container that starts into binds. What only the start needs of them goes with
// release.
func (l *launcher) bindSources(
	ctx context.Context, containerID string, spec *container.Spec, back *undo,
) (release func(), err error) {
	if err := l.volumes.mountVolumes(ctx, containerID, spec, back); err != nil {
		return nil, err
	}
	end, err := l.images.mountImages(ctx, spec)
	if err != nil {
		return nil, err
	}
	return func() {
		if err := end(); err != nil {
			l.opt.Log.Warn().Err(err).Str("container", containerID).Msg("files of a mounted image not closed")
		}
	}, nil
}

// recordStarted publishes a process that runs. From here on the watcher owns what launchTask has made.
func (l *launcher) recordStarted(ctx context.Context, c *ctr, op container.Op, parts parts, pid int) error {
	after, err := l.lives.applyEvent(c, life.Started{
		Op: op, Process: identifyProcess(pid), At: time.Now().UTC(), BootID: l.opt.BootID, Network: recordNetwork(parts.sandbox),
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
	l.layers.layerApart(ctx, c)
	l.links.linksChanged(c)
	l.networks.namesChanged(c)
	l.networks.publishNetwork("connect", after)
	l.volumes.publishVolumes("mount", after)
	publishEvent(l.opt.Events, "start", after)
	l.follower.tellBegan(after)
	l.follower.watchTask(c, parts.task, nil)
	l.opt.Log.Info().Str("container", c.id).Str("name", after.Name).Int("pid", pid).Msg("container started")
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
func (l *launcher) prepareParts(
	ctx context.Context, c *ctr, spec *container.Spec, with *joined, back *undo,
) (p parts, err error) {
	p.with = with
	dir := l.folders.taskDir(c.id)
	if err := tree.RemovePath(dir); err != nil {
		return p, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return p, err
	}
	back.push(func(context.Context) error { return tree.RemovePath(dir) })
	if err := l.records.setLogAside(c.record().LogPath); err != nil {
		return p, err
	}

	if spec.Log.Driver.Writes == logdriver.Remote {
		if err := l.opt.LogService.Ensure(ctx); err != nil {
			return p, fmt.Errorf("start %s: %w", c.record().Name, err)
		}
	}
	var joinErr, mountErr, taskErr error
	joined, mounted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(joined)
		p.sandbox, joinErr = l.networks.joinNetwork(ctx, c.record(), spec, with)
	}()
	go func() {
		defer close(mounted)
		p.rootfs, mountErr = l.layers.holdLayer(ctx, c)
	}()
	p.task, taskErr = l.opt.Tasks.Prepare(ctx, l.taskSpec(c.record(), spec))
	<-joined
	<-mounted
	if taskErr == nil {
		back.push(p.task.Delete)
	}
	if joinErr == nil {
		back.push(func(ctx context.Context) error { return l.networks.leaveNetworks(ctx, c) })
	}
	if mountErr == nil {
		back.push(func(ctx context.Context) error { return l.layers.dropLayer(ctx, c) })
	}
	if err := errors.Join(joinErr, mountErr, taskErr); err != nil {
		return p, fmt.Errorf("start %s: %w", c.record().Name, err)
	}
	return p, nil
}

func (l *launcher) taskSpec(r *container.Record, spec *container.Spec) task.Spec {
	return task.Spec{
		ID: r.ID, Dir: l.folders.taskDir(r.ID),
		Terminal: spec.Config.Tty, OpenStdin: spec.Config.OpenStdin, StdinOnce: spec.Config.StdinOnce,
		Width: spec.Host.ConsoleSize[1], Height: spec.Host.ConsoleSize[0],
		Log:        l.taskLog(r, spec),
		StopSignal: spec.StopSignal, Runtime: l.opt.Runtime, Keepalive: l.opt.Keepalive,
	}
}

func (l *launcher) taskLog(r *container.Record, spec *container.Spec) task.Log {
	log := task.Log{
		Driver: spec.Log.Driver.Name, Path: r.LogPath,
		MaxSize: spec.Log.MaxSize, MaxFiles: spec.Log.MaxFiles, Compress: spec.Log.Compress,
		Buffer: spec.Log.Buffer,
	}
	switch spec.Log.Driver.Writes {
	case logdriver.Journal:
		log.Path, log.Fields = l.folders.journalEnd(r.ID), spec.Log.JournalFields(r)
		return log
	case logdriver.Remote:
		log.Socket, log.Target = l.opt.LogService.Socket(), logTarget(r, spec)
	case logdriver.File, logdriver.Nowhere:
	}
	if attrs := spec.Log.Attrs.Of(r); attrs != nil {
		log.Attrs, _ = json.Marshal(attrs) //nolint:errchkjson // strings
	}
	return log
}

// logTarget says where the output of a container goes, for moss-log.
func logTarget(r *container.Record, spec *container.Spec) json.RawMessage {
	host, _ := os.Hostname() // without one receivers name the sender themselves
	attrs := spec.Log.Attrs.Of(r)
	tag := attrs["tag"]
	delete(attrs, "tag")
	target, _ := json.Marshal(logforward.Target{ //nolint:errchkjson // strings
		Driver: spec.Log.Driver.Name, Options: spec.Log.Options,
		Container: logsink.Container{
			ID: r.ID, Name: r.Name, ImageID: r.ImageID, ImageName: r.Image, Created: r.Created, Host: host,
			Command: strings.Join(append([]string{r.Path}, r.Args...), " "), Tag: cmp.Or(tag, r.ID[:12]), Attrs: attrs,
		},
	})
	return target
}

// writeEtc writes the managed files of /etc. One whose network is another's has the other's.
func (c *ctr) writeEtc(spec *container.Spec, p *parts, hostName string) error {
	if p.with.network != nil {
		return nil
	}
	c.files.Lock()
	defer c.files.Unlock()
	r := c.record()
	return writeEtc(r, spec, p, spec.Hostname(r.ID, hostName))
}

// prepareSources makes folders of the host that are to be mounted and are not there, and returns what the devices that were
// asked for by name bring. What is not there otherwise is an error.
func (l *launcher) prepareSources(spec *container.Spec) (ocispec.Additions, error) {
	more, err := deviceAdditions(l.opt.Devices, spec)
	if err != nil {
		return more, err
	}
	return more, errors.Join(makeSources(spec.Binds), checkDevices(spec.Devices), checkDevices(more.Devices))
}

// writeBundle writes the files that the container's process starts with: the managed files of its /etc and config.json. It
// returns the key under which the compiled seccomp filter is to be kept; empty if it is already, or there is none.
func (l *launcher) writeBundle(c *ctr, spec *container.Spec, p parts) (filterKey string, err error) {
	r := c.record()
	hostName, err := os.Hostname()
	if err != nil {
		return "", err
	}
	if err := c.writeEtc(spec, &p, hostName); err != nil {
		return "", err
	}
	more, err := l.prepareSources(spec)
	if err != nil {
		return "", err
	}
	if err := l.userns.enterUser(p.rootfs, spec); err != nil {
		return "", err
	}
	ids, err := lookupUser(p.rootfs, spec.Config.User, spec.Host.GroupAdd)
	if err != nil {
		return "", err
	}
	idMap := l.userns.idMap(&spec.Host)
	owner, err := toEngineIDs(idMap, ids)
	if err != nil {
		return "", err
	}
	if err := setNetwork(&p, idMap, spec); err != nil {
		return "", err
	}
	aptPath, err := l.etc.writeAptConf(l.folders.taskDir(r.ID), p.rootfs, idMap)
	if err != nil {
		return "", err
	}
	initPath, err := l.init.provideCopy(spec)
	if err != nil {
		return "", err
	}
	oci, err := l.opt.Specs.Build(ocispec.Input{
		ID: r.ID, Spec: spec, Rootfs: p.rootfs, User: ids, Sandbox: p.sandbox, HostName: hostName, Join: p.with.oci, IDMap: idMap,
		HostnamePath: r.HostnamePath, HostsPath: r.HostsPath, ResolvConf: r.ResolvConf,
		AptConf: aptPath, Init: initPath, Additions: more, CgroupsPath: l.cgroups.cgroupsPath(r),
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
	filterKey = l.useFilter(oci)
	raw, err := json.Marshal(oci)
	if err != nil {
		return "", err
	}
	// Should the engine die between the start and its record, the next one learns from here what network it has.
	if err := record.PutVolatile(l.folders.networkPath(r.ID), recordNetwork(p.sandbox)); err != nil {
		return "", err
	}
	return filterKey, os.WriteFile(filepath.Join(l.folders.taskDir(r.ID), "config.json"), raw, 0o600)
}

// useFilter puts the compiled seccomp filter into a spec. It returns the key of one that must be compiled; empty if none must.
func (l *launcher) useFilter(oci *specs.Spec) (missing string) {
	if l.opt.Seccomp == nil {
		return ""
	}
	key := ocispec.SeccompKey(oci)
	if key == "" {
		return ""
	}
	bpf, ok := l.opt.Seccomp.Get(key)
	if !ok {
		return key
	}
	ocispec.UseCompiledSeccomp(oci, bpf)
	return ""
}

// keepFilter keeps the filter that the runtime has just compiled, so that the next start need not.
func (l *launcher) keepFilter(containerID, key string) {
	if key != "" {
		l.opt.Seccomp.Keep(key, filepath.Join(l.opt.Runtime.Root, containerID, "seccomp.bpf"))
	}
}
