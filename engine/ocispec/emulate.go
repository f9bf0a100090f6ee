package ocispec

import (
	"path"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// AptConf is where a container finds Input.AptConf: the parts of apt's settings are read in the order of their names, so that
// an image's own come after it.
const AptConf = "/etc/apt/apt.conf.d/00moss-one-id"

// emulatesIDs reports whether a container's filter may answer calls that name other ids than the only one with success.
// In an id map of its own a container has no root, and what an ordinary user may not do goes on to fail.
func (b *Builder) emulatesIDs(in *Input) bool {
	return b.opt.SingleID && b.opt.EmulateIDs && in.IDMap == nil
}

// emulateIDs makes a filter answer calls with success that fail where only root exists: a file cannot be given to anybody
// else, and no process can become somebody else or have groups. Nothing happens then, and getuid, getgroups and stat go on
// to tell the truth. A container without the capability for such a call is refused as anywhere.
//
// Every process has one id for all its ids, in further user namespaces too, so that changing them has no effect of its own
// that could be lost. chown to root goes to the kernel, which tells of files that are not there and takes set-uid bits away.
// Conditions must not overlap, or libseccomp decides which counts, and each argument can have one only: chown with -1 for
// the owner or the group is answered without a look at the file therefore.
func emulateIDs(profile *specs.LinuxSeccomp, capabilities []string) {
	for _, calls := range []struct {
		capability string
		names      []string
		owner      uint // the argument with the new owner, before that with the group; 0: there is none
	}{
		{"CAP_CHOWN", []string{"chown", "chown32", "fchown", "fchown32", "lchown", "lchown32"}, 1},
		{"CAP_CHOWN", []string{"fchownat"}, 2},
		{"CAP_SETUID", []string{"setuid", "setuid32", "setreuid", "setreuid32", "setresuid", "setresuid32"}, 0},
		{"CAP_SETGID", []string{
			"setgid", "setgid32", "setregid", "setregid32", "setresgid", "setresgid32", "setgroups", "setgroups32",
		}, 0},
	} {
		if !slices.Contains(capabilities, calls.capability) {
			continue
		}
		removeSyscalls(profile, calls.names...)
		answer := func(action specs.LinuxSeccompAction, args ...specs.LinuxSeccompArg) {
			rule := specs.LinuxSyscall{Names: calls.names, Action: action, Args: args}
			if action == specs.ActErrno {
				rule.ErrnoRet = new(uint) // 0: the call returns 0
			}
			profile.Syscalls = append(profile.Syscalls, rule)
		}
		if calls.owner == 0 {
			answer(specs.ActErrno)
			continue
		}
		is := func(index uint, op specs.LinuxSeccompOperator) specs.LinuxSeccompArg {
			return specs.LinuxSeccompArg{Index: index, Op: op}
		}
		owner, group := calls.owner, calls.owner+1
		answer(specs.ActErrno, is(owner, specs.OpNotEqual))
		answer(specs.ActErrno, is(owner, specs.OpEqualTo), is(group, specs.OpNotEqual))
		answer(specs.ActAllow, is(owner, specs.OpEqualTo), is(group, specs.OpEqualTo))
	}
}

// aptMount is the mount of AptConf; nil if there is none. What the client mounts there is the client's, and gets no file of the
// engine's.
func aptMount(in *Input, asked []specs.Mount) []specs.Mount {
	covers := func(m specs.Mount) bool {
		dir := path.Clean(m.Destination)
		return dir == "/" || dir == AptConf || strings.HasPrefix(AptConf, dir+"/")
	}
	if in.AptConf == "" || slices.ContainsFunc(asked, covers) {
		return nil
	}
	return []specs.Mount{{
		Destination: AptConf, Type: "bind", Source: in.AptConf, Options: []string{"bind", "rprivate", "ro"},
	}}
}
