package lifecycle

import (
	"path/filepath"

	"moss/engine/container"
	"moss/engine/logdriver"
)

// folders says where the files of containers lie.
type folders struct {
	root string // data folder
	run  string // this boot's folder
}

// dataDir is the folder of a container's record and log.
func (f folders) dataDir(containerID string) string {
	return filepath.Join(f.root, "containers", containerID)
}

// taskDir is the folder of a container's task.
func (f folders) taskDir(containerID string) string {
	return filepath.Join(f.run, "tasks", containerID)
}

// networkPath is the file, beside the task's own, that tells of the network of a container that is being started.
func (f folders) networkPath(containerID string) string {
	return filepath.Join(f.taskDir(containerID), "network.json")
}

// logSuffix ends the name of a container's log.
const logSuffix = "-json.log"

// logPath is where the container's log goes, or the copy of one that goes to a receiver; empty for a driver without a file.
func (f folders) logPath(containerID string, spec *container.Spec) string {
	if spec.Log.Driver.Writes != logdriver.File && !spec.Log.Cache {
		return ""
	}
	return filepath.Join(f.dataDir(containerID), containerID+logSuffix)
}

// journalEnd is the file that tells of a container's last entry in the journal. It is the container's own, which the files
// of its /etc need not be.
func (f folders) journalEnd(containerID string) string {
	return filepath.Join(f.dataDir(containerID), "journal.end")
}
