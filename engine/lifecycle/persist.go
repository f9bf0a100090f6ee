package lifecycle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/record"
)

// A container's record lies in two files. What a client was promised is in recordName, which is on the disk when a verb
// answers. What changes with every start and end is written into stateName alone, without waiting for the disk: a power cut
// may leave the file old or empty, and then the other one still has all that is to last. Both hold the whole record; the
// higher revision counts.
const (
	recordName = "record.json"
	stateName  = "state.json"
)

// phase is what has to be known of a container whose state is lost. It is the name of an empty file beside the record: file
// systems keep the order in which names change, also where a new file has lost its content.
type phase string

const (
	phaseNew      phase = ""         // never started: no file
	phaseStarted  phase = "started"  // it runs, unless the state says how it ended
	phaseStopped  phase = "stopped"  // by its user, and not started since
	phaseRemoving phase = "removing" // its parts may be gone already
	phaseErasing  phase = "erasing"  // the same, and its anonymous volumes go along
)

func phaseOf(r *container.Record) phase {
	switch {
	case (r.State == container.Removing || r.State == container.Dead) && r.RemoveVolumes:
		return phaseErasing
	case r.State == container.Removing, r.State == container.Dead:
		return phaseRemoving
	case r.StartedAt.IsZero():
		return phaseNew
	case r.StoppedByUser:
		return phaseStopped
	default:
		return phaseStarted
	}
}

// saveRecord writes the newest published record. durable waits for the disk; without it the record survives the engine's
// death but perhaps not the machine's. That of a step of a build is never written.
func (c *ctr) saveRecord(durable bool) error {
	c.files.Lock()
	defer c.files.Unlock()
	if durable {
		return c.writeLocked(func(r *container.Record) error { return record.Put(filepath.Join(c.dir, recordName), r) })
	}
	return c.writeLocked(c.putState)
}

func (c *ctr) putState(r *container.Record) error {
	return record.PutVolatile(filepath.Join(c.dir, stateName), r)
}

// saveLocked does one of the actions that write. It is called with files locked.
func (c *ctr) saveLocked(how life.Deed) error {
	return c.writeLocked(func(r *container.Record) error {
		if how == life.SavePhase {
			return nil
		}
		err := c.putState(r)
		if err == nil && how == life.SaveStop && forgetsStop(r) {
			err = record.SyncDir(c.dir)
		}
		return err
	})
}

// saveOrUndo saves a change that undo takes back should that fail. A record whose folder could not be synced is in place all the
// same: one without the change, of a higher revision, then counts for the next engine.
func (c *ctr) saveOrUndo(undo func(*container.Record)) error {
	err := c.saveRecord(true)
	if err == nil {
		return nil
	}
	c.update(undo)
	_ = c.saveRecord(false) // on a full disk nothing is in place
	return fmt.Errorf("save container %s: %w", c.id, err)
}

// forgetsStop reports whether a container would be started with the next engine if its stop were not known.
func forgetsStop(r *container.Record) bool {
	switch r.Host.RestartPolicy.Name {
	case "unless-stopped", "on-failure":
		return true
	default: // it is started in any case, or in none
		return false
	}
}

// writeLocked writes the phase and what put does. It is called with files locked.
func (c *ctr) writeLocked(put func(*container.Record) error) error {
	newest, gone := c.newestRecord()
	if gone || newest.Build {
		return nil
	}
	r := *newest
	r.Revision = c.revision + 1
	if err := c.writePhase(phaseOf(&r)); err != nil {
		return fmt.Errorf("note phase of container: %w", err)
	}
	c.revision = r.Revision // an error does not say that nothing was written
	return put(&r)
}

// writePhase is called with files locked.
func (c *ctr) writePhase(next phase) error {
	if next == c.phase || next == phaseNew { // a container cannot become one that was never started
		return nil
	}
	path := filepath.Join(c.dir, string(next))
	if c.phase != phaseNew {
		if err := os.Rename(filepath.Join(c.dir, string(c.phase)), path); err != nil {
			return err
		}
	} else {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	c.phase = next
	return nil
}

// readPhase returns the phase that lies in a folder.
func readPhase(dir string) (phase, error) {
	for _, p := range []phase{phaseErasing, phaseRemoving, phaseStopped, phaseStarted} {
		_, err := os.Lstat(filepath.Join(dir, string(p)))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return p, err
		}
	}
	return phaseNew, nil
}

// applyPhase makes a record agree with the phase, which is newer. A container whose end is not known ran.
func applyPhase(r *container.Record, p phase) {
	switch p {
	case phaseNew:
		return
	case phaseRemoving, phaseErasing:
		r.RemoveVolumes = r.RemoveVolumes || p == phaseErasing
		if r.State != container.Dead {
			r.State = container.Removing
		}
		return
	case phaseStarted, phaseStopped:
		r.StoppedByUser = p == phaseStopped
	}
	if !r.State.AtRest() {
		return // what has become of it is found out as after every death of an engine
	}
	r.State, r.ExitCode, r.Error = container.Exited, lostCode, "its state was lost when the machine went down"
	r.RestartAtStart, r.FinishedAt = true, time.Now().UTC()
	if r.StartedAt.IsZero() {
		r.StartedAt = r.FinishedAt
	}
}
