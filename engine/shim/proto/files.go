package proto

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"moss/engine/fault"
	"moss/engine/pidfd"
	"moss/engine/task"
)

// Record is what there is to know about a task: in the reply of a living shim, and in ExitFile after its end.
type Record struct {
	Pid       int       `json:"pid,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	Paused    bool      `json:"paused,omitempty"`
	Exit      *Exit     `json:"exit,omitempty"`
}

// Alive names the processes of a task, by which an engine ends it without the shim.
type Alive struct {
	Shim  pidfd.ID `json:"shim"`
	First pidfd.ID `json:"first,omitzero"` // the container's first process; zero before it runs
}

// Exit is task.Exit in its written form.
type Exit struct {
	Code          int       `json:"code"`
	At            time.Time `json:"at"`
	OOMKilled     bool      `json:"oomKilled,omitempty"`
	Error         string    `json:"error,omitempty"`
	KilledMonitor pidfd.ID  `json:"killedMonitor,omitzero"`
	DroppedLines  int64     `json:"droppedLines,omitempty"`
}

// Status turns a record into what the engine's contract calls it.
func (r Record) Status() task.Status {
	s := task.Status{Pid: r.Pid, StartedAt: r.StartedAt, Paused: r.Paused}
	if r.Exit != nil {
		e := task.Exit(*r.Exit)
		s.Exit = &e
		s.Pid, s.Paused = 0, false
	}
	return s
}

// ExecDir returns the folder of an added process in its task's folder.
func ExecDir(dir, id string) string { return filepath.Join(dir, ExecFolder, id) }

// CheckExecID refuses what is no id of an added process, and so no name of a folder: fault.Invalid unless it is 64 of the
// digits 0-9 and a-f.
func CheckExecID(id string) error {
	const length = 64
	if len(id) != length || strings.Trim(id, "0123456789abcdef") != "" {
		return fault.Invalid("%q is not the id of a process", id)
	}
	return nil
}

// WriteRecord replaces dir's ExitFile. The folder lives no longer than this boot, so nothing is synced.
func WriteRecord(dir string, r Record) error {
	return replaceJSON(filepath.Join(dir, ExitFile), r)
}

// ReadRecord reads dir's ExitFile. fault.NotFound without one.
func ReadRecord(dir string) (Record, error) {
	var r Record
	if err := loadJSON(filepath.Join(dir, ExitFile), &r); err != nil {
		return Record{}, err
	}
	if r.Exit == nil {
		return Record{}, fault.Invalid("%s in %s has no exit", ExitFile, dir)
	}
	return r, nil
}

// WriteAlive replaces dir's AliveFile.
func WriteAlive(dir string, a Alive) error {
	return replaceJSON(filepath.Join(dir, AliveFile), a)
}

// ReadAlive reads dir's AliveFile. fault.NotFound without one: a shim of an earlier version writes none.
func ReadAlive(dir string) (Alive, error) {
	var a Alive
	err := loadJSON(filepath.Join(dir, AliveFile), &a)
	return a, err
}

// WriteSpec replaces dir's SpecFile.
func WriteSpec(dir string, s task.Spec) error {
	return replaceJSON(filepath.Join(dir, SpecFile), s)
}

// ReadSpec reads dir's SpecFile. fault.NotFound without one.
func ReadSpec(dir string) (task.Spec, error) {
	var s task.Spec
	err := loadJSON(filepath.Join(dir, SpecFile), &s)
	return s, err
}

func replaceJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

func loadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return fault.NotFound("no %s", path)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fault.Invalid("%s: %s", path, err)
	}
	return nil
}

// IsMissing reports whether no file has the path. A link is a file, wherever it leads.
func IsMissing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
