package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/ocispec"
	"moss/engine/task"
)

// Update changes limits and restart policy of a container and returns warnings for the client. Zero values of asked leave
// a setting as it is. A running container's cgroup follows at once; where there is none, the limits are kept and warned
// of. fault.Invalid for a bad value, fault.Conflict while the container is being removed or if it uses more than the new
// limit. On error nothing has changed.
func (m *Manager) Update(ctx context.Context, ref string, asked container.HostConfig) (warnings []string, err error) {
	err = m.whileHeld(ctx, ref, func(ctx context.Context, c *ctr) error {
		warnings, err = m.updateContainer(ctx, c, asked)
		return err
	})
	return warnings, err
}

// updateContainer does the work of Update. The caller holds the token.
func (m *Manager) updateContainer(ctx context.Context, c *ctr, asked container.HostConfig) (_ []string, err error) {
	before := c.record()
	if before.State == container.Removing || before.State == container.Dead {
		return nil, cannotUpdate(c.id, fault.Conflict(`Container is marked for removal and cannot be "update".`))
	}
	host, warnings, err := before.Host.Update(asked, m.opt.Controllers)
	if err != nil {
		return nil, err
	}
	if err := m.opt.checkCPUs(&asked); err != nil {
		return nil, err
	}
	var back undo
	defer func() { back.run(ctx, &err) }()
	if t, ok := c.runningTask(); ok && before.State.HasProcess() {
		more, err := m.limits.changeLimits(ctx, c, t, &before.Host, &host, &back)
		if err != nil {
			return nil, cannotUpdate(c.id, err)
		}
		warnings = append(warnings, more...)
	}
	c.update(func(r *container.Record) { r.Host = host })
	if err := c.saveOrUndo(func(r *container.Record) { r.Host = before.Host }); err != nil {
		return nil, err
	}
	if asked.RestartPolicy.Name != "" {
		m.lives.noteEvent(c, life.PolicyChanged{})
	}
	publishEvent(m.opt.Events, "update", c.record())
	return warnings, nil
}

// limits changes the limits of running containers.
type limits struct {
	specs   *ocispec.Builder
	cgroups *cgroups
	unified bool // the cgroups are those of version 2
	log     zerolog.Logger
}

// changeLimits brings a living cgroup to new limits. Where the kernel refuses a part, the others are taken back.
func (l *limits) changeLimits(
	ctx context.Context, c *ctr, t task.Task, from, to *container.HostConfig, back *undo,
) (warnings []string, err error) {
	there, err := l.specs.Update(from, to)
	if err != nil || there == nil {
		return nil, err
	}
	again, err := l.specs.Update(to, from)
	if err != nil {
		return nil, err
	}
	if to.Memory != from.Memory && to.Memory > 0 {
		if err := l.roomFor(c.record(), to.Memory); err != nil {
			return nil, err
		}
	}
	restore := func(ctx context.Context) error { return l.restoreLimits(ctx, c, t, again) }
	err = t.Update(ctx, there)
	switch {
	case err == nil:
		back.push(restore)
		return nil, nil
	case fault.Is(err, fault.Unsupported): // it was started when there were no cgroups
		return []string{"The container runs without a cgroup: the new limits apply from its next start on."}, nil
	case fault.Is(err, fault.Conflict): // it has ended meanwhile: its next start has the new limits
		return nil, nil
	default:
		return nil, errors.Join(err, restore(ctx))
	}
}

func (l *limits) restoreLimits(ctx context.Context, c *ctr, t task.Task, limits json.RawMessage) error {
	if err := ignoreEnd(t.Update(ctx, limits)); err != nil {
		l.log.Error().Err(err).Str("container", c.id).Msg("limits of container not restored")
	}
	return nil // the client is told why the limits were to be restored
}

// roomFor refuses a memory limit in bytes below what the container uses, since a kernel with cgroup v2 would end its
// processes to keep it.
func (l *limits) roomFor(r *container.Record, limit int64) error {
	path := l.cgroups.cgroupsPath(r)
	if path == "" || !l.unified {
		return nil // v1 refuses by itself
	}
	raw, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", path, "memory.current"))
	if err != nil {
		return nil //nolint:nilerr // another layout: the kernel decides
	}
	used, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err == nil && used > limit {
		return fault.Conflict("Memory limit %d is below the %d bytes that the container uses", limit, used)
	}
	return nil
}

// cannotUpdate says, in the words that clients know, that a container's settings stay.
func cannotUpdate(containerID string, err error) error {
	return fmt.Errorf("%s %s: %w", "Cannot update container", containerID, err)
}
