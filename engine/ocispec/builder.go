// Package ocispec turns a container's settings into an OCI runtime spec. It reads no files and starts nothing.
//
// The spec is for a runtime that already runs in the user's own namespaces, as their root: it never asks for a user
// namespace, devices are bind mounts, and only limits of controllers at hand are set. What the generator of runtime-tools
// gives by default is replaced where it differs from what images expect (ociVersion, host name, open files, ambient and
// inheritable capabilities, masked paths, device rules).
package ocispec

import (
	"maps"
	"slices"
	"sync"

	"github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-tools/generate"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/network"
)

// ociVersion is what runtimes of stable distributions accept: crun 1.8.1 refuses the 1.3.0 of the generator.
const ociVersion = "1.0.2"

// Options are what a Builder must know of the host. The zero value is a host without cgroups for the user.
type Options struct {
	Controllers container.Controllers // which limits can be applied
	// SingleID means that the user namespace maps one user and one group only: no supplementary groups, no user but root.
	SingleID bool
	// EmulateIDs lets the default filter answer calls that name other ids than the one with success, where SingleID holds.
	EmulateIDs bool
	// Nofile is the limit of open files, soft and hard, for containers that ask for none; it must not exceed the
	// engine's own hard limit. 0 leaves the engine's.
	Nofile uint64
	// OomScoreAdj is the engine's own: an ordinary user's process cannot go below it.
	OomScoreAdj int
	// LastCap is the number of the kernel's last capability (/proc/sys/kernel/cap_last_cap). 0: all that are known.
	LastCap int
	// RecursiveReadOnly means that the runtime knows the mount option rro (crun 1.4, runc 1.1) and the kernel
	// mount_setattr (5.12), so that a read-only bind of a folder is read-only in its submounts too.
	RecursiveReadOnly bool
	// IsDir reports whether a path of the host is a folder: crun 1.8.1 fails on the option rro for files. nil: none is,
	// and rro is never asked for.
	IsDir func(path string) bool
	// HostDevices are the device files under /dev that a privileged container gets.
	HostDevices []string
	// BlockDevice looks up a block device's number for limits on single devices. nil: such limits are refused.
	BlockDevice func(path string) (major, minor int64, err error)
}

// Input is one container that is about to start.
type Input struct {
	ID       string
	Spec     *container.Spec
	Rootfs   string            // absolute path of the mounted root
	User     container.UserIDs // of Spec.User and Spec.Host.GroupAdd
	Sandbox  network.Sandbox   // ready to be entered
	HostName string            // of the host, for containers that share it
	Join     Join              // namespaces of other containers
	IDMap    *container.IDMap  // of a user namespace of its own; nil: it has none

	// Files made for the container; an empty path is left out.
	HostnamePath string
	HostsPath    string
	ResolvConf   string
	AptConf      string // for AptConf
	Additions    Additions
	Init         string // the program for InitPath, which runs the container's command; empty: that is the first process

	// CgroupsPath is the container's cgroup; empty means none, and then no limit is set.
	CgroupsPath string
}

// Additions are what a container has besides what its spec asks for. All paths are absolute.
type Additions struct {
	Env     []string
	Devices []container.Device
	Mounts  []specs.Mount // with all of their options
	Groups  []uint32
	Hooks   *specs.Hooks // nil: none
}

// Join holds what a container takes from others, as paths that must stay good until the runtime has made its process.
type Join struct {
	Network string // namespace; needed when the sandbox is network.Container
	Pid     string // namespace; empty: the container's own, or the host's
	Ipc     string // namespace; needed when the spec says container.IpcContainer
	Shm     string // folder: the shared memory that belongs to Ipc
}

// Builder makes specs. It may be used by several goroutines.
type Builder struct {
	opt  Options
	base specs.Spec // never changed

	mu       sync.Mutex // guards profiles
	profiles map[string]*specs.LinuxSeccomp
}

// New returns a Builder for a host.
func New(opt Options) (*Builder, error) {
	gen, err := generate.New("linux")
	if err != nil {
		return nil, err
	}
	b := &Builder{opt: opt, base: *gen.Config, profiles: make(map[string]*specs.LinuxSeccomp)}
	b.opt.HostDevices = slices.Clone(opt.HostDevices)
	return b, nil
}

// Check reports what of a spec Build would refuse for any container, so that create can already do so: a seccomp profile
// that is none, a user where there is only root, or a read-only mount that cannot be one. The kinds are fault.Invalid and
// fault.Unsupported.
func (b *Builder) Check(spec *container.Spec) error {
	if s := spec.Security.Seccomp; s != "" && s != container.SeccompUnconfined {
		probe := specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
		profile, err := seccomp.LoadProfile(s, &probe)
		if err != nil {
			return fault.Invalid("invalid seccomp profile: %v", err)
		}
		if err := checkFilter(profile); err != nil {
			return err
		}
	}
	if b.opt.SingleID && len(spec.Host.GroupAdd) > 0 {
		return fault.Unsupported("GroupAdd %v is not supported: the user has no subordinate ids", spec.Host.GroupAdd)
	}
	if _, own := spec.Host.Annotations[bpfAnnotation]; own {
		return fault.Invalid("Annotations: %s is the engine's own", bpfAnnotation)
	}
	for _, bind := range spec.Binds {
		if bind.ReadOnlyForceRecursive && !b.opt.RecursiveReadOnly {
			return fault.Unsupported("Mounts: BindOptions.ReadOnlyForceRecursive is not supported: neither by the kernel nor by the " +
				"runtime here")
		}
	}
	_, err := b.blockIO(&spec.Host)
	return err
}

// Build makes the runtime spec. The result is the caller's, except Linux.Seccomp, which is shared and must not be changed.
// A user that the host has no id for, or a seccomp profile that is none, gives fault.Unsupported or fault.Invalid.
func (b *Builder) Build(in Input) (*specs.Spec, error) {
	if err := b.Check(in.Spec); err != nil {
		return nil, err
	}
	if b.opt.SingleID && in.IDMap == nil && (in.User.UID != 0 || in.User.GID != 0) {
		return nil, fault.Unsupported("user %d:%d is not supported: the user has no subordinate ids, and only root exists",
			in.User.UID, in.User.GID)
	}
	gen := b.newGenerator()
	gen.Config.Annotations, gen.Config.Hooks = maps.Clone(in.Spec.Host.Annotations), in.Additions.Hooks
	b.setProcess(gen, &in)
	if err := b.setNamespaces(gen, &in); err != nil {
		return nil, err
	}
	b.setMounts(gen, &in)
	b.setPaths(gen, &in)
	if err := b.setResources(gen, &in); err != nil {
		return nil, err
	}
	if err := b.setSeccomp(gen.Config, &in); err != nil {
		return nil, err
	}
	return gen.Config, nil
}

// newGenerator returns a generator on a fresh copy of the base, emptied of what is set anew.
func (b *Builder) newGenerator() *generate.Generator {
	spec := b.base
	process, linux, root := *b.base.Process, *b.base.Linux, *b.base.Root
	process.Args, process.Env, process.Rlimits, process.Capabilities = nil, nil, nil, nil
	linux.Namespaces, linux.Resources, linux.Seccomp = nil, nil, nil
	spec.Process, spec.Linux, spec.Root, spec.Mounts, spec.Annotations = &process, &linux, &root, nil, nil
	gen := generate.NewFromSpec(&spec)
	gen.SetOCIVersion(ociVersion)
	gen.SetHostname("")
	return &gen
}
