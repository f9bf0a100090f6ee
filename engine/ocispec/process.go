package ocispec

import (
	"math"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-tools/generate"

	"moss/engine/container"
)

// defaultPath is where a command without a slash is looked for when neither image nor client say.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// processUmask is every process's of a container, whatever the engine's own is.
const processUmask = 0o022

// setProcess fills who runs what, with which environment, limits and capabilities.
func (b *Builder) setProcess(gen *generate.Generator, in *Input) {
	s, p := in.Spec, gen.Config.Process
	if in.Init == "" {
		gen.SetProcessArgs(slices.Clone(s.Args))
	} else {
		gen.SetProcessArgs(append([]string{InitPath, "--"}, s.Args...))
	}
	p.Env = processEnv(in)
	gen.AddMultipleProcessEnv(in.Additions.Env)
	gen.SetProcessTerminal(s.Config.Tty)
	if size := s.Host.ConsoleSize; s.Config.Tty && size[0] > 0 && size[1] > 0 {
		p.ConsoleSize = &specs.Box{Height: uint(size[0]), Width: uint(size[1])}
	}
	gen.SetProcessCwd("/")
	if s.Config.WorkingDir != "" {
		gen.SetProcessCwd(s.Config.WorkingDir)
	}
	umask := uint32(processUmask)
	p.User = specs.User{UID: in.User.UID, GID: in.User.GID, Umask: &umask}
	if !b.opt.SingleID { // with one id setgroups is denied
		p.User.AdditionalGids = append(allGroups(in.User), in.Additions.Groups...)
	}
	gen.SetProcessNoNewPrivileges(s.Security.NoNewPrivileges)
	b.setRlimits(gen, s)
	if adj := s.Host.OomScoreAdj; adj != 0 {
		gen.SetProcessOOMScoreAdj(max(adj, b.opt.OomScoreAdj))
	}
	p.Capabilities = b.capabilitySets(s, in.User.UID)
}

// processEnv returns the default environment with the container's own laid over it.
func processEnv(in *Input) []string {
	env := []string{"PATH=" + defaultPath}
	if name := in.Spec.Hostname(in.ID, in.HostName); name != "" {
		env = append(env, "HOSTNAME="+name)
	}
	if in.Spec.Config.Tty {
		env = append(env, "TERM=xterm")
	}
	if in.User.Home != "" {
		env = append(env, "HOME="+in.User.Home)
	}
	env = container.LayEnv(env, in.Spec.Env)
	named := func(entry string) bool { return entry != "HOME=" && strings.HasPrefix(entry, "HOME=") }
	if in.User.Home == "" || slices.ContainsFunc(env, named) {
		return env
	}
	// Without a value it has its default, as with other engines.
	return container.LayEnv(env, []string{"HOME=" + in.User.Home})
}

// allGroups returns all groups of the process, its own first, as engines set them explicitly so that none is inherited.
func allGroups(user container.UserIDs) []uint32 {
	return append([]uint32{user.GID}, user.Additional...)
}

func (b *Builder) setRlimits(gen *generate.Generator, s *container.Spec) {
	if b.opt.Nofile > 0 {
		gen.AddProcessRlimits("RLIMIT_NOFILE", b.opt.Nofile, b.opt.Nofile)
	}
	for _, u := range s.Ulimits {
		gen.AddProcessRlimits("RLIMIT_"+strings.ToUpper(u.Name), toRlimit(u.Hard), toRlimit(u.Soft))
	}
}

func toRlimit(n int64) uint64 {
	if n < 0 {
		return math.MaxUint64 // RLIM_INFINITY
	}
	return uint64(n)
}

// defaultCaps are the 14 capabilities that images expect.
func defaultCaps() []string {
	return []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
		"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL",
		"CAP_AUDIT_WRITE",
	}
}

// capabilitySets returns the bounding set for everybody, and the effective and permitted ones for root only, which is what
// execve makes of them. The inheritable and ambient sets stay empty.
func (b *Builder) capabilitySets(s *container.Spec, uid uint32) *specs.LinuxCapabilities {
	list := b.capList(s)
	caps := &specs.LinuxCapabilities{Bounding: list}
	if uid == 0 {
		caps.Effective, caps.Permitted = slices.Clone(list), slices.Clone(list)
	}
	return caps
}

// capList applies CapAdd and CapDrop to the default set. ALL on either side is the base that the other side's single
// names change; on both sides only the added names stay.
func (b *Builder) capList(s *container.Spec) []string {
	all := container.Capabilities()
	if b.opt.LastCap > 0 && b.opt.LastCap < len(all)-1 {
		all = all[:b.opt.LastCap+1]
	}
	if s.Host.Privileged {
		return all
	}
	base := defaultCaps()
	switch {
	case slices.Contains(s.Caps.Drop, container.AllCapabilities):
		base = nil
	case slices.Contains(s.Caps.Add, container.AllCapabilities):
		base = all
	}
	has := func(name string) bool {
		if slices.Contains(s.Caps.Add, name) {
			return true
		}
		return slices.Contains(base, name) && !slices.Contains(s.Caps.Drop, name)
	}
	list := make([]string, 0, len(all))
	for _, name := range all {
		if has(name) {
			list = append(list, name)
		}
	}
	return list
}
