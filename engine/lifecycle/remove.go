package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/tree"
)

// Remove takes a container away with all that it has. A running one is fault.Conflict without Force.
func (m *Manager) Remove(ctx context.Context, ref string, opt container.RemoveOptions) error {
	if opt.Link {
		return m.links.removeLink(ctx, ref)
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
	patience := time.Duration(-1)
	if opt.Force {
		patience = 0
	}
	if err := m.stopper.acquireWithin(ctx, c, patience); err != nil {
		return err
	}
	defer c.release()
	ctx = context.WithoutCancel(ctx) // a removal that has begun goes on when the client hangs up
	if opt.Force {
		if err := m.forceDown(ctx, c); err != nil {
			return err
		}
	}
	return m.remover.removeTold(ctx, c, opt)
}

// forceDown ends whatever of the container is alive. The caller holds the token.
func (m *Manager) forceDown(ctx context.Context, c *ctr) error {
	r, err := m.lives.applyEvent(c, life.EndAsked{Op: container.OpStop, Removal: true})
	if err != nil {
		return nil //nolint:nilerr // it is at rest
	}
	return m.stopper.endProcess(ctx, c, r, ending{})
}

// removeSoon removes a container that asked for it, once nobody holds its token.
func (m *Manager) removeSoon(c *ctr) {
	m.background.runHolding(c, func(ctx context.Context) {
		if !c.record().State.AtRest() {
			return
		}
		if err := m.remover.removeContainer(context.WithoutCancel(ctx), c); err != nil {
			m.opt.Log.Error().Err(err).Str("container", c.id).Msg("container not removed after its exit")
		}
	})
}

// remover takes containers at rest away.
type remover struct {
	index     *index
	folders   folders
	bootID    string // of the running kernel
	events    events
	lives     *lives
	leftovers *leftovers
	networks  *Networks
	layers    *layers
	volumes   *volumes
}

// removeContainer takes a container at rest away. The caller holds the token. A failure leaves it Dead, to be removed again.
func (v *remover) removeContainer(ctx context.Context, c *ctr) error {
	return v.removeTold(ctx, c, container.RemoveOptions{})
}

// removeTold is removeContainer as a client asks for it. Anonymous volumes go with a container that removes itself, too.
func (v *remover) removeTold(ctx context.Context, c *ctr, opt container.RemoveOptions) error {
	return v.removeGiving(ctx, c, opt, func() error { return nil })
}

// removeGiving is removeTold of a container whose layer somebody takes before. What take returns is nothing to the removal.
func (v *remover) removeGiving(ctx context.Context, c *ctr, opt container.RemoveOptions, take func() error) error {
	if r := c.record(); r.KilledMonitor.Pid != 0 && r.BootID == v.bootID && r.KilledMonitor.Lives() {
		// To remove its log would wait in the kernel for that write, and the end of the engine would wait for the removal.
		return fault.Internal("remove %s: its processes were killed, but the kernel holds its monitor (process %d) in a write "+
			"to its log: remove it again when that disk answers", r.Name, r.KilledMonitor.Pid)
	}
	unknown := v.leftovers.isUnknown(c)
	// The record goes last: a crash on the way finds it and ends the work. Where it cannot be written, the disk may be full,
	// and a removal is what helps.
	_, err := v.lives.applyEvent(c, life.RemovalBegun{Volumes: opt.Volumes})
	if err != nil {
		return err
	}
	c.dropViewers()
	if err := v.leftovers.endLeftover(ctx, c); err != nil {
		return v.markDead(c, fmt.Errorf("remove %s: %w", c.id, err))
	}
	if unknown {
		if err := v.leftovers.endUnknown(ctx, c); err != nil {
			return v.markDead(c, fmt.Errorf("remove %s: %w", c.id, err))
		}
	}
	err = errors.Join(
		v.networks.leaveNetworks(ctx, c),
		v.layers.removeLayer(ctx, c, take),
		tree.RemovePath(v.folders.taskDir(c.id)),
		v.volumes.dropVolumes(ctx, c.record()),
	)
	if err != nil {
		return v.markDead(c, fmt.Errorf("remove %s: %w", c.id, err))
	}
	c.setGone(true)
	if err := tree.RemovePath(v.folders.dataDir(c.id)); err != nil {
		return v.markDead(c, fmt.Errorf("remove %s: %w", c.id, err))
	}
	v.index.drop(c)
	if opt.Gone != nil {
		opt.Gone()
	}
	publishEvent(v.events, "destroy", c.record())
	c.completeRemoval()
	return nil
}

func (v *remover) markDead(c *ctr, cause error) error {
	c.setGone(false)
	defer c.failRemoval(cause)
	_, err := v.lives.applyEvent(c, life.RemovalFailed{Error: fault.Text(cause)})
	return errors.Join(cause, err)
}
