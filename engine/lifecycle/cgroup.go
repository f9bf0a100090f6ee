package lifecycle

import (
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"moss/engine/container"
)

// cgroupMount is where cgroups are mounted: the unified hierarchy itself, or a folder for each of v1.
const cgroupMount = "/sys/fs/cgroup"

// cgroups names the cgroups of containers, and removes the parents that they had.
type cgroups struct {
	base string // path below which they go; empty: there are none

	parents sync.RWMutex // read-locked by every start below a CgroupParent, locked while empty ones are removed
}

// cgroupsPath is the container's cgroup in every hierarchy; empty where there are none.
func (g *cgroups) cgroupsPath(r *container.Record) string {
	if g.base == "" {
		return ""
	}
	return path.Join("/", g.base, r.Host.CgroupPath(), r.ID)
}

// holdCgroups keeps the parents of cgroups from being removed while a container starts in one. The result ends that.
func (g *cgroups) holdCgroups(r *container.Record) (done func()) {
	if r.Host.CgroupPath() == "" || g.base == "" {
		return func() {}
	}
	g.parents.RLock()
	return g.parents.RUnlock
}

// pruneParents removes the parents that a container's cgroup had, as far as they are empty. The kernel refuses the others,
// which somebody still uses. parent is relative to base; empty for a container without one.
func (g *cgroups) pruneParents(parent string) {
	if parent == "" || g.base == "" {
		return
	}
	g.parents.Lock()
	defer g.parents.Unlock()
	pruneCgroups(cgroupMount, g.base, parent)
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
