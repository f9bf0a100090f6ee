package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/image"
	"moss/engine/tree"
)

// Create makes a container and returns its id and the warnings for the client. Nothing of it runs yet.
//
// fault.NotFound if the image is not there, fault.Conflict if the name is taken, fault.Invalid for a bad parameter,
// fault.Unsupported for what moss does not do. On error nothing is left.
func (m *Manager) Create(
	ctx context.Context, name string, cfg container.Config, host container.HostConfig,
	endpoints map[string]container.EndpointConfig,
) (_ string, warnings []string, err error) {
	if name != "" {
		if name, err = container.CheckName(name); err != nil {
			return "", nil, err
		}
	}
	img, err := m.opt.Images.Get(ctx, cfg.Image)
	if err != nil {
		return "", nil, noImage(cfg.Image, err)
	}
	return m.makeContainer(ctx, name, cfg, host, endpoints, img, nil)
}

// makeContainer does the work of Create, and of CreateStep if step is not nil.
func (m *Manager) makeContainer(
	ctx context.Context, name string, cfg container.Config, host container.HostConfig,
	endpoints map[string]container.EndpointConfig, img *image.Image, step *container.Step,
) (_ string, warnings []string, err error) {
	containerID := id.New() // not a result: a return with an error must not change what the undo steps remove
	spec, warnings, err := m.newSpec(containerID, cfg, host, endpoints, img)
	if err != nil {
		return "", nil, err
	}
	var back undo
	defer func() { back.run(ctx, &err) }()
	if name, err = m.takeName(name, containerID); err != nil {
		return "", nil, err
	}
	back.push(func(context.Context) error { m.index.free(name, containerID); return nil })

	links, err := m.resolveReferences(containerID, name, &spec)
	if err != nil {
		return "", nil, err
	}
	r, err := m.newRecord(containerID, name, img, &spec, warnings)
	if err != nil {
		return "", nil, err
	}
	r.Links, r.Build = links, step != nil
	back.push(func(context.Context) error { return tree.RemovePath(m.dataDir(containerID)) })
	if err := os.MkdirAll(m.dataDir(containerID), 0o700); err != nil {
		return "", nil, fmt.Errorf("create container %s: %w", containerID, err)
	}
	back.push(func(ctx context.Context) error { return m.opt.Layers.Remove(ctx, containerID) })
	if err := m.createLayer(ctx, containerID, img.ID, &spec); err != nil {
		return "", nil, fmt.Errorf("create writable layer of %s: %w", containerID, err)
	}
	if step != nil {
		if err := m.opt.Layers.SetVolatile(ctx, containerID, true); err != nil {
			return "", nil, err
		}
	}
	if err := m.addVolumes(ctx, r, &spec, nil, &back); err != nil {
		return "", nil, err
	}
	r.Mounts = spec.Mounts()
	c := newCtr(r, m.dataDir(containerID))
	c.step = step
	if err := c.saveRecord(true); err != nil {
		return "", nil, fmt.Errorf("save container %s: %w", containerID, err)
	}
	m.settleVolumes(r)
	m.index.add(c)
	m.publishEvent("create", r)
	return containerID, warnings, nil
}

// newSpec checks what a client asks for, as far as other containers do not matter. The warnings are for the client.
func (m *Manager) newSpec(
	containerID string, cfg container.Config, host container.HostConfig, endpoints map[string]container.EndpointConfig, img *image.Image,
) (container.Spec, []string, error) {
	endpoints, networkIDs, err := m.nameNetworks(&host, endpoints)
	if err != nil {
		return container.Spec{}, nil, err
	}
	cfg.Env = container.LayProxies(m.opt.Proxies, img.Config.Env, cfg.Env)
	spec, warnings, err := container.NewSpec(cfg, host, endpoints, img.Config)
	if err != nil {
		return spec, nil, err
	}
	if err := errors.Join(m.checkRuntime(spec.Runtime), m.opt.Specs.Check(&spec), m.keepID(cfg.User, &spec)); err != nil {
		return spec, nil, err
	}
	if err := m.settleNetworks(containerID, &spec, networkIDs); err != nil {
		return spec, nil, err
	}
	return spec, append(warnings, container.LimitWarnings(spec.Host, m.opt.Controllers)...), nil
}

// noImage tells a client that asks for a container what to pull; clients act on the kind.
func noImage(ref string, err error) error {
	if ref == "" {
		return fault.Invalid("Image: no image was named for the container")
	}
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	if !strings.ContainsAny(filepath.Base(ref), ":@") && !id.IsPrefix(ref) {
		ref += ":latest"
	}
	return fault.NotFound("No such image: %s", ref)
}

// checkRuntime refuses a runtime that is not the one this engine was started with.
func (m *Manager) checkRuntime(name string) error {
	if have := filepath.Base(m.opt.Runtime.Path); name != "" && name != have {
		return fault.Invalid("Runtime: %q is not configured, this engine runs %s", name, have)
	}
	return nil
}

// takeName reserves the name that the client wants, or a fresh one.
func (m *Manager) takeName(name, containerID string) (string, error) {
	if name != "" {
		return name, m.index.reserve(name, containerID)
	}
	for try := 0; ; try++ {
		name = container.RandomName(rand.IntN, try)
		if err := m.index.reserve(name, containerID); err == nil || !fault.Is(err, fault.Conflict) {
			return name, err
		}
	}
}

