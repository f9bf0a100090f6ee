package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// settingName is the node's setting that lists host folders, as its user writes it.
const settingName = "swarm-host-folder"

// hostFolders are the folders of this node below which tasks may have folders and files of the host. Nil: none.
//
// A manager's user names the sources, and tasks can change what lies in a folder that they were given: also between a look at a
// path and its use. So only the listed folders themselves are bound by their paths. What lies below one is a part of a volume
// that leads there, and the engine resolves that part inside the folder in the moment in which it mounts it.
type hostFolders []string

// hostVolume begins the names of these volumes. Tasks cannot name them: a folder may be taken from the list.
const hostVolume = "swarm-host-"

// newHostFolders checks the setting's form. The folders need not exist yet.
func newHostFolders(folders []string) (hostFolders, error) {
	cleaned := make(hostFolders, 0, len(folders))
	for _, folder := range folders {
		if !filepath.IsAbs(folder) || strings.ContainsRune(folder, 0) {
			return nil, fmt.Errorf("%s: %q is no absolute path", settingName, folder)
		}
		cleaned = append(cleaned, filepath.Clean(folder))
	}
	return cleaned, nil
}

// locateSource returns the listed folder that a source of a bind lies in, with all links resolved, and the way from there: "."
// for the folder itself. create makes what is missing of it. The error names the setting where that is what forbids the source.
func (h hostFolders) locateSource(source string, create bool) (folder, part string, err error) {
	if !filepath.IsAbs(source) || strings.ContainsRune(source, 0) {
		return "", "", fmt.Errorf("source %q is no absolute path", source)
	}
	if slices.Contains(strings.Split(source, "/"), "..") {
		return "", "", fmt.Errorf("source %s: .. is not allowed in folders of the host", source)
	}
	// Before the path is looked at: a manager is told nothing of folders that are none of its business.
	listed, part, ok := h.findFolder(filepath.Clean(source))
	if !ok {
		return "", "", h.refuseSource(source)
	}
	if folder, err = filepath.EvalSymlinks(listed); err != nil {
		return "", "", fmt.Errorf("source %s: a folder that this node's setting %s names is not there", source, settingName)
	}
	if part == "." {
		return folder, part, nil
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", "", fmt.Errorf("source %s: %w", source, err)
	}
	defer root.Close() //nolint:errcheck // only read
	if create {
		err = root.MkdirAll(part, 0o755)
	} else {
		_, err = root.Stat(part) // a look only, for an early word: the mount decides
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", fmt.Errorf("source %s does not exist on this node", source)
	case err != nil:
		return "", "", fmt.Errorf("source %s cannot be used: %w", source, reasonOf(err))
	}
	return folder, part, nil
}

// reasonOf leaves out the path that an error names.
func reasonOf(err error) error {
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		return wrapped.Err
	}
	return err
}

// findFolder returns the outermost of the listed folders that a clean path lies in, as the folders are written or as they
// resolve, and the way from there. The outermost one: a task that has it can change what lies in it.
func (h hostFolders) findFolder(path string) (folder, part string, ok bool) {
	for _, listed := range h {
		ways := []string{listed}
		if resolved, err := filepath.EvalSymlinks(listed); err == nil {
			ways = append(ways, resolved)
		}
		for _, way := range ways {
			rest, err := filepath.Rel(way, path)
			if err == nil && filepath.IsLocal(rest) && (!ok || len(rest) > len(part)) {
				folder, part, ok = listed, rest, true
			}
		}
	}
	return folder, part, ok
}

func (h hostFolders) refuseSource(source string) error {
	if len(h) == 0 {
		return fmt.Errorf("source %s: tasks get no folders of the host on this node: its setting %s names none", source, settingName)
	}
	return fmt.Errorf("source %s: it is not below a folder that this node's setting %s names", source, settingName)
}

// volumeOf is the name of the volume that leads to a folder.
func volumeOf(folder string) string {
	sum := sha256.Sum256([]byte(folder))
	return hostVolume + hex.EncodeToString(sum[:8])
}
