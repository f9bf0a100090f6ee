package executor

import (
	"context"
	"strings"
	"sync"

	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"

	"moss/api/client"
	"moss/api/types"
)

// removeLeftovers removes the containers of tasks that SwarmKit does not know, once at each start: of tasks that were taken from
// this node while nobody was there to remove them.
//
// The moment is after the first whole set of assignments. Until then SwarmKit knows the tasks in its database only: one that was
// assigned last may be missing there, and its container is to be found again. SwarmKit has no call for that moment itself. It
// hands each set over in one order, the volumes last, so the first call of Volumes says that every task has its controller.
func (x *Executor) removeLeftovers() {
	select {
	case <-x.assigned:
	case <-x.life.Done():
		return
	}
	x.removeTasks(x.life, x.beginRemoval)
}

// RemoveAll removes the containers of all tasks, for a node that has left its swarm. It returns when that is done or ctx is; what
// then is left goes at the next start in a swarm.
func (x *Executor) RemoveAll(ctx context.Context) error {
	x.removeTasks(ctx, func(string) (func(), bool) { return func() {}, true })
	return ctx.Err()
}

// removeTasks removes the containers of tasks that begin takes. What begin returns is called after that.
func (x *Executor) removeTasks(ctx context.Context, begin func(taskID string) (finish func(), ok bool)) {
	var all []types.ContainerSummary
	err := x.engine.awaitEngine(ctx, func(ctx context.Context) (err error) {
		all, err = x.engine.client.Containers(ctx, client.ContainersOptions{
			All: true, Filters: map[string][]string{"label": {labelTaskID}},
		})
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			x.opt.Log.Error().Err(err).Msg("containers of tasks cannot be listed")
		}
		return
	}
	var removals sync.WaitGroup // each may take its grace period
	for _, found := range all {
		taskID := found.Labels[labelTaskID]
		if !isTaskContainer(found) {
			continue
		}
		removals.Go(func() {
			finish, ok := begin(taskID)
			if !ok {
				return
			}
			defer finish()
			x.removeLeftover(ctx, found.ID, taskID)
		})
	}
	removals.Wait()
}

func (x *Executor) removeLeftover(ctx context.Context, id, taskID string) {
	err := x.engine.awaitEngine(ctx, func(ctx context.Context) error { return removeContainer(ctx, x.engine, id) })
	log := x.opt.Log.With().Str("container", id).Str("task", taskID).Logger()
	switch {
	case err == nil:
		log.Info().Msg("removed the container of a task that is no more")
	case isMissing(err), ctx.Err() != nil:
	default:
		log.Error().Err(err).Msg("the container of a task that is no more cannot be removed")
	}
}

// isTaskContainer tells whether a container with a task's label was made for that task, by its name. An image that was made of a
// task's container has its labels, and containers of it are their user's.
func isTaskContainer(found types.ContainerSummary) bool {
	taskID := found.Labels[labelTaskID]
	for _, name := range found.Names {
		if taskID != "" && strings.HasSuffix(name, "."+taskID) {
			return true
		}
	}
	return false
}

// beginRemoval takes a task that has no controller, and holds a controller that comes meanwhile up until finish.
func (x *Executor) beginRemoval(taskID string) (finish func(), ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known[taskID] || x.removing[taskID] != nil {
		return nil, false
	}
	done := make(chan struct{})
	x.removing[taskID] = done
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.removing, taskID)
		close(done)
	}, true
}

// awaitRemoval waits until no left-over container of a task is being removed.
func (x *Executor) awaitRemoval(ctx context.Context, taskID string) error {
	x.mu.Lock()
	done := x.removing[taskID]
	x.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Volumes is called by SwarmKit at the end of each set of assignments. Cluster volumes themselves are not supported: tasks that
// want one are rejected.
func (x *Executor) Volumes() exec.VolumesManager {
	x.assignOne.Do(func() { close(x.assigned) })
	return noVolumes{}
}

// noVolumes holds no cluster volumes.
type noVolumes struct{}

// Get never finds one.
func (noVolumes) Get(string) (string, error) { return "", exec.ErrDependencyNotReady }

// Add takes none.
func (noVolumes) Add(...api.VolumeAssignment) {}

// Remove has none to remove. It must not call removed: SwarmKit holds the lock that this takes.
func (noVolumes) Remove([]api.VolumeAssignment, func(string)) {}

// Plugins returns that there are none.
func (noVolumes) Plugins() exec.VolumePluginManager { return noVolumes{} }

// NodeInfo returns that there are none.
func (noVolumes) NodeInfo(context.Context) ([]*api.NodeCSIInfo, error) { return nil, nil }
