package lifecycle

import (
	"fmt"

	"moss/engine/container"
	"moss/engine/destination"
)

// Watcher is told when containers begin and end to have a process. It must not block, and it must bear hearing of the same
// beginning or end twice.
type Watcher interface {
	// Began tells of a container whose process runs, started by this engine or taken over from an earlier one.
	Began(r *container.Record)
	// Ended tells that a container has no process any more. It comes before anybody sees it at rest.
	Ended(containerID string)
}

func (m *Manager) tellBegan(r *container.Record) {
	for _, w := range m.watchers {
		w.Began(r)
	}
}

func (m *Manager) tellEnded(containerID string) {
	for _, w := range m.watchers {
		w.Ended(containerID)
	}
}

// User resolves the user of one more process of a running container inside the root filesystem that it runs on; an empty
// user is the container's own. fault.NotFound and fault.Conflict as Running, fault.Invalid for a user that is not there.
func (m *Manager) User(ref, user string) (container.UserIDs, error) {
	r, _, err := m.Running(ref)
	if err != nil {
		return container.UserIDs{}, err
	}
	if user == "" {
		user = r.Config.User
	}
	return lookupUser(fmt.Sprintf("/proc/%d/root", r.Pid), user, r.Host.GroupAdd)
}

// CheckWorkingDir refuses to add a process to a running container whose working folder ends in proc by now; an empty one is
// the root. fault.NotFound and fault.Conflict as Running, fault.Invalid for such a folder.
func (m *Manager) CheckWorkingDir(ref, dir string) error {
	r, _, err := m.Running(ref)
	if err != nil || dir == "" {
		return err
	}
	return destination.CheckWorkingDir(fmt.Sprintf("/proc/%d/root", r.Pid), dir)
}

// SetHealth notes what is known of the health of a container, if the process that began as r still runs. It returns the
// record after it, and whether it was noted.
func (m *Manager) SetHealth(r *container.Record, health container.Health) (*container.Record, bool, error) {
	c, err := m.index.find(r.ID)
	if err != nil {
		return nil, false, err
	}
	c.mu.Lock()
	now := c.published.Load()
	if !now.State.HasProcess() || !now.StartedAt.Equal(r.StartedAt) {
		c.mu.Unlock()
		return now, false, nil
	}
	after := c.updateLocked(func(r *container.Record) { r.Health = &health })
	c.mu.Unlock()
	return after, true, c.saveRecord(false)
}
