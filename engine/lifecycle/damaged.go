package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/damage"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/logs"
	"moss/engine/record"
	"moss/engine/tree"
)

// damaged takes files that are not what they should be.
type damaged interface {
	SetAside(path string, why error) error
}

// records reads the records of containers, and sets aside what is damaged in their folders.
type records struct {
	folders folders
	damage  damaged
	bootID  string // of the running kernel
	driver  string // of writable layers
	log     zerolog.Logger
}

// loadRecords reads every record. A folder without one is what a crash left of a create or a remove.
func (rs *records) loadRecords() ([]*ctr, error) {
	base := filepath.Join(rs.folders.root, "containers")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	var all []*ctr
	for _, entry := range entries {
		if !id.Is(entry.Name()) {
			continue
		}
		r, p, err := rs.readRecord(entry.Name())
		if fault.Is(err, fault.NotFound) {
			if err := tree.RemovePath(rs.folders.dataDir(entry.Name())); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			if r, p, err = rs.replaceRecord(entry.Name(), err); err != nil {
				return nil, err
			}
		}
		if err := rs.setLinksAside(entry.Name()); err != nil {
			return nil, err
		}
		dir := rs.folders.dataDir(entry.Name())
		if err := record.Sweep(dir); err != nil {
			rs.log.Warn().Err(err).Str("container", entry.Name()).Msg("half-written record not removed")
		}
		c := newCtr(r, dir)
		c.phase = p
		all = append(all, c)
	}
	return all, nil
}

// readRecord reads the newest record of a container. fault.NotFound if it has none; any other error says why none of its two
// files is of use. One that is damaged is set aside, and made anew from the other one: record.json is then as old as the last
// verb that changed a setting, state.json comes with the next change.
func (rs *records) readRecord(containerID string) (*container.Record, phase, error) {
	dir := rs.folders.dataDir(containerID)
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
		if err := rs.damage.SetAside(filepath.Join(dir, stateName), stateErr); err != nil {
			return nil, phaseNew, err
		}
	}
	switch {
	case err != nil && stateErr != nil:
		return nil, phaseNew, err
	case err != nil:
		if err := rs.damage.SetAside(filepath.Join(dir, recordName), fmt.Errorf("%w: made anew from %s", err, stateName)); err != nil {
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
	if r.State.HasProcess() && r.RestartAtStart { // its engine died while it shut down: the restart is for this one, and counts anew
		r.RestartAtStart, r.RestartCount = false, 0
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
func (rs *records) replaceRecord(containerID string, why error) (*container.Record, phase, error) {
	dir, made := rs.folders.dataDir(containerID), time.Now()
	path := filepath.Join(dir, recordName)
	if info, err := os.Lstat(dir); err == nil {
		made = info.ModTime()
	}
	if damage.CheckFolder(dir) != nil {
		path = dir
	}
	if err := rs.damage.SetAside(path, why); err != nil {
		return nil, phaseNew, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, phaseNew, err
	}
	r := &container.Record{
		ID: containerID, Name: "damaged-" + containerID[:12], Created: made.UTC(), State: container.Dead, BootID: rs.bootID,
		Error: fmt.Sprintf("its record is damaged: %.300s", why), Driver: rs.driver, FinishedAt: time.Now().UTC(),
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

// setLinksAside looks at the files that a container's start writes to, all of them in its folder: a link in the place of one
// would be followed.
func (rs *records) setLinksAside(containerID string) error {
	dir := rs.folders.dataDir(containerID)
	for _, name := range []string{"hostname", "hosts", "resolv.conf", containerID + logSuffix} {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil || info.Mode().IsRegular() {
			continue // it is made
		}
		if err := rs.damage.SetAside(path, fmt.Errorf("not a file but %s", info.Mode().Type())); err != nil {
			return err
		}
	}
	return nil
}

// setLogAside looks at the log that a container is about to go on with. Its monitor reads the end of the log first.
func (rs *records) setLogAside(path string) error {
	if path == "" {
		return nil
	}
	if err := logs.Check(path); err != nil {
		return rs.damage.SetAside(path, err)
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
