package executor

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/api/naming"
	"github.com/rs/zerolog"

	"moss/api/client"
	"moss/api/types"
)

// controller carries one task out. It is SwarmKit's exec.Controller and exec.ContainerStatuser. SwarmKit makes one call at a
// time, but for Remove and Close, which end what is under way.
//
// An error ends the task, as rejected before Start and as failed from then on, unless it is temporary or the call's own ctx was
// cancelled: SwarmKit makes the call again then, so every call begins with what it finds.
type controller struct {
	executor *Executor
	engine   *engine
	task     *api.Task
	name     string // of the container
	log      zerolog.Logger
	life     context.Context //nolint:containedctx // the controller's own, a part of the executor's
	end      context.CancelFunc

	mu      sync.Mutex // guards the fields below, and the beginning of calls against the end
	calls   sync.WaitGroup
	id      string    // of the container; empty: not known yet
	started time.Time // when it was seen to run
	status  *api.ContainerStatus
	pull    *pull
}

var (
	_ exec.Controller        = (*controller)(nil)
	_ exec.ContainerStatuser = (*controller)(nil)
)

func newController(x *Executor, t *api.Task) *controller {
	c := &controller{
		executor: x, engine: x.engine, task: t, name: naming.Task(t),
		log: x.opt.Log.With().Str("task", t.ID).Str("service", t.ServiceAnnotations.Name).Logger(),
	}
	c.life, c.end = context.WithCancel(x.life)
	return c
}

// Update does nothing: what may change of a task that runs is its desired state, on which SwarmKit acts itself.
func (c *controller) Update(context.Context, *api.Task) error { return nil }

// Prepare fetches the image and creates the container. exec.ErrTaskPrepared if there is one already.
func (c *controller) Prepare(ctx context.Context) error {
	return c.carryOut(ctx, func(ctx context.Context) error {
		if err := c.executor.awaitRemoval(ctx, c.task.ID); err != nil {
			return err
		}
		switch _, err := c.inspectContainer(ctx, c.engine.callEngine); {
		case err == nil:
			return exec.ErrTaskPrepared
		case !isMissing(err):
			return err
		}
		body, err := newCreate(c.task, c.executor.describedNode(), c.executor.folders, c.executor.opt.Networks != nil)
		if err != nil {
			return err
		}
		pulled, err := c.awaitPull(ctx)
		if err != nil {
			return err
		}
		if err := c.awaitNetworks(ctx); err != nil {
			return err
		}
		return c.createContainer(ctx, body, pulled)
	})
}

// createContainer makes the container. pulled is why there may be no image.
func (c *controller) createContainer(ctx context.Context, body types.ContainerCreate, pulled error) error {
	var made types.ContainerCreated
	err := c.engine.callEngine(ctx, func(ctx context.Context) (err error) {
		// To its end, even if the task goes: otherwise it would stay open whether there is a container to remove.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.engine.patience)
		defer cancel()
		made, err = c.engine.client.ContainerCreate(ctx, client.CreateOptions{Name: c.name}, body)
		return err
	})
	switch {
	case client.StatusOf(err) == statusConflict:
		if _, missing := c.inspectContainer(ctx, c.engine.callEngine); missing == nil {
			return exec.ErrTaskPrepared // by a call whose answer was lost
		}
		return err
	case isMissing(err) && pulled != nil:
		return pulled
	case isMissing(err) && !c.hasImage(ctx):
		return c.retryPull(err)
	case err != nil:
		return err
	}
	c.noteContainer(made.ID)
	for _, warning := range made.Warnings {
		c.log.Warn().Str("container", made.ID).Str("warning", warning).Msg("task's container does not get all it asks for")
	}
	return nil
}

// Start starts the container and waits until it is healthy, if it has a check. One that has been started before is waited for
// only. It returns nil as well for one that has ended with exit code 0.
func (c *controller) Start(ctx context.Context) error {
	return c.carryOut(ctx, func(ctx context.Context) error {
		err := c.engine.callEngine(ctx, func(ctx context.Context) error {
			// Looked at anew after a broken connection: a command that has come to its end is not to run twice.
			found, err := c.inspectContainer(ctx, tryOnce)
			if err != nil || judgeState(&found.State, time.Time{}) != verdictUnstarted {
				return err
			}
			err = c.engine.client.ContainerStart(ctx, found.ID, "")
			if isMissing(err) {
				if _, gone := c.inspectContainer(ctx, tryOnce); gone == nil {
					err = errors.New(err.Error()) // what it needs is missing, and not the container
				}
			}
			return err
		})
		if isMissing(err) {
			return errGone
		}
		if err != nil {
			return err
		}
		return c.awaitState(ctx, func(v verdict) bool { return v == verdictReady })
	})
}

// Wait returns when the container has ended: nil for exit code 0, unless a client outside the swarm has ended it. An unhealthy
// container, and one that was restarted by a client, is stopped and counts as failed.
func (c *controller) Wait(ctx context.Context) error {
	return c.carryOut(ctx, func(ctx context.Context) error {
		return c.awaitState(ctx, func(verdict) bool { return false })
	})
}

