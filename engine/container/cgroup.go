package container

import (
	"path"
	"slices"
	"strings"

	"moss/engine/fault"
)

// CgroupPath is the parent of the container's cgroup, relative to the cgroup that the engine has for containers; empty: that
// one itself.
func (h *HostConfig) CgroupPath() string {
	return strings.TrimPrefix(path.Clean("/"+h.CgroupParent), "/")
}

// checkCgroupParent checks CgroupParent. It is taken below the cgroup that the engine has for containers, whether it is
// relative or absolute: what lies above is not the user's (API document 1, 2.3).
func checkCgroupParent(d *draft) error {
	parent := d.Host.CgroupParent
	bad := func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }
	if strings.ContainsFunc(parent, bad) || slices.Contains(strings.Split(parent, "/"), "..") {
		return fault.Invalid("invalid CgroupParent %q: expected a path without ..", parent)
	}
	return nil
}

// checkStorageOpt refuses all storage options: there is one, and it takes what a user does not have.
func checkStorageOpt(d *draft) error {
	for name, value := range d.Host.StorageOpt {
		if strings.EqualFold(name, "size") {
			return fault.Invalid("StorageOpt size=%s is not supported: a container's own size limit takes project quotas, "+
				"which only the machine's administrator can set; limit the user or the filesystem instead", value)
		}
		return fault.Invalid("unknown option %s in StorageOpt", name)
	}
	return nil
}
