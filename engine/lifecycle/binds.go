package lifecycle

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
)

// makeSources makes folders where binds have nothing to bind, as clients rely on, unless the client said that there is to
// be something. What is missing then, or cannot be reached, is fault.Invalid. The engine's own /etc and /run are copies
// that the host does not see: nothing is made there either.
func makeSources(binds []container.Bind) error {
	for _, b := range binds {
		if err := readySource(b.Source, b.BindTerms); err != nil {
			return err
		}
	}
	return nil
}

// checkSources finds what makeSources will not make, before there is a container.
func checkSources(binds []container.Bind) error {
	return makeSources(slices.DeleteFunc(slices.Clone(binds), func(b container.Bind) bool { return !b.MustExist }))
}

// readySource makes a folder where there is nothing to bind, or says that there is nothing.
func readySource(source string, terms container.BindTerms) error {
	_, err := os.Stat(source)
	if err == nil {
		err = findUnusable(source)
	}
	switch {
	case err == nil && terms.NonRecursive:
		return checkSingle(source)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fault.Invalid("bind source path cannot be used: %v", err)
	case terms.MustExist:
		return fault.Invalid("invalid mount config for type \"bind\": bind source path does not exist: %s", source)
	default:
		return makeSource(source)
	}
}

// checkDevices finds what is neither a device of the host nor a folder with one: fault.Invalid, in the words of other
// engines.
func checkDevices(devices []container.Device) error {
	for _, d := range devices {
		err := findDevice(d.PathOnHost)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("it does not exist") // clients take the system's words for those of a command that is missing
		}
		if err != nil {
			return fault.Invalid("error gathering device information while adding custom device %q: %w", d.PathOnHost, err)
		}
	}
	return nil
}

func findDevice(name string) error {
	top, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	found := false
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case path == top && err != nil:
			return err
		case err == nil && entry.Type()&fs.ModeDevice != 0:
			found = true
			return fs.SkipAll
		}
		return nil // folders below may be other users'
	})
	if err == nil && !found {
		err = errors.New("not a device node")
	}
	return err
}

// findUnusable finds what this user can neither read, nor write, nor enter or run: it would be mounted, and the container would
// hear of it at some later time.
func findUnusable(path string) error {
	var err error
	for _, way := range []uint32{unix.R_OK, unix.X_OK, unix.W_OK} {
		if err = unix.Access(path, way); !errors.Is(err, unix.EACCES) {
			return nil
		}
	}
	return &fs.PathError{Op: "access", Path: path, Err: err}
}

// checkSingle refuses a source with mounts below it to a bind that is to leave them out: in a user's namespace the kernel
// gives such a mount with all that covers something of it, or not at all, and runtimes then take all. fault.Unsupported.
func checkSingle(source string) error {
	resolved, err := filepath.EvalSymlinks(source)
	if err != nil {
		return fault.Invalid("bind source path cannot be used: %v", err)
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if below := mountBelow(string(table), resolved); below != "" {
		return fault.Unsupported("Mounts: BindOptions.NonRecursive is not supported for %s: an ordinary user cannot leave out what is mounted at %s",
			source, below)
	}
	return nil
}

// mountBelow finds a mount point below a folder in a table of the form of proc_pid_mountinfo(5); empty if there is none.
func mountBelow(table, dir string) string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescape.Replace(fields[4])
		if point != dir && strings.HasPrefix(point, strings.TrimSuffix(dir, "/")+"/") {
			return point
		}
	}
	return ""
}

func makeSource(source string) error {
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
