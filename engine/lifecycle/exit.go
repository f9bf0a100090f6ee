package lifecycle

import (
	"context"
	"errors"
	"sync"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/task"
	"moss/engine/tree"
)

// follower follows the tasks of running containers to their ends, and cleans up after them.
type follower struct {
	lives      *lives
	freezer    *freezer
	background *background
	folders    folders
	cgroups    *cgroups
	layers     *layers
	volumes    *volumes
	networks   *Networks
	watchers   []Watcher // of Run
	log        zerolog.Logger
}

// watchTask follows a running task to its end and cleans up after it. One watcher runs per running container; it takes no
// token, so that it is never kept from its work. silence, if not nil, says why nothing could be learned of the task so far.
// over is closed once the watcher has done.
func (f *follower) watchTask(c *ctr, t task.Task, silence error) (over <-chan struct{}) {
	done := make(chan struct{})
	f.background.runJob(func(ctx context.Context) {
		defer close(done)
		if exit, over := f.followTask(ctx, c, t, silence); over { // otherwise the next engine takes the task over
			f.handleExit(context.WithoutCancel(ctx), c, t, exit)
		}
	})
	return done
}

// handleExit releases what a running container holds, then says that it has ended.
func (f *follower) handleExit(ctx context.Context, c *ctr, t task.Task, exit task.Exit) {
	log := f.log.With().Str("container", c.id).Logger()
	end := container.End{
		Code: exit.Code, At: exit.At, OOMKilled: exit.OOMKilled, Error: exit.Error, KilledMonitor: exit.KilledMonitor,
	}
	if exit.DroppedLines > 0 {
		log.Warn().Int64("lines", exit.DroppedLines).Msg("log of container did not keep up: lines of output were dropped")
	}
	// The task goes with its word on the end: should the engine die before it is released, the record has it.
	if _, err := f.lives.applyEvent(c, life.ProcessEnded{End: end}); err != nil {
		log.Error().Err(err).Msg("process of container ended in a state that has none")
	}
	if err := f.releaseTask(ctx, c, t); err != nil {
		log.Error().Err(err).Msg("container ended but not everything of it could be released")
	}
	f.tellEnded(c.id)
	after, err := f.lives.applyEvent(c, life.Released{End: end, Closing: f.background.isClosing()})
	if err != nil {
		log.Error().Err(err).Msg("container ended in a state that has no end")
		return
	}
	log.Info().Int("exit", exit.Code).Str("state", after.State.String()).Msg("container exited")
}

// releaseTask gives back the network, the mount and the task itself.
func (f *follower) releaseTask(ctx context.Context, c *ctr, t task.Task) error {
	var network, mount error
	var others sync.WaitGroup
	others.Go(func() { network = f.networks.leaveNetworks(ctx, c) })
	others.Go(func() { // the kernel takes its time over a mount
		mount = f.layers.dropEnded(ctx, c)
	})
	deleted := t.Delete(ctx)
	if deleted == nil {
		deleted = tree.RemovePath(f.folders.taskDir(c.id)) // what launchTask has put beside the task's own files
	}
	f.cgroups.pruneParents(c.record().Host.CgroupPath())
	others.Wait()
	c.setTask(nil)
	return errors.Join(deleted, mount, network, f.volumes.unmountVolumes(ctx, c.record()))
}
