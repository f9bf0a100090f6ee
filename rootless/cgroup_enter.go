package rootless

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// takeCgroups finds out what is delegated, with the help of the user's systemd where it is needed, and enters it.
func takeCgroups(ctx context.Context, runDir string) (groups Cgroups, leave func()) {
	log := zerolog.Ctx(ctx)
	groups = DetectCgroups()
	leave, err := groups.Enter(runDir)
	// Another program's processes in our cgroup (the terminal's, the shell's) are in the way as much as a foreign owner.
	if groups.Kind == CgroupPure && (err != nil || !groups.Delegated()) {
		switch scopeErr := joinScope(ctx, runDir); {
		case scopeErr == nil:
			groups = DetectCgroups()
			leave, err = groups.Enter(runDir)
		case errors.Is(scopeErr, errNoManager):
		default:
			log.Warn().Err(scopeErr).Msg("no cgroup from systemd")
		}
	}
	if err != nil {
		log.Warn().Err(err).Msg("cgroup was delegated but cannot be used: limits will not apply")
		groups = Cgroups{Kind: groups.Kind}
	}
	return groups, leave
}

// Enter makes the cgroup below which the containers of the engine with this run folder go, and moves Parent to it. The
// name comes from the folder, which one engine at a time holds: several engines in one cgroup stay apart, and what a
// killed one left is used again. Controllers are reduced to those that really can be given. The returned function takes
// everything back; it is never nil.
//
// On v2 this process, whose children follow it, moves out of the way first: a cgroup that has processes cannot hand
// controllers on. An error with Parent unchanged means that nothing was changed.
func (c *Cgroups) Enter(runDir string) (leave func(), err error) {
	return c.enterAt(cgroupRoot, fmt.Sprintf("moss-%08x", crc32.ChecksumIEEE([]byte(runDir))))
}

func (c *Cgroups) enterAt(root, name string) (leave func(), err error) {
	switch {
	case !c.Delegated():
		return func() {}, nil
	case c.Kind == CgroupPure:
		return c.enterPure(root, name)
	default:
		return c.enterLegacy(root, name), nil
	}
}

// enterPure divides our cgroup into one for the engine's processes and one for the containers.
func (c *Cgroups) enterPure(root, name string) (leave func(), err error) {
	top := filepath.Join(root, c.Parent)
	daemon, containers := filepath.Join(top, "daemon"), filepath.Join(top, name)
	for _, dir := range []string{daemon, containers} {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return func() {}, err
		}
	}
	leave = func() {
		removeCgroupTree(containers)
		if moveBack(top) == nil {
			removeCgroupTree(daemon)
		}
	}
	if err := moveSelf(daemon); err != nil {
		return func() {}, errors.Join(err, os.Remove(containers))
	}
	for _, dir := range []string{top, containers} {
		if err := enableControllers(dir, c.Controllers); err != nil {
			leave()
			return func() {}, err
		}
	}
	raw, err := os.ReadFile(filepath.Join(containers, "cgroup.subtree_control"))
	if err != nil {
		leave()
		return func() {}, err
	}
	c.Controllers = strings.Fields(string(raw))
	slices.Sort(c.Controllers)
	c.Parent = filepath.Join(c.Parent, name)
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

func enableControllers(dir string, controllers []string) error {
	path := filepath.Join(dir, "cgroup.subtree_control")
	for _, name := range controllers {
		// One at a time: a controller that the kernel keeps back (cpu with realtime tasks) must not cost the others.
		if err := os.WriteFile(path, []byte("+"+name), 0); err != nil && errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("enable %s in %s: other processes are in that cgroup: %w", name, dir, err)
		}
	}
	return nil
}

// enterLegacy makes the containers' cgroup in each delegated hierarchy. A hierarchy in which that fails is given up.
func (c *Cgroups) enterLegacy(root, name string) (leave func()) {
	var made []string
	for hierarchy, own := range c.Legacy {
		top := filepath.Join(root, hierarchy, own)
		dir := filepath.Join(top, name)
		err := os.Mkdir(dir, 0o755)
		if err == nil || errors.Is(err, fs.ErrExist) {
			made = append(made, dir)
			err = nil
			if hierarchy == "cpuset" {
				err = fillCpuset(top, dir)
			}
		}
		if err != nil {
			delete(c.Legacy, hierarchy)
			c.Partial = true
		}
	}
	leave = func() {
		for _, dir := range made {
			removeCgroupTree(dir)
		}
	}
	c.Controllers = legacyControllers(c.Legacy)
	if len(c.Controllers) == 0 {
		leave()
		*c = Cgroups{Kind: c.Kind, Partial: true}
		return func() {}
	}
	c.Parent = filepath.Join(c.Parent, name)
	return leave
}

// fillCpuset gives a new cpuset what the one above has: a v1 cpuset begins empty and takes no process then. The runtimes
// do that for containers, but only below a group that they may write.
func fillCpuset(top, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		raw, err := os.ReadFile(filepath.Join(top, file))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(raw)) == "" {
			return fmt.Errorf("%s of %s is empty", file, top)
		}
		if err := os.WriteFile(filepath.Join(dir, file), raw, 0); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroupTree removes a cgroup with those below it, the deepest first. One with a process in it stays with those
// above it: a container that outlived its engine keeps its cgroup.
func removeCgroupTree(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.IsDir() {
			removeCgroupTree(filepath.Join(dir, entry.Name()))
		}
	}
	unix.Rmdir(dir) //nolint:errcheck // best effort; the next engine on this run folder tries again
}
