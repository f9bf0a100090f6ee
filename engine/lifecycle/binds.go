package lifecycle

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"moss/engine/container"
	"moss/engine/fault"
)

// makeSources makes folders where binds have nothing to bind, as clients rely on. The engine's own /etc and /run are
// copies that the host does not see: what is missing there is fault.Invalid.
func makeSources(binds []container.Bind) error {
	for _, b := range binds {
		if err := makeSource(b.Source); err != nil {
			return err
		}
	}
	return nil
}

func makeSource(source string) error {
	if _, err := os.Stat(source); !errors.Is(err, fs.ErrNotExist) {
		return nil // what is wrong with it, the runtime finds and says
	}
	parent := filepath.Dir(source)
	for {
		resolved, err := filepath.EvalSymlinks(parent)
		if err == nil {
			parent = resolved
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || parent == filepath.Dir(parent) {
			return fault.Invalid("bind source path does not exist: %s: %v", source, err)
		}
		parent = filepath.Dir(parent)
	}
	if parent == "/etc" || parent == "/run" {
		return fault.Invalid("bind source path does not exist: %s", source)
	}
	if err := os.MkdirAll(source, 0o755); err != nil { //nolint:gosec // a folder of the user's, as they would make it
		return fault.Invalid("bind source path does not exist and cannot be made: %v", err)
	}
	return nil
}
