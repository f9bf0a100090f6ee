package rootless

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// viewSource marks our own mount over /sys/fs/cgroup, so that a second engine in the same namespace leaves it alone.
const viewSource = "moss-cgroup"

// ShowCgroups puts a view over /sys/fs/cgroup of this mount namespace that the OCI runtimes accept. They refuse the
// hybrid layout and fail on hierarchies that they may not write: what is not delegated is hidden. A pure v2 stays as it
// is. Where no cgroups are mounted, as in a container, the runtimes refuse the bare folder of sysfs as well.
// Repeating it changes nothing. It must run inside the engine's mount namespace.
//
// Where nothing at all is delegated the view holds empty folders that cannot be written: runc finds the hierarchies in
// the table of mounts, hidden or not, and goes on without a cgroup only if making one there fails with EROFS or EACCES.
func ShowCgroups(c Cgroups) error {
	if c.Kind == CgroupPure {
		return nil
	}
	if info, err := os.Stat(cgroupRoot); c.Kind == CgroupNone && (err != nil || !info.IsDir()) {
		return nil // neither cgroups nor a place for them
	}
	shown, err := viewShown("/proc/self/mountinfo")
	if err != nil || shown {
		return err
	}
	// The hierarchies are bound to a place outside before the view hides them. The staging folder is a private tmpfs.
	stage, err := os.MkdirTemp("", "moss-cgroup")
	if err != nil {
		return err
	}
	defer os.Remove(stage) //nolint:errcheck // an empty folder in the temporary folder
	if err := unix.Mount(viewSource, stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755"); err != nil {
		return fmt.Errorf("mount a view of cgroups: %w", err)
	}
	if err := fillView(c, stage); err != nil {
		return errors.Join(err, unix.Unmount(stage, unix.MNT_DETACH))
	}
	if err := unix.Mount(stage, cgroupRoot, "", unix.MS_MOVE, ""); err != nil {
		return errors.Join(fmt.Errorf("move the view to %s: %w", cgroupRoot, err), unix.Unmount(stage, unix.MNT_DETACH))
	}
	return nil
}

func fillView(c Cgroups, stage string) error {
	for name := range c.Legacy {
		if err := bindHierarchy(name, stage); err != nil {
			return err
		}
	}
	if len(c.Legacy) > 0 {
		return nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == "unified" { // the mark of the hybrid layout
			continue
		}
		if err := os.Mkdir(filepath.Join(stage, entry.Name()), 0o555); err != nil {
			return err
		}
	}
	const flags = unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("", stage, "", flags, ""); err != nil {
		return fmt.Errorf("make the view of cgroups read-only: %w", err)
	}
	return nil
}

func bindHierarchy(name, stage string) error {
	target := filepath.Join(stage, name)
	if err := os.Mkdir(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(filepath.Join(cgroupRoot, name), target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show the cgroup hierarchy %s: %w", name, err)
	}
	return nil
}

// viewShown reports whether the topmost mount on /sys/fs/cgroup is ours.
func viewShown(mountinfo string) (bool, error) {
	raw, err := os.ReadFile(mountinfo)
	if err != nil {
		return false, err
	}
	shown := false
	for line := range strings.Lines(string(raw)) {
		before, after, ok := strings.Cut(line, " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if ok && len(fields) > 4 && len(source) > 1 && fields[4] == cgroupRoot {
			shown = source[1] == viewSource
		}
	}
	return shown, nil
}
