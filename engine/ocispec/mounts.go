package ocispec

import (
	"path"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-tools/generate"

	"moss/engine/container"
	"moss/engine/network"
)

// setMounts lists the mounts in the order in which they are made: the system's, then the client's and the managed files
// of /etc, outer ones first. A mount of the client's takes the place of ours at the same path.
func (b *Builder) setMounts(gen *generate.Generator, in *Input) {
	s := in.Spec
	gen.SetRootPath(in.Rootfs)
	gen.SetRootReadonly(s.Host.ReadonlyRootfs)

	asked := b.clientMounts(in)
	replaced := func(m specs.Mount) bool {
		return slices.ContainsFunc(asked, func(a specs.Mount) bool {
			return a.Destination == m.Destination || a.Destination == "/dev" && strings.HasPrefix(m.Destination, "/dev/")
		})
	}
	system := slices.DeleteFunc(b.systemMounts(in), replaced)
	rest := slices.Concat(slices.DeleteFunc(etcMounts(in), replaced), aptMount(in, asked), asked)
	depth := func(m specs.Mount) int { return strings.Count(m.Destination, "/") }
	slices.SortStableFunc(rest, func(x, y specs.Mount) int { return depth(x) - depth(y) })
	gen.Config.Mounts = slices.Concat(system, rest, initMount(in))
	if propagation := rootPropagation(s.Binds); propagation != "" {
		gen.Config.Linux.RootfsPropagation = propagation
	}
}

// InitPath is where the first process of a container lies that asked for one. /dev is in memory: the container's files stay as
// they are.
const InitPath = "/dev/init"

func initMount(in *Input) []specs.Mount {
	if in.Init == "" {
		return nil
	}
	return []specs.Mount{{
		Destination: InitPath, Type: "bind", Source: in.Init, Options: []string{"bind", "rprivate", "ro", "nosuid", "nodev"},
	}}
}

// rootPropagation is what the root mount needs so that shared and slave binds stay so below it.
func rootPropagation(binds []container.Bind) string {
	propagation := ""
	for _, b := range binds {
		switch strings.TrimPrefix(b.Propagation, "r") {
		case "shared":
			return "shared"
		case "slave":
			propagation = "rslave"
		}
	}
	return propagation
}

// systemMounts are the file systems every container has.
func (b *Builder) systemMounts(in *Input) []specs.Mount {
	s := in.Spec
	devpts := []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}
	if !b.opt.SingleID { // the kernel refuses a group that is not mapped
		devpts = append(devpts, "gid=5")
	}
	mounts := []specs.Mount{
		procMount(s),
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: devpts},
	}
	mounts = append(mounts, ipcMounts(in)...)
	return append(mounts, sysMounts(in)...)
}

// procMount is a fresh proc, or the host's where the process ids are the host's: the kernel gives no fresh one then.
func procMount(s *container.Spec) specs.Mount {
	if s.PidHost {
		return specs.Mount{
			Destination: "/proc", Type: "bind", Source: "/proc",
			Options: []string{"rbind", "rprivate", "nosuid", "noexec", "nodev"},
		}
	}
	return specs.Mount{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}}
}

func ipcMounts(in *Input) []specs.Mount {
	s := in.Spec
	hard := []string{"nosuid", "noexec", "nodev"}
	mqueue := specs.Mount{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: hard}
	switch s.Ipc {
	case container.IpcHost: // the kernel gives no mqueue of a namespace that is not the user's
		return []specs.Mount{{
			Destination: "/dev/shm", Type: "bind", Source: "/dev/shm", Options: append([]string{"rbind", "rprivate"}, hard...),
		}}
	case container.IpcNone:
		return []specs.Mount{mqueue}
	case container.IpcContainer:
		shm := specs.Mount{
			Destination: "/dev/shm", Type: "bind", Source: in.Join.Shm, Options: append([]string{"rbind", "rprivate"}, hard...),
		}
		return []specs.Mount{shm, mqueue}
	case container.IpcPrivate:
		size := "size=" + strconv.FormatInt(s.Host.ShmSize, 10)
		shm := specs.Mount{
			Destination: "/dev/shm", Type: "tmpfs", Source: "shm",
			Options: append(slices.Clone(hard), "mode=1777", size),
		}
		return []specs.Mount{shm, mqueue}
	}
	return nil
}

