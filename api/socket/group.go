package socket

import (
	"fmt"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"moss/engine/fault"
)

// findGroup returns the number of a group that the caller may give files to; nil for no name.
func findGroup(name string) (*int, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no group
	}
	text := name
	if g, err := user.LookupGroup(name); err == nil {
		text = g.Gid
	}
	gid, err := strconv.ParseUint(text, 10, 32)
	if err != nil || gid == math.MaxUint32 {
		return nil, fault.Invalid("socket-group: there is no group %q", name)
	}
	mine, err := os.Getgroups()
	if err != nil {
		return nil, fmt.Errorf("socket-group: %w", err)
	}
	number := int(gid)
	if number != os.Getegid() && !slices.Contains(mine, number) {
		return nil, fault.Invalid("socket-group: you are not in the group %q, so nothing of yours can be given to it", name)
	}
	return &number, nil
}

// noGroup is the id of no group: with it closedTo judges a process outside all groups.
const noGroup = -1

// closedTo returns the first folder on the way down to dir that members of a group cannot go through; empty if they can
// reach dir. Who they are besides is not known, so a folder that is open to its own owner or another group counts as closed.
func closedTo(group int, dir string) string {
	if parent := filepath.Dir(dir); parent != dir {
		if closed := closedTo(group, parent); closed != "" {
			return closed
		}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return dir
	}
	const groupEnters, othersEnter = 0o010, 0o001
	stat, ok := info.Sys().(*syscall.Stat_t)
	bit := os.FileMode(othersEnter)
	if ok && int(stat.Gid) == group {
		bit = groupEnters
	}
	if info.Mode().Perm()&bit == 0 {
		return dir
	}
	return ""
}
