package lifecycle

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/ocispec"
)

// initProgram is what runs the commands of containers that ask for Init. They get a copy: processes of a container, whose owner
// may be the engine's user, reach the file behind their first process.
type initProgram struct {
	source string // moss-shim
	copied string // in this boot's folder

	mu   sync.Mutex // held while the copy is made
	made bool       // by this engine: what an engine that was killed left may be of another version
}

// provideCopy returns the copy, which it makes if there is none; empty for a container that needs none. fault.Invalid if a mount
// takes its place.
func (p *initProgram) provideCopy(spec *container.Spec) (string, error) {
	if spec.Host.Init == nil || !*spec.Host.Init || spec.Host.PidMode != "" {
		return "", nil
	}
	var mounts []string
	for _, b := range spec.Binds {
		mounts = append(mounts, b.Destination)
	}
	for _, t := range spec.Tmpfs {
		mounts = append(mounts, t.Destination)
	}
	for _, path := range mounts {
		if path == filepath.Dir(ocispec.InitPath) || path == ocispec.InitPath {
			return "", fault.Invalid("Init: the mount at %s leaves no place for it", path)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := os.Stat(p.copied); err == nil && p.made {
		return p.copied, nil
	}
	if err := p.copyProgram(); err != nil {
		return "", fmt.Errorf("copy the program for Init: %w", err)
	}
	p.made = true
	return p.copied, nil
}

// dropCopy removes the copy. Containers that run keep theirs: it is mounted in them.
func (p *initProgram) dropCopy() error {
	if err := os.Remove(p.copied); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (p *initProgram) copyProgram() (err error) {
	from, err := os.Open(p.source)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it is only read
	to, err := os.CreateTemp(filepath.Dir(p.copied), filepath.Base(p.copied)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(to.Name())
		}
	}()
	_, err = io.Copy(to, from)
	if modeErr := to.Chmod(0o555); err == nil { // any user of a container runs it
		err = modeErr
	}
	if closeErr := to.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(to.Name(), p.copied)
}
