// Package destination decides where a container's mounts, devices, managed files and working folder really end, just before
// the runtime makes them: by the kernel, in the mounted root, not by the text of their paths. It refuses those that an image
// leads to places of the kernel's, and gives the runtime paths without links. It mounts nothing and changes no file.
//
// An image chooses every link of its root, so a destination such as /data may lead anywhere: to /proc/self/attr/exec, where
// a mount turns off what the runtime writes there, or to a fake /proc, which the runtime would open files of.
//
// What the check saw cannot change before the runtime acts: the container does not run, and nobody else writes to its root.
// The exception are folders that are mounted into other containers as well; destinations below them are checked like the
// others, and the runtime resolves them in the root again, so that they never leave it.
package destination

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tree"
)

// Resolve replaces the destinations of a spec's mounts, and what it hides and protects, by the places where they end in the
// root at spec.Root.Path. It returns where the working folder ends, which keeps its text in the spec. A place where nothing
// may be mounted, or a working folder in proc, is fault.Invalid: the text names the destination and where it leads.
func Resolve(spec *specs.Spec) (workingDir string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot start container: %w", err)
		}
	}()
	r, err := newResolver(spec.Root.Path)
	if err != nil {
		return "", err
	}
	defer r.close()
	if err := r.checkSystemFolders(); err != nil {
		return "", err
	}
	mounts := slices.Clone(spec.Mounts) // the caller may share them
	for i := range mounts {
		if err := r.resolveMount(&mounts[i]); err != nil {
			return "", err
		}
	}
	spec.Mounts = mounts
	if err := r.checkDevices(); err != nil {
		return "", err
	}
	if spec.Linux.MaskedPaths, err = r.resolvePaths(spec.Linux.MaskedPaths); err != nil {
		return "", err
	}
	if spec.Linux.ReadonlyPaths, err = r.resolvePaths(spec.Linux.ReadonlyPaths); err != nil {
		return "", err
	}
	return r.resolveWorkingDir(spec.Process.Cwd)
}

// CheckWorkingDir refuses, as fault.Invalid, a working folder that ends in proc for a process that is added to a running
// container with that root. One that is missing is the runtime's to refuse.
//
// The container can change the folder after the check. What protects then is that there is nothing to reach: the runtime
// changes its folder when it has entered the container's namespaces, and holds no folder of the host open any more, so that
// /proc/self/fd leads nowhere, and /proc/self/cwd and /proc/self/root to the container's own root. The monitor gives the
// runtime no descriptor but the streams.
func CheckWorkingDir(root, dir string) error {
	r, err := newResolver(root)
	if err != nil {
		return nil // it has ended: the runtime says so
	}
	defer r.close()
	r.mounted = true
	_, err = r.resolveWorkingDir(dir)
	if errors.Is(err, errProc) {
		return err
	}
	return nil
}

// procFiles are the files of proc that may be mounted over: those that runc 1.2 allows, which tell of resources.
func procFiles() []string {
	return []string{
		"/proc/cpuinfo", "/proc/diskstats", "/proc/meminfo", "/proc/stat", "/proc/swaps", "/proc/uptime", "/proc/loadavg",
		"/proc/slabinfo", "/proc/net/dev", "/proc/sys/kernel/ns_last_pid", "/proc/sys/crypto/fips_enabled",
	}
}

// checkSystemFolders refuses a root where the folders of the runtime's own mounts are something else: the runtime opens
// some of them by their paths before the container's root is its own.
func (r *resolver) checkSystemFolders() error {
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		fd, err := tree.Openat2(r.covers[0].root, dir[1:], unix.O_PATH|unix.O_DIRECTORY, beneath)
		switch {
		case err == nil:
			unix.Close(fd) //nolint:errcheck // only a handle
		case errors.Is(err, unix.ENOENT): // the runtime makes it
		case errors.Is(err, unix.ELOOP):
			return fault.Invalid("%s is a symbolic link in its image", dir)
		case errors.Is(err, unix.ENOTDIR):
			return fault.Invalid("%s is not a directory in its image", dir)
		default:
			return pathError(dir, err)
		}
	}
	return nil
}

// resolveMount puts a mount where it ends, and notes what it covers there.
func (r *resolver) resolveMount(m *specs.Mount) error {
	asked := path.Clean("/" + m.Destination)
	place, err := r.resolve(asked)
	if err != nil {
		return err
	}
	switch by := asked != place; {
	case place == "/", by && place == "/dev":
		return fault.Invalid("mount at %s leads to %s", m.Destination, place)
	case isBelow(place, "/proc"):
		if allowed := place == "/proc" && isProc(m) || slices.Contains(procFiles(), place); by || !allowed {
			return fault.Invalid("mount at %s%s: nothing may be mounted on /proc or below it", m.Destination,
				describeTarget(by, place))
		}
	case isBelow(place, "/sys") && !isBelow(asked, "/sys"):
		return fault.Invalid("mount at %s%s: a link may not lead to /sys", m.Destination, describeTarget(by, place))
	}
	m.Destination = place
	r.addCover(place, m)
	return nil
}

// checkDevices looks at a folder that a client mounts at /dev: the runtime makes its devices in there.
func (r *resolver) checkDevices() error {
	if c := r.findCover("/dev/null"); c.source == "" || c.at == "/" {
		return nil
	}
	for _, name := range []string{"null", "zero", "full", "tty", "random", "urandom", "console"} {
		if _, linked, err := r.readLink("/dev/" + name); err == nil && linked {
			return fault.Invalid("/dev/%s is a symbolic link in what is mounted at /dev", name)
		}
	}
	return nil
}

// resolvePaths puts paths that are hidden or protected where they end. Those below /proc and /sys are that file system's.
func (r *resolver) resolvePaths(paths []string) ([]string, error) {
	resolved := slices.Clone(paths)
	for i, asked := range paths {
		if asked = path.Clean("/" + asked); isBelow(asked, "/proc") || isBelow(asked, "/sys") {
			continue
		}
		place, err := r.resolve(asked)
		if err != nil {
			return nil, err
		}
		if isBelow(place, "/proc") || isBelow(place, "/sys") {
			return nil, fault.Invalid("the masked or read-only path %s leads to %s", asked, place)
		}
		resolved[i] = place
	}
	return resolved, nil
}

// resolveWorkingDir refuses one that ends in proc.
func (r *resolver) resolveWorkingDir(dir string) (string, error) {
	place, err := r.resolve(path.Clean("/" + dir))
	if err == nil && isBelow(place, "/proc") {
		err = inProc(path.Clean(dir), place)
	}
	if errors.Is(err, errProc) {
		return "", fault.Invalid("working directory %w: a process cannot start there", err)
	}
	return place, err
}

// describeTarget returns the end of a text about a path that a link leads elsewhere.
func describeTarget(by bool, place string) string {
	if !by {
		return ""
	}
	return " leads to " + place
}

// isBelow reports whether p is dir itself, or a path below it.
func isBelow(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// isProc reports whether a mount is proc itself: a new one, or the host's.
func isProc(m *specs.Mount) bool {
	if m.Type == "proc" {
		return true
	}
	var st unix.Statfs_t
	return m.Type == "bind" && unix.Statfs(m.Source, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

func onProc(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}
