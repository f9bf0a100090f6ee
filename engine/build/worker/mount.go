package worker

import (
	"path"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"moss/engine/build/source"
	"moss/engine/fault"
)

// MountType says what a mount shows.
type MountType string

// The types of mounts.
const (
	MountBind   MountType = "bind"
	MountCache  MountType = "cache"
	MountTmpfs  MountType = "tmpfs"
	MountSecret MountType = "secret"
)

// Sharing says what happens to builds that want the same cache at the same time.
type Sharing string

// The ways of sharing.
const (
	Shared  Sharing = "shared"  // all use it at once
	Private Sharing = "private" // each uses one of its own
	Locked  Sharing = "locked"  // one after the other
)

// Mount is one mount of a RUN. Make it with MountOf, then say what it shows.
type Mount struct {
	Type     MountType
	Target   string // as written: relative to the working folder, or absolute; empty for a secret that is a variable only
	ReadOnly bool

	// Of a bind, and of what a new cache begins with: one of these two. A cache may have neither.
	Files source.Source // of the context
	Image string        // id of the image
	Path  string        // in there

	ID      string  // of a cache or a secret
	Sharing Sharing // of a cache
	Size    int64   // bytes of a tmpfs; 0: the kernel's choice

	Required bool   // a secret that is missing is an error
	Env      string // name of the variable that gets the secret; empty: none

	Mode     *uint32 // permissions of a cache or a secret; nil: 0755 or 0400
	UID, GID uint32  // its owner
}

// MountOf takes a mount as a Dockerfile has it. What it shows, by its From, is for the caller to say in Files or Image.
// skip reports a mount that is left out as it may be. fault.Unsupported for one of the SSH agent that is required.
func MountOf(m *instructions.Mount) (mount Mount, skip bool, err error) {
	mount = Mount{
		Type: MountType(m.Type), Target: m.Target, ReadOnly: m.ReadOnly, Path: path.Join("/", m.Source), ID: m.CacheID,
		Sharing: Sharing(m.CacheSharing), Size: m.SizeLimit, Required: m.Required,
	}
	if m.Mode != nil {
		mode := uint32(*m.Mode)
		mount.Mode = &mode
	}
	if m.UID != nil {
		mount.UID = uint32(*m.UID)
	}
	if m.GID != nil {
		mount.GID = uint32(*m.GID)
	}
	switch m.Type {
	case instructions.MountTypeBind:
		if mount.Target == "" {
			return mount, false, fault.Invalid("RUN --mount=type=bind: target is required")
		}
	case instructions.MountTypeTmpfs:
		if mount.Target == "" {
			return mount, false, fault.Invalid("RUN --mount=type=tmpfs: target is required")
		}
	case instructions.MountTypeCache:
		if mount.Target == "" {
			return mount, false, fault.Invalid("RUN --mount=type=cache: target is required")
		}
		if mount.Sharing == "" {
			mount.Sharing = Shared
		}
	case instructions.MountTypeSecret:
		mount.fillSecret(m)
	case instructions.MountTypeSSH:
		if !m.Required {
			return mount, true, nil
		}
		return mount, false, fault.Unsupported("RUN --mount=type=ssh is not supported: this protocol has no way to a client's SSH " +
			"agent")
	default:
		return mount, false, fault.Unsupported("RUN --mount=type=%s is not supported", m.Type)
	}
	return mount, false, nil
}

// fillSecret fills the fields of a secret that follow from the others: its id is the one given, its source or the last part
// of its target.
func (m *Mount) fillSecret(from *instructions.Mount) {
	if m.ID == "" {
		m.ID = from.Source
	}
	if m.ID == "" {
		m.ID = path.Base(m.Target)
	}
	m.Path = ""
	if from.Env != nil {
		if m.Env = *from.Env; m.Env == "" {
			m.Env = m.ID
		}
		return
	}
	if m.Target == "" {
		m.Target = "/run/secrets/" + strings.TrimPrefix(path.Base(m.ID), "/")
	}
}
