package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/damage"
	"moss/engine/fault"
	"moss/engine/logs"
	"moss/engine/record"
	"moss/engine/task"
)

// damaged takes files that are not what they should be.
type damaged interface {
	SetAside(path string, why error) error
}

// readRecord reads the newest record of a container. fault.NotFound if it has none; any other error says why none of its two
// files is of use. One that is damaged is set aside, and made anew from the other one: record.json is then as old as the last
// verb that changed a setting, state.json comes with the next change.
func (m *Manager) readRecord(containerID string) (*container.Record, phase, error) {
	dir := m.dataDir(containerID)
	if err := damage.CheckFolder(dir); err != nil {
		return nil, phaseNew, err
	}
	r, err := getRecord(filepath.Join(dir, recordName), containerID)
	if fault.Is(err, fault.NotFound) {
		return nil, phaseNew, err
	}
	state, stateErr := getRecord(filepath.Join(dir, stateName), containerID)
	lost := stateErr != nil && !fault.Is(stateErr, fault.NotFound)
	if lost && !isEmpty(filepath.Join(dir, stateName)) { // a power cut leaves it empty, which is no damage
		if err := m.opt.Damage.SetAside(filepath.Join(dir, stateName), stateErr); err != nil {
			return nil, phaseNew, err
		}
	}
	switch {
	case err != nil && stateErr != nil:
		return nil, phaseNew, err
	case err != nil:
		if err := m.opt.Damage.SetAside(filepath.Join(dir, recordName), fmt.Errorf("%w: made anew from %s", err, stateName)); err != nil {
			return nil, phaseNew, err
		}
		if err := record.Put(filepath.Join(dir, recordName), state); err != nil {
			return nil, phaseNew, err
		}
		r = state
	case stateErr == nil && state.Revision > r.Revision:
		r = state
	}
	p, err := readPhase(dir)
	if err != nil {
		return nil, phaseNew, err
	}
	if lost || p != phaseOf(r) {
		applyPhase(r, p)
	}
	return r, p, nil
}

// getRecord reads one of the files of a container's record.
func getRecord(path, containerID string) (*container.Record, error) {
	r := &container.Record{}
	if err := record.Get(path, r); err != nil {
		return nil, err
	}
	if r.ID != containerID || r.Name == "" {
		return nil, fmt.Errorf("not the record of %s: id %.80q, name %.80q", containerID, r.ID, r.Name)
	}
	return r, nil
}

func isEmpty(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// replaceRecord sets a damaged record aside and puts one in its place by which the container can be seen and removed. A process
// of the container goes on until then: a person may mend the record.
func (m *Manager) replaceRecord(containerID string, why error) (*container.Record, phase, error) {
	dir, made := m.dataDir(containerID), time.Now()
	path := filepath.Join(dir, recordName)
	if info, err := os.Lstat(dir); err == nil {
		made = info.ModTime()
	}
	if damage.CheckFolder(dir) != nil {
		path = dir
	}
	if err := m.opt.Damage.SetAside(path, why); err != nil {
		return nil, phaseNew, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, phaseNew, err
	}
	r := &container.Record{
		ID: containerID, Name: "damaged-" + containerID[:12], Created: made.UTC(), State: container.Dead, BootID: m.opt.BootID,
		Error: fmt.Sprintf("its record is damaged: %.300s", why), Driver: m.opt.Layers.Driver(), FinishedAt: time.Now().UTC(),
	}
	if err := record.Put(filepath.Join(dir, recordName), r); err != nil {
		return nil, phaseNew, err
	}
	// Dead is what it is for the next engine too.
	if err := os.WriteFile(filepath.Join(dir, string(phaseRemoving)), nil, 0o600); err != nil {
		return nil, phaseNew, err
	}
	return r, phaseRemoving, nil
}

// isUnknown reports whether a container's record says nothing of its process, which goes on until the container's removal.
func (m *Manager) isUnknown(c *ctr) bool {
	if c.record().State != container.Dead {
		return false
	}
	_, err := os.Stat(m.taskDir(c.id))
	return err == nil
}

// endUnknown ends the process of a container whose record was damaged while it ran.
func (m *Manager) endUnknown(ctx context.Context, c *ctr) error {
	soon, cancel := context.WithTimeoutCause(ctx, endWait, task.ErrSilent)
	defer cancel()
	f := m.findTasks(soon, []string{c.id})[c.id]
	err := m.endOrphan(soon, c.id, f)
	if err == nil || f.task == nil {
		return err
	}
	if err := f.task.Destroy(ctx); err != nil {
		return fmt.Errorf("end its process: %w", err)
	}
	return m.endOrphan(ctx, c.id, found{task: f.task})
}

// setLinksAside looks at the files that a container's start writes to, all of them in its folder: a link in the place of one
// would be followed.
func (m *Manager) setLinksAside(containerID string) error {
	dir := m.dataDir(containerID)
	for _, name := range []string{"hostname", "hosts", "resolv.conf", containerID + logSuffix} {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil || info.Mode().IsRegular() {
			continue // it is made
		}
		if err := m.opt.Damage.SetAside(path, fmt.Errorf("not a file but %s", info.Mode().Type())); err != nil {
			return err
		}
	}
	return nil
}

// setLogAside looks at the log that a container is about to go on with. Its monitor reads the end of the log first.
func (m *Manager) setLogAside(path string) error {
	if path == "" {
		return nil
	}
	if err := logs.Check(path); err != nil {
		return m.opt.Damage.SetAside(path, err)
	}
	return nil
}

// writeOwn writes a file in a container's folder. What is in its place and is none is not followed.
func writeOwn(path string, content []byte) error {
	// Readable for every user in the container; the folder above is the user's alone.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644) //nolint:gosec // see above
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