// sysMounts are /sys and what lies below. With a network that does not belong to the container's user namespace (the host's,
// or with ids of its own the engine's) the kernel gives no fresh sysfs, so the host's is bound and its cgroups, which may be
// the user's own, are covered.
func sysMounts(in *Input) []specs.Mount {
	access := "ro"
	if in.Spec.Host.Privileged {
		access = "rw"
	}
	sys := specs.Mount{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", access}}
	mounts := []specs.Mount{sys}
	foreign := in.Sandbox.Mode == network.Host || in.IDMap != nil && in.Sandbox.Mode != network.None
	if foreign {
		mounts[0].Type, mounts[0].Source = "bind", "/sys"
		mounts[0].Options = append([]string{"rbind", "rprivate"}, sys.Options...)
	}
	switch {
	case in.CgroupsPath != "":
		mounts = append(mounts, specs.Mount{
			Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup",
			Options: []string{"nosuid", "noexec", "nodev", "relatime", access},
		})
	case foreign:
		mounts = append(mounts, specs.Mount{
			Destination: "/sys/fs/cgroup", Type: "tmpfs", Source: "tmpfs",
			Options: []string{"nosuid", "noexec", "nodev", "ro", "mode=555", "size=4k"},
		})
	}
	return mounts
}

// etcMounts are the files that the engine writes for the container.
func etcMounts(in *Input) []specs.Mount {
	access := "rw"
	if in.Spec.Host.ReadonlyRootfs {
		access = "ro"
	}
	var mounts []specs.Mount
	for _, file := range []struct{ source, destination string }{
		{in.ResolvConf, "/etc/resolv.conf"},
		{in.HostnamePath, "/etc/hostname"},
		{in.HostsPath, "/etc/hosts"},
	} {
		if file.source != "" {
			mounts = append(mounts, specs.Mount{
				Destination: file.destination, Type: "bind", Source: file.source,
				Options: []string{"bind", "rprivate", access},
			})
		}
	}
	return mounts
}

// clientMounts are tmpfs, binds and devices.
func (b *Builder) clientMounts(in *Input) []specs.Mount {
	s := in.Spec
	mounts := make([]specs.Mount, 0, len(s.Tmpfs)+len(s.Binds)+len(s.Devices))
	for _, t := range s.Tmpfs {
		mounts = append(mounts, specs.Mount{
			Destination: t.Destination, Type: "tmpfs", Source: "tmpfs", Options: slices.Clone(t.Options),
		})
	}
	for _, bind := range s.Binds {
		depth := "rbind"
		if bind.NonRecursive {
			depth = "bind"
		}
		mounts = append(mounts, specs.Mount{
			Destination: bind.Destination, Type: "bind", Source: bind.Source,
			Options: bindOptions(depth, bind, b.accessOption(bind)),
		})
	}
	for _, d := range slices.Concat(s.Devices, in.Additions.Devices) {
		mounts = append(mounts, deviceMount(d.PathOnHost, d.PathInContainer))
	}
	mounts = append(mounts, in.Additions.Mounts...)
	if s.Host.Privileged {
		for _, dev := range b.opt.HostDevices {
			taken := func(m specs.Mount) bool { return m.Destination == dev }
			if !isOwnDevice(dev) && !slices.ContainsFunc(mounts, taken) {
				mounts = append(mounts, deviceMount(dev, dev))
			}
		}
	}
	return mounts
}

func bindOptions(depth string, bind container.Bind, access string) []string {
	options := []string{depth, bind.Propagation, access}
	if bind.Flags != "" {
		options = append(options, strings.Split(bind.Flags, ",")...)
	}
	return options
}

func (b *Builder) accessOption(bind container.Bind) string {
	switch {
	case !bind.ReadOnly:
		return "rw"
	case bind.NonRecursive || bind.ReadOnlyNonRecursive:
		return "ro"
	case b.opt.RecursiveReadOnly && b.opt.IsDir != nil && b.opt.IsDir(bind.Source):
		return "rro"
	default:
		return "ro"
	}
}

// deviceMount binds a device: nodes cannot be made in a user namespace.
func deviceMount(source, destination string) specs.Mount {
	return specs.Mount{
		Destination: destination, Type: "bind", Source: source,
		Options: []string{"rbind", "rprivate", "nosuid", "noexec", "rw"},
	}
}

// isOwnDevice reports devices that the runtime or a mount of ours already gives every container.
func isOwnDevice(dev string) bool {
	switch path.Clean(dev) {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console", "/dev/ptmx":
		return true
	}
	for _, dir := range []string{"/dev/pts/", "/dev/shm/", "/dev/mqueue/", "/dev/fd/"} {
		if strings.HasPrefix(dev, dir) {
			return true
		}
	}
	return false
}

// setPaths hides and protects what of /proc and /sys speaks of the host.
func (b *Builder) setPaths(gen *generate.Generator, in *Input) {
	s := in.Spec
	if s.Host.Privileged {
		gen.Config.Linux.MaskedPaths, gen.Config.Linux.ReadonlyPaths = nil, nil
		return
	}
	gen.Config.Linux.MaskedPaths = slices.Clone(s.Security.MaskedPaths) // what follows changes them
	gen.Config.Linux.ReadonlyPaths = slices.Clone(s.Security.ReadonlyPaths)
}
