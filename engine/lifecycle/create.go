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
	return m.maker.makeContainer(ctx, name, cfg, host, endpoints, img, nil)
}

// maker makes containers of what clients ask for.
type maker struct {
	opt      *Options
	index    *index
	folders  folders
	networks *Networks
	layers   *layers
	volumes  *volumes
	images   *imageMounts
	userns   *userNamespaces
}

// makeContainer does the work of Create, and of CreateStep if step is not nil.
func (k *maker) makeContainer(
	ctx context.Context, name string, cfg container.Config, host container.HostConfig,
	endpoints map[string]container.EndpointConfig, img *image.Image, step *container.Step,
) (_ string, warnings []string, err error) {
	containerID := id.New() // not a result: a return with an error must not change what the undo steps remove
	spec, warnings, err := k.newSpec(ctx, containerID, cfg, host, endpoints, img)
	if err != nil {
		return "", nil, err
	}
	var back undo
	defer func() { back.run(ctx, &err) }()
	if name, err = k.takeName(name, containerID); err != nil {
		return "", nil, err
	}
	back.push(func(context.Context) error { k.index.free(name, containerID); return nil })

	release, err := k.images.findImages(ctx, &spec)
	if err != nil {
		return "", nil, err
	}
	defer release()
	links, err := resolveReferences(k.index, containerID, name, &spec)
	if err != nil {
		return "", nil, err
	}
	r, err := k.newRecord(containerID, name, img, &spec, warnings)
	if err != nil {
		return "", nil, err
	}
	r.Links, r.Build = links, step != nil
	back.push(func(context.Context) error { return tree.RemovePath(k.folders.dataDir(containerID)) })
	if err := os.MkdirAll(k.folders.dataDir(containerID), 0o700); err != nil {
		return "", nil, fmt.Errorf("create container %s: %w", containerID, err)
	}
	back.push(func(ctx context.Context) error { return k.opt.Layers.Remove(ctx, containerID) })
	if err := k.layers.createLayer(ctx, containerID, img.ID, &spec); err != nil {
		return "", nil, fmt.Errorf("create writable layer of %s: %w", containerID, err)
	}
	if step != nil {
		if err := k.opt.Layers.SetVolatile(ctx, containerID, true); err != nil {
			return "", nil, err
		}
	}
	if err := k.volumes.addVolumes(ctx, r, &spec, nil, &back); err != nil {
		return "", nil, err
	}
	r.Mounts = spec.Mounts()
	c := newCtr(r, k.folders.dataDir(containerID))
	c.setStep(step)
	if err := c.saveRecord(true); err != nil {
		return "", nil, fmt.Errorf("save container %s: %w", containerID, err)
	}
	k.volumes.settleVolumes(r)
	k.index.add(c)
	publishEvent(k.opt.Events, "create", r)
	return containerID, warnings, nil
}

// newSpec checks what a client asks for, as far as other containers do not matter. The warnings are for the client.
func (k *maker) newSpec(
	ctx context.Context, containerID string, cfg container.Config, host container.HostConfig,
	endpoints map[string]container.EndpointConfig, img *image.Image,
) (container.Spec, []string, error) {
	endpoints, networkIDs, err := k.networks.nameNetworks(&host, endpoints)
	if err != nil {
		return container.Spec{}, nil, err
	}
	host.LogConfig = host.LogConfig.WithDefaults(k.opt.LogDefaults)
	cfg.Env = container.LayProxies(k.opt.Proxies, img.Config.Env, cfg.Env)
	spec, warnings, err := container.NewSpec(cfg, host, endpoints, img.Config)
	if err != nil {
		return spec, nil, err
	}
	if err := errors.Join(
		k.checkRuntime(spec.Runtime), k.opt.checkCPUs(&spec.Host), k.opt.Specs.Check(&spec), k.userns.keepID(cfg.User, &spec),
	); err != nil {
		return spec, nil, err
	}
	if _, err := deviceAdditions(k.opt.Devices, &spec); err != nil {
		return spec, nil, err
	}
	if err := k.networks.settleNetworks(ctx, containerID, &spec, networkIDs); err != nil {
		return spec, nil, err
	}
	return spec, append(warnings, container.LimitWarnings(spec.Host, k.opt.Controllers)...), nil
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
func (k *maker) checkRuntime(name string) error {
	if have := filepath.Base(k.opt.Runtime.Path); name != "" && name != have {
		return fault.Invalid("Runtime: %q is not configured, this engine runs %s", name, have)
	}
	return nil
}

// takeName reserves the name that the client wants, or a fresh one.
func (k *maker) takeName(name, containerID string) (string, error) {
	if name != "" {
		return name, k.index.reserve(name, containerID)
	}
	for try := 0; ; try++ {
		name = container.RandomName(rand.IntN, try)
		if err := k.index.reserve(name, containerID); err == nil || !fault.Is(err, fault.Conflict) {
			return name, err
		}
	}
}

func (k *maker) newRecord(
	containerID, name string, img *image.Image, spec *container.Spec, warnings []string,
) (*container.Record, error) {
	hostName, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	dir := k.folders.dataDir(containerID)
	r := &container.Record{
		ID: containerID, Name: name, Created: time.Now().UTC(),
		Image: spec.Config.Image, ImageID: img.ID, Config: spec.Config, Host: spec.Host, Endpoints: spec.Endpoints,
		Path: spec.Args[0], Args: spec.Args[1:], Warnings: warnings,
		State: container.Created, BootID: k.opt.BootID, Driver: k.opt.Layers.Driver(),
		HostnamePath: filepath.Join(dir, "hostname"), HostsPath: filepath.Join(dir, "hosts"),
		ResolvConf: filepath.Join(dir, "resolv.conf"), LogPath: k.folders.logPath(containerID, spec),
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
	m.networks.updateNames(c)
	m.networks.namesChanged(c)
	publishEvent(m.opt.Events, "rename", c.record(), "oldName", "/"+old)
	return nil
}