// awaitState watches the container until its state is enough or has become an end. Its error is that end's. An engine that is
// away is waited for.
func (c *controller) awaitState(ctx context.Context, enough func(verdict) bool) error {
	id, err := c.containerID(ctx)
	if err != nil {
		return err
	}
	changes := c.executor.watcher.addWaiter(id) //nolint:contextcheck // the stream is of all waiters
	defer c.executor.watcher.removeWaiter(changes)
	for {
		select {
		case <-changes.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		found, err := c.inspectContainer(ctx, c.engine.awaitEngine)
		if isMissing(err) {
			return errGone
		}
		if err != nil {
			return err
		}
		v := judgeState(&found.State, c.startedAt())
		switch v {
		case verdictWait, verdictReady:
			c.noteStart(found.State.StartedAt)
			if enough(v) {
				return nil
			}
		case verdictEnded:
			return c.judgeEnd(ctx, &found)
		case verdictUnhealthy:
			return cmp.Or(c.stopContainer(ctx), errUnhealthy)
		case verdictRestarted:
			return cmp.Or(c.stopContainer(ctx), errRestarted)
		case verdictUnstarted:
			return errGone // an older state of the disk, after a power cut
		}
	}
}

// judgeEnd says what the end of the container means. Exit code 0 is a failure too if it follows a client's stop. A client that
// restarts the container is about to start it again: it is stopped after that.
func (c *controller) judgeEnd(ctx context.Context, found *client.Inspect) error {
	if err := c.stopContainer(ctx); err != nil {
		return err
	}
	if err := exitOf(&found.State); err != nil {
		return err
	}
	stopped, err := c.wasStopped(ctx, found)
	if err != nil {
		return err
	}
	if stopped {
		return errStopped
	}
	return nil
}

// Shutdown stops the container within its grace period, once no node leads connections to it any more. One that stands or is not
// there is no error.
func (c *controller) Shutdown(ctx context.Context) error {
	c.cancelPull()
	return c.carryOut(ctx, c.stopContainer)
}

func (c *controller) stopContainer(ctx context.Context) error {
	return c.endContainer(ctx, c.engine.callEngine, true, func(ctx context.Context, id string) error {
		return c.engine.client.ContainerStop(ctx, id, client.StopOptions{}) // the grace period is the container's own
	})
}

// Terminate kills the container. One that stands or is not there is no error.
func (c *controller) Terminate(ctx context.Context) error {
	c.cancelPull()
	return c.carryOut(ctx, func(ctx context.Context) error {
		return c.endContainer(ctx, c.engine.callEngine, false, func(ctx context.Context, id string) error {
			err := c.engine.client.ContainerKill(ctx, id, "SIGKILL")
			if client.StatusOf(err) == statusConflict {
				return nil // it does not run
			}
			return err
		})
	})
}

// Remove ends calls under way, stops the container and removes it with its anonymous volumes. One that is not there is no error.
// SwarmKit does not call it again, so an engine that is away is waited for as long as ctx lasts. No other call does anything
// afterwards.
func (c *controller) Remove(ctx context.Context) error {
	c.endCalls()
	c.calls.Wait() // a call that is just creating the container
	err := c.endContainer(ctx, c.engine.awaitEngine, true, func(ctx context.Context, id string) error {
		return removeContainer(ctx, c.engine, id)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Close ends calls under way and what the controller does in the background. The container goes on.
func (c *controller) Close() error {
	c.endCalls()
	c.executor.forgetTask(c.task.ID)
	return nil
}

// ContainerStatus returns what is known of the container; nil if that is nothing. It waits for no engine.
func (c *controller) ContainerStatus(ctx context.Context) (*api.ContainerStatus, error) {
	_, err := c.inspectContainer(ctx, tryOnce)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !isMissing(err) && !isAway(err) && c.status == nil {
		return nil, err
	}
	return c.status.Copy(), nil
}

// carryOut does a call of SwarmKit's, which ends with the controller and the executor too. SwarmKit knows a call that was
// cancelled by the bare error of its context only.
func (c *controller) carryOut(ctx context.Context, work func(context.Context) error) error {
	if !c.beginCall() {
		return cmp.Or(ctx.Err(), exec.ErrControllerClosed)
	}
	defer c.calls.Done()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)() //nolint:contextcheck // the controller ends it too
	err := work(inner)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case c.executor.life.Err() != nil:
		return context.Canceled // the node ends, and the task goes on
	case c.life.Err() != nil:
		return exec.ErrControllerClosed
	}
	return err
}

// beginCall counts a call. It reports false after the end.
func (c *controller) beginCall() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil && c.executor.life.Err() == nil {
		return false
	}
	c.calls.Add(1)
	return true
}

// endCalls ends the calls under way and all to come.
func (c *controller) endCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
}
