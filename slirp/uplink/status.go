package uplink

import (
	"path/filepath"
	"time"

	"moss/engine/record"
)

// StatusFile is replaced in the state directory at every change.
const StatusFile = "uplink.json"

// Status says how the uplink does. It is written by the outer process and read by the engine.
type Status struct {
	Driver   string    `json:"driver"`           // the one in use, never Auto
	PID      int       `json:"pid"`              // of the process that carries the packets; 0: none does
	Restarts int       `json:"restarts"`         // how often it has been started again
	Error    string    `json:"error,omitempty"`  // why the last one ended, or does not start
	Reason   string    `json:"reason,omitempty"` // why Auto did not take a faster driver
	Send     int       `json:"send,omitempty"`   // bytes that a container's connection should have under way at most; 0: any
	At       time.Time `json:"at"`               // of this change
}

// ReadStatus returns the uplink's status as it stands in RootlessKit's state directory. fault.NotFound before the outer
// process has set the uplink up.
func ReadStatus(stateDir string) (Status, error) {
	var s Status
	err := record.Get(filepath.Join(stateDir, StatusFile), &s)
	return s, err
}

// writeTo makes the status known. It is gone with the boot anyway, so nobody waits for the disk.
func (s Status) writeTo(stateDir string) error {
	s.At = time.Now().UTC()
	return record.PutVolatile(filepath.Join(stateDir, StatusFile), s)
}
