package exec

import (
	"context"
	"slices"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/id"
)

// Create makes an instance for a running container; nothing of it runs yet. fault.NotFound if there is no such container,
// fault.Conflict if it does not run or is paused, fault.Invalid for a bad parameter.
func (s *Service) Create(_ context.Context, ref string, config Config) (string, error) {
	keys, err := config.check()
	if err != nil {
		return "", err
	}
	r, t, err := s.readyContainer(ref)
	if err != nil {
		return "", err
	}
	in := &instance{id: id.New(), containerID: r.ID, config: config, keys: keys, made: time.Now(), done: make(chan struct{})}
	s.addInstance(in)
	// An end that was told before the instance was there has not taken it along.
	if _, now, err := s.opt.Containers.Running(r.ID); err != nil || now != t {
		s.forgetInstance(in)
		return "", container.NotRunning(ref)
	}
	s.publishEvent("exec_create: "+in.commandLine(), r, in)
	return in.id, nil
}

// Inspect tells of an instance. fault.NotFound if there is none of that id.
func (s *Service) Inspect(execID string) (Info, error) {
	in, err := s.findInstance(execID)
	if err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	info := Info{
		ID: in.id, ContainerID: in.containerID, Config: in.config, Pid: in.pid,
		// A client that has been answered asks until it does not run any more, to take the code then: see Start.
		Running: in.state == starting || in.state == running,
		Cut:     in.cut,
	}
	if in.state == over {
		code := in.code
		info.ExitCode = &code
	}
	return info, nil
}

// cutWait bounds how long InspectEnd waits. Clients wait for an answer for a minute and more.
const cutWait = 30 * time.Second

// InspectEnd is Inspect for who takes the exit code next. A client that the end of an engine has cut off sees the end of the
// stream, asks once, and reads 0 where there is no exit code yet: so the answer waits for the end of such an instance, up
// to cutWait. fault.Internal if it still runs then.
func (s *Service) InspectEnd(ctx context.Context, execID string) (Info, error) {
	info, err := s.Inspect(execID)
	if err != nil || !info.Cut || !info.Running {
		return info, err
	}
	in, err := s.findInstance(execID)
	if err != nil {
		return Info{}, err
	}
	late := time.NewTimer(cutWait)
	defer late.Stop()
	select {
	case <-in.done:
		return s.Inspect(execID)
	case <-ctx.Done():
		return Info{}, ctx.Err()
	case <-s.life.Done():
	case <-late.C:
	}
	return Info{}, fault.Internal(
		"exec %s still runs: the engine ended while a client was attached, which has lost the rest of its output", execID)
}

// IDs lists the instances of a container that have not ended, in the order of their ids.
func (s *Service) IDs(containerID string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.byContainer[containerID]
	if g == nil || len(g.live) == 0 {
		return nil
	}
	ids := make([]string, 0, len(g.live))
	for execID := range g.live {
		ids = append(ids, execID)
	}
	slices.Sort(ids)
	return ids
}

// Resize sets the size of the instance's terminal, also before its start. fault.NotFound if there is none of that id,
// fault.Conflict if it has no terminal or has ended.
func (s *Service) Resize(ctx context.Context, execID string, width, height uint16) error {
	in, err := s.findInstance(execID)
	if err != nil {
		return err
	}
	if !in.config.Tty {
		return fault.Conflict("exec instance %s has no terminal", execID)
	}
	s.mu.Lock()
	process, ended := in.process, in.state == over
	if process == nil {
		in.width, in.height = width, height
	}
	s.mu.Unlock()
	switch {
	case ended:
		return fault.Conflict("exec command %s has already run", execID)
	case process == nil:
		return nil
	}
	return process.Resize(ctx, width, height)
}

// Began does nothing: a container that starts has no instances yet.
func (s *Service) Began(*container.Record) {}

// Ended takes the instances of a container along that has no process any more, but for those whose exit code somebody may
// still ask this engine for.
func (s *Service) Ended(containerID string) {
	s.mu.Lock()
	defer s.unlockAndDrop()
	g := s.byContainer[containerID]
	if g == nil {
		return
	}
	for _, in := range g.live {
		if in.state == created {
			s.forgetLocked(in)
		} else {
			s.orphanLocked(in)
		}
	}
	for _, in := range g.finished {
		s.orphanLocked(in)
	}
	if s.byContainer[containerID] != nil {
		time.AfterFunc(keepFor+time.Second, func() { s.pruneFinished(containerID) })
	}
}

// orphanLocked notes that the container of a started instance has ended: the next engine has nothing to know of it.
func (s *Service) orphanLocked(in *instance) {
	in.orphan = true
	s.stale = append(s.stale, in.id)
}