func (m *Manager) newRecord(
	containerID, name string, img *image.Image, spec *container.Spec, warnings []string,
) (*container.Record, error) {
	hostName, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	dir := m.dataDir(containerID)
	r := &container.Record{
		ID: containerID, Name: name, Created: time.Now().UTC(),
		Image: spec.Config.Image, ImageID: img.ID, Config: spec.Config, Host: spec.Host, Endpoints: spec.Endpoints,
		Path: spec.Args[0], Args: spec.Args[1:], Warnings: warnings,
		State: container.Created, BootID: m.opt.BootID, Driver: m.opt.Layers.Driver(),
		HostnamePath: filepath.Join(dir, "hostname"), HostsPath: filepath.Join(dir, "hosts"),
		ResolvConf: filepath.Join(dir, "resolv.conf"), LogPath: m.logPath(containerID, spec),
	}
	// Clients read the default host name before the first start.
	r.Config.Hostname = spec.Hostname(containerID, hostName)
	return r, nil
}

// Rename gives a container another name. fault.Conflict if the name is taken, fault.Invalid if it is none.
func (m *Manager) Rename(ctx context.Context, ref, name string) (err error) {
	c, err := m.index.find(ref)
	if err != nil {
		return err
	}
	if name, err = container.CheckName(name); err != nil {
		return err
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	if c.isRemoved() {
		return noSuch(ref) // while this waited
	}
	old := c.record().Name
	if old == name {
		return fault.Invalid("Renaming a container with the same name as its current name")
	}
	if err := m.index.reserve(name, c.id); err != nil {
		return err
	}
	c.update(func(r *container.Record) { r.Name = name })
	if err := c.saveOrUndo(func(r *container.Record) { r.Name = old }); err != nil {
		m.index.free(name, c.id)
		return err
	}
	m.index.free(old, c.id)
	m.updateNames(c)
	m.namesChanged(c)
	m.publishEvent("rename", c.record(), "oldName", "/"+old)
	return nil
}

// Remove takes a container away with all that it has. A running one is fault.Conflict without Force.
func (m *Manager) Remove(ctx context.Context, ref string, opt container.RemoveOptions) error {
	if opt.Link {
		return m.removeLink(ctx, ref)
	}
	c, err := m.index.find(ref)
	if err != nil {
		return err
	}
	if r := c.record(); r.State == container.Removing {
		_, err := r.Next(container.OpRemove)
		return err
	}
	if !opt.Force && !c.record().State.AtRest() {
		_, err := c.record().Next(container.OpRemove)
		return err
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	ctx = context.WithoutCancel(ctx) // a removal that has begun goes on when the client hangs up
	if opt.Force {
		if err := m.forceDown(ctx, c); err != nil {
			return err
		}
	}
	return m.removeTold(ctx, c, opt)
}

// forceDown ends whatever of the container is alive. The caller holds the token.
func (m *Manager) forceDown(ctx context.Context, c *ctr) error {
	r, err := m.applyEvent(c, life.EndAsked{Op: container.OpStop, Removal: true})
	if err != nil {
		return nil //nolint:nilerr // it is at rest
	}
	return m.endProcess(ctx, c, r, 0)
}

// removeContainer takes a container at rest away. The caller holds the token. A failure leaves it Dead, to be removed again.
func (m *Manager) removeContainer(ctx context.Context, c *ctr) error {
	return m.removeTold(ctx, c, container.RemoveOptions{})
}

// removeTold is removeContainer as a client asks for it. Anonymous volumes go with a container that removes itself, too.
func (m *Manager) removeTold(ctx context.Context, c *ctr, opt container.RemoveOptions) error {
	return m.removeGiving(ctx, c, opt, func() error { return nil })
}

// removeGiving is removeTold of a container whose layer somebody takes before. What take returns is nothing to the removal.
func (m *Manager) removeGiving(ctx context.Context, c *ctr, opt container.RemoveOptions, take func() error) error {
	if r := c.record(); r.KilledMonitor.Pid != 0 && r.BootID == m.opt.BootID && r.KilledMonitor.Lives() {
		// To remove its log would wait in the kernel for that write, and the end of the engine would wait for the removal.
		return fault.Internal("remove %s: its processes were killed, but the kernel holds its monitor (process %d) in a write to its log: "+
			"remove it again when that disk answers", r.Name, r.KilledMonitor.Pid)
	}
	unknown := m.isUnknown(c)
	// The record goes last: a crash on the way finds it and ends the work. Where it cannot be written, the disk may be full,
	// and a removal is what helps.
	_, err := m.applyEvent(c, life.RemovalBegun{Volumes: opt.Volumes})
	if err != nil {
		return err
	}
	c.dropViewers()
	if err := m.endLeftover(ctx, c); err != nil {
		return m.markDead(c, fmt.Errorf("remove %s: %w", c.id, err))
	}
	if unknown {
		if err := m.endUnknown(ctx, c); err != nil {
			return m.markDead(c, fmt.Errorf("remove %s: %w", c.id, err))
		}
	}
	err = errors.Join(
		m.opt.Networks.Leave(ctx, c.id),
		m.removeLayer(ctx, c, take),
		tree.RemovePath(m.taskDir(c.id)),
		m.dropVolumes(ctx, c.record()),
	)
	if err != nil {
		return m.markDead(c, fmt.Errorf("remove %s: %w", c.id, err))
	}
	c.setGone(true)
	if err := tree.RemovePath(m.dataDir(c.id)); err != nil {
		return m.markDead(c, fmt.Errorf("remove %s: %w", c.id, err))
	}
	m.index.drop(c)
	if opt.Gone != nil {
		opt.Gone()
	}
	m.publishEvent("destroy", c.record())
	c.completeRemoval()
	return nil
}

func (m *Manager) markDead(c *ctr, cause error) error {
	c.setGone(false)
	defer c.failRemoval(cause)
	_, err := m.applyEvent(c, life.RemovalFailed{Error: fault.Text(cause)})
	return errors.Join(cause, err)
}
