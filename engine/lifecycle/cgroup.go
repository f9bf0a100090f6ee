package lifecycle

import (
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/container"
)

// cgroupMount is where cgroups are mounted: the unified hierarchy itself, or a folder for each of v1.
const cgroupMount = "/sys/fs/cgroup"

// cgroupsPath is the container's cgroup in every hierarchy; empty where there are none.
func (m *Manager) cgroupsPath(r *container.Record) string {
	if m.opt.CgroupBase == "" {
		return ""
	}
	return path.Join("/", m.opt.CgroupBase, r.Host.CgroupPath(), r.ID)
}

// holdCgroups keeps the parents of cgroups from being removed while a container starts in one. The result ends that.
func (m *Manager) holdCgroups(r *container.Record) (done func()) {
	if r.Host.CgroupPath() == "" || m.opt.CgroupBase == "" {
		return func() {}
	}
	m.cgroups.RLock()
	return m.cgroups.RUnlock
}

// pruneCgroups removes the parents that a container's cgroup had, as far as they are empty. The kernel refuses the others,
// which somebody still uses.
func (m *Manager) pruneCgroups(r *container.Record) {
	if r.Host.CgroupPath() == "" || m.opt.CgroupBase == "" {
		return
	}
	m.cgroups.Lock()
	defer m.cgroups.Unlock()
	pruneCgroups(cgroupMount, m.opt.CgroupBase, r.Host.CgroupPath())
}

// pruneCgroups removes parent, a relative path, and what lies between it and base, in each hierarchy mounted at mount.
func pruneCgroups(mount, base, parent string) {
	hierarchies := []string{mount}
	if entries, err := filepath.Glob(mount + "/*"); err == nil {
		hierarchies = append(hierarchies, entries...)
	}
	for _, hierarchy := range hierarchies {
		top := filepath.Join(hierarchy, base)
		for dir := filepath.Join(top, parent); strings.HasPrefix(dir, top+"/"); dir = filepath.Dir(dir) {
			if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
				break
			}
		}
	}
}
