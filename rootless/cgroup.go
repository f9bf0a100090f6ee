package rootless

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// CgroupKind is how this machine lays its cgroups out.
type CgroupKind string

// The kinds.
const (
	CgroupNone   CgroupKind = "none"   // no hierarchy is mounted
	CgroupLegacy CgroupKind = "v1"     // one hierarchy per controller
	CgroupHybrid CgroupKind = "hybrid" // v1 controllers and an empty v2 beside them; crun refuses to see it
	CgroupPure   CgroupKind = "v2"     // the unified hierarchy
)

const cgroupRoot = "/sys/fs/cgroup"

// Cgroups is what this user may do with cgroups. Without Controllers nothing is delegated: no limit can be applied.
type Cgroups struct {
	Kind CgroupKind
	// Controllers that containers can be given, by their v2 names (io for blkio), sorted.
	Controllers []string
	// Parent is the path, inside each hierarchy, below which containers' cgroups are made. Empty: none can be made.
	Parent string
	// Legacy holds, for v1, the hierarchies that are delegated, by mount folder name (cpu, memory, systemd …), with our
	// own path in each.
	Legacy map[string]string
	// Partial means that some v1 hierarchies of the machine are not delegated.
	Partial bool
}

// Delegated reports whether containers can have cgroups of their own.
func (c Cgroups) Delegated() bool { return c.Parent != "" }

// DetectCgroups reads how cgroups are laid out and which of them this process may divide. It changes nothing.
func DetectCgroups() Cgroups {
	return detectCgroups(cgroupRoot, "/proc/self/cgroup", fsKind)
}

func detectCgroups(root, self string, kindOf func(string) CgroupKind) Cgroups {
	kind := kindOf(root)
	raw, err := os.ReadFile(self)
	if err != nil {
		return Cgroups{Kind: kind}
	}
	own := parseSelf(string(raw))
	switch kind {
	case CgroupPure:
		return detectPure(root, own[""])
	case CgroupLegacy, CgroupHybrid:
		return detectLegacy(root, kind, own)
	case CgroupNone:
	}
	return Cgroups{Kind: kind}
}

func fsKind(root string) CgroupKind {
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return CgroupNone
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		return CgroupPure
	}
	if err := unix.Statfs(filepath.Join(root, "unified"), &st); err == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
		return CgroupHybrid
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) == 0 {
		return CgroupNone
	}
	return CgroupLegacy
}

// parseSelf reads /proc/self/cgroup: the path per controller list; the key of the unified hierarchy is empty.
func parseSelf(text string) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(text) {
		if fields := strings.SplitN(strings.TrimSpace(line), ":", 3); len(fields) == 3 {
			own[strings.TrimPrefix(fields[1], "name=")] = fields[2]
		}
	}
	return own
}

func detectPure(root, path string) Cgroups {
	c := Cgroups{Kind: CgroupPure}
	dir := filepath.Join(root, path)
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if unix.Access(filepath.Join(dir, name), unix.W_OK) != nil {
			return c
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return c
	}
	c.Controllers = strings.Fields(string(raw))
	slices.Sort(c.Controllers)
	c.Parent = path
	return c
}

// detectLegacy finds the v1 hierarchies in which our own folder is ours. Containers go below it, so its path must be the
// same everywhere.
func detectLegacy(root string, kind CgroupKind, own map[string]string) Cgroups {
	c := Cgroups{Kind: kind, Legacy: map[string]string{}}
	for _, list := range slices.Sorted(maps.Keys(own)) {
		path := own[list]
		if list == "" { // the unified hierarchy
			continue
		}
		c.Partial = c.Partial || path == "/"
		if path == "/" {
			continue
		}
		for name := range strings.SplitSeq(list, ",") {
			dir := filepath.Join(root, name, path)
			if unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil ||
				c.Parent != "" && c.Parent != path {
				c.Partial = true
				continue
			}
			c.Parent = path
			c.Legacy[name] = path
		}
	}
	if c.Controllers = legacyControllers(c.Legacy); len(c.Controllers) == 0 {
		return Cgroups{Kind: kind, Partial: true} // systemd's own hierarchy alone, for example: nothing to limit with
	}
	return c
}

// legacyControllers names the limits that these hierarchies carry, as v2 does.
func legacyControllers(hierarchies map[string]string) []string {
	var names []string
	for name := range hierarchies {
		switch name {
		case "blkio":
			names = append(names, "io")
		case "systemd", "cpuacct", "freezer", "devices": // carry no limit of their own
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
