package lifecycle

import (
	"context"
	"errors"

	"moss/engine/container"
	"moss/engine/fault"
)

// Reconfigure gives a container at rest another HostConfig in place of the one of its create, as clients up to API 1.23
// ask at the start (document 2, 4.1). A running container keeps what it has: its start changes nothing either.
// fault.Invalid and fault.Unsupported as for Create. On error nothing has changed.
func (m *Manager) Reconfigure(ctx context.Context, ref string, host container.HostConfig) (err error) {
	c, err := m.index.acquire(ctx, ref)
	if err != nil {
		return err
	}
	defer c.release()
	before := c.record()
	if !before.State.AtRest() {
		return nil
	}
	if (host.KeepsID() || before.Host.KeepsID()) && host.UsernsMode != before.Host.UsernsMode {
		return fault.Invalid("UsernsMode %q cannot be changed: the container's files have their owners", host.UsernsMode)
	}
	spec, err := m.specWith(ctx, before, host)
	if err != nil {
		return err
	}
	release, err := m.images.findImages(ctx, &spec)
	if err != nil {
		return err
	}
	defer release()
	links, err := resolveReferences(&m.index, c.id, before.Name, &spec)
	if err != nil {
		return err
	}
	var back undo
	defer func() { back.run(ctx, &err) }()
	if err := m.volumes.addVolumes(ctx, before, &spec, before.Mounts, &back); err != nil {
		return err
	}
	c.update(func(r *container.Record) {
		r.Links, r.Endpoints = links, spec.Endpoints
		r.Host, r.Mounts = spec.Host, spec.Mounts()
		r.Warnings = container.LimitWarnings(spec.Host, m.opt.Controllers)
		r.LogPath = m.folders.logPath(r.ID, &spec)
	})
	if err := c.saveOrUndo(func(r *container.Record) { *r = *before }); err != nil {
		return err
	}
	m.volumes.settleVolumes(c.record())
	m.volumes.replaceVolumes(ctx, before, c.record())
	return nil
}

// specWith checks what a container would be with another HostConfig, as far as other containers do not matter.
func (m *Manager) specWith(ctx context.Context, before *container.Record, host container.HostConfig) (container.Spec, error) {
	_, networkIDs, err := m.networks.nameNetworks(&host, nil)
	if err != nil {
		return container.Spec{}, err
	}
	spec, err := container.SpecWith(before, host)
	if err != nil {
		return spec, err
	}
	if err := m.networks.settleNetworks(ctx, before.ID, &spec, networkIDs); err != nil {
		return spec, err
	}
	return spec, errors.Join(m.maker.checkRuntime(spec.Runtime), m.opt.checkCPUs(&spec.Host), m.opt.Specs.Check(&spec))
}
