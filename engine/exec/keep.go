package exec

import (
	"time"

	"moss/engine/fault"
)

// What is kept of instances that nobody needs any more.
const (
	keepFor     = 5 * time.Minute // clients poll for the exit code
	keepMost    = 256             // finished instances of one container
	pendingMost = 4096            // instances of one container that were made and never started
)

// group is the instances of one container.
type group struct {
	live     map[string]*instance // not ended
	finished []*instance          // oldest end first
}

// unlockAndDrop lets go of mu and removes the files of what was forgotten under it.
func (s *Service) unlockAndDrop() {
	stale := s.stale
	s.stale = nil
	s.mu.Unlock()
	for _, execID := range stale {
		s.dropFiles(execID)
	}
}

// findInstance returns an instance. fault.NotFound if there is none, or its container is gone.
func (s *Service) findInstance(execID string) (*instance, error) {
	s.mu.Lock()
	in := s.byID[execID]
	if in != nil && in.state == over && time.Since(in.ended) > keepFor {
		s.forgetLocked(in)
		in = nil
	}
	s.unlockAndDrop()
	if in == nil {
		return nil, noSuch(execID)
	}
	if _, err := s.opt.Containers.Get(in.containerID); fault.Is(err, fault.NotFound) {
		s.pruneFinished(in.containerID)
		return nil, noSuch(execID)
	}
	return in, nil
}

// addInstance makes an instance known.
func (s *Service) addInstance(in *instance) {
	s.mu.Lock()
	defer s.unlockAndDrop()
	s.byID[in.id] = in
	g := s.byContainer[in.containerID]
	if g == nil {
		g = &group{live: map[string]*instance{}}
		s.byContainer[in.containerID] = g
	}
	if in.state == over {
		g.finished = append(g.finished, in)
		s.pruneLocked(g, keepFor)
		return
	}
	g.live[in.id] = in
	if len(g.live) > pendingMost {
		if oldest := oldestCreated(g); oldest != nil {
			s.forgetLocked(oldest)
		}
	}
}

// oldestCreated returns the instance that has waited longest for its start; nil if all were started.
func oldestCreated(g *group) *instance {
	var oldest *instance
	for _, in := range g.live {
		if in.state == created && (oldest == nil || in.made.Before(oldest.made)) {
			oldest = in
		}
	}
	return oldest
}

// finishInstance notes the end of an instance. It returns false if that was noted already.
func (s *Service) finishInstance(in *instance, code int) bool {
	s.mu.Lock()
	defer s.unlockAndDrop()
	if in.state == over {
		return false
	}
	in.state, in.pid, in.code, in.ended, in.process = over, 0, code, time.Now(), nil
	if g := s.byContainer[in.containerID]; g != nil && s.byID[in.id] == in {
		delete(g.live, in.id)
		g.finished = append(g.finished, in)
		s.pruneLocked(g, keepFor)
	}
	if in.orphan {
		s.stale = append(s.stale, in.id)
	}
	close(in.done)
	return true
}

// pruneFinished forgets what a container has of finished instances: the old ones, or all if it is gone.
func (s *Service) pruneFinished(containerID string) {
	longest := keepFor
	if _, err := s.opt.Containers.Get(containerID); fault.Is(err, fault.NotFound) {
		longest = -1
	}
	s.mu.Lock()
	defer s.unlockAndDrop()
	if g := s.byContainer[containerID]; g != nil {
		s.pruneLocked(g, longest)
	}
}

func (s *Service) pruneLocked(g *group, longest time.Duration) {
	for len(g.finished) > 0 && (len(g.finished) > keepMost || time.Since(g.finished[0].ended) > longest) {
		s.forgetLocked(g.finished[0])
	}
}

// forgetInstance makes an instance unknown.
func (s *Service) forgetInstance(in *instance) {
	s.mu.Lock()
	defer s.unlockAndDrop()
	s.forgetLocked(in)
}

func (s *Service) forgetLocked(in *instance) {
	if s.byID[in.id] != in {
		return
	}
	delete(s.byID, in.id)
	g := s.byContainer[in.containerID]
	delete(g.live, in.id)
	for i := range g.finished {
		if g.finished[i] == in {
			g.finished = append(g.finished[:i:i], g.finished[i+1:]...)
			break
		}
	}
	if len(g.live)+len(g.finished) == 0 {
		delete(s.byContainer, in.containerID)
	}
	if in.state == over { // only what was started has a file
		s.stale = append(s.stale, in.id)
	}
}
