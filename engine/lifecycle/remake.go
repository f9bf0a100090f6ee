package lifecycle

import (
	"context"
	"fmt"

	"moss/engine/container"
)

// remakeLost makes anew what a container was given at its create and a power cut has taken: its writable layer and its volumes
// reach the disk within a second, its record at once. What was in them is as old as that. Nobody watches ends yet.
func (m *Manager) remakeLost(ctx context.Context, all []*ctr, running func(containerID string) bool) error {
	owned, err := m.opt.Layers.Containers(ctx)
	if err != nil {
		return fmt.Errorf("list writable layers: %w", err)
	}
	there := make(map[string]bool, len(owned))
	for _, containerID := range owned {
		there[containerID] = true
	}
	for _, c := range all {
		r := c.record()
		if r.State == container.Removing || r.State == container.Dead {
			continue
		}
		spec, err := container.SpecOf(r)
		if err != nil {
			continue // its start says so
		}
		log := m.opt.Log.With().Str("container", c.id).Logger()
		if !there[c.id] && !running(c.id) {
			log.Warn().Msg("writable layer is lost: an empty one takes its place")
			if err := m.createLayer(ctx, c.id, r.ImageID, &spec); err != nil {
				log.Error().Err(err).Msg("writable layer not made anew")
			}
		}
		for _, v := range spec.Volumes {
			_, made, err := m.opt.Volumes.Hold(ctx, volumeFor(&v), c.id)
			if err == nil && made {
				log.Warn().Str("volume", v.Name).Msg("volume is lost: an empty one takes its place")
				err = m.opt.Volumes.Settle(v.Name)
			}
			if err != nil {
				log.Error().Err(err).Str("volume", v.Name).Msg("volume not made anew")
			}
		}
	}
	return nil
}
