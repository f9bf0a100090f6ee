package rootless

import (
	"errors"
	"fmt"
	"io/fs"
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
	for list, path := range own {
		if list == "" || path == "/" {
			continue
		}
		for name := range strings.SplitSeq(list, ",") {
			dir := filepath.Join(root, name, path)
			if unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil {
				continue
			}
			if c.Parent != "" && c.Parent != path {
				continue
			}
			c.Parent = path
			c.Legacy[name] = path
		}
	}
	for name := range c.Legacy {
		switch name {
		case "blkio":
			c.Controllers = append(c.Controllers, "io")
		case "systemd", "cpuacct", "freezer", "devices": // carry no limit of their own
		default:
			c.Controllers = append(c.Controllers, name)
		}
	}
	slices.Sort(c.Controllers)
	return c
}

// Enter moves this process, whose children follow it, out of the way of the containers: on v2 a cgroup that has
// processes cannot hand controllers on. The returned function moves back and removes what Enter made; it is never nil.
func (c *Cgroups) Enter() (leave func(), err error) {
	leave = func() {}
	if c.Kind != CgroupPure || !c.Delegated() {
		return leave, nil
	}
	top := filepath.Join(cgroupRoot, c.Parent)
	daemon, containers := filepath.Join(top, "daemon"), filepath.Join(top, "c")
	for _, dir := range []string{daemon, containers} {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return leave, err
		}
	}
	if err := moveSelf(daemon); err != nil {
		return leave, err
	}
	leave = func() {
		dropped := []string{containers, daemon}
		if moveBack(top) != nil {
			dropped = dropped[:1]
		}
		for _, dir := range dropped {
			// A container that outlived us keeps its cgroup; the next start uses it again.
			unix.Rmdir(dir) //nolint:errcheck // best effort at the very end
		}
	}
	for _, dir := range []string{top, containers} {
		if err := enable(dir, c.Controllers); err != nil {
			leave()
			return func() {}, err
		}
	}
	c.Parent = filepath.Join(c.Parent, "c")
	return leave, nil
}

func moveSelf(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
}

// moveBack turns the controllers off again, without which the upper cgroup takes no process.
func moveBack(top string) error {
	path := filepath.Join(top, "cgroup.subtree_control")
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(raw)) {
		if err := os.WriteFile(path, []byte("-"+name), 0); err != nil {
			return err
		}
	}
	return moveSelf(top)
}

func enable(dir string, controllers []string) error {
	path := filepath.Join(dir, "cgroup.subtree_control")
	for _, name := range controllers {
		// One at a time: a controller that the kernel keeps back (cpu with realtime tasks) must not cost the others.
		if err := os.WriteFile(path, []byte("+"+name), 0); err != nil && errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("enable %s in %s: %w", name, dir, err)
		}
	}
	return nil
}
