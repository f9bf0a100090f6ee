package ocispec

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
)

// setSeccomp chooses the filter. A privileged container has none unless it brings a profile.
func (b *Builder) setSeccomp(spec *specs.Spec, in *Input) error {
	asked := in.Spec.Security.Seccomp
	if asked == container.SeccompUnconfined || asked == "" && in.Spec.Host.Privileged {
		return nil
	}
	if asked != "" {
		profile, err := seccomp.LoadProfile(asked, spec)
		if err != nil {
			return fault.Invalid("invalid seccomp profile: %v", err)
		}
		spec.Linux.Seccomp = profile
		return nil
	}
	profile, err := b.defaultProfile(spec, b.emulatesIDs(in))
	if err != nil {
		return err
	}
	spec.Linux.Seccomp = profile
	return nil
}

// checkFilter refuses what a runtime would only find out at the start, and what it needs a listener for.
func checkFilter(profile *specs.LinuxSeccomp) error {
	actions := []specs.LinuxSeccompAction{
		specs.ActKill, specs.ActKillProcess, specs.ActKillThread, specs.ActTrap, specs.ActErrno, specs.ActTrace,
		specs.ActAllow, specs.ActLog,
	}
	operators := []specs.LinuxSeccompOperator{
		specs.OpNotEqual, specs.OpLessThan, specs.OpLessEqual, specs.OpEqualTo, specs.OpGreaterEqual, specs.OpGreaterThan,
		specs.OpMaskedEqual,
	}
	if profile == nil { // an empty one, which would be none
		return fault.Invalid("invalid seccomp profile: it has no defaultAction")
	}
	if !slices.Contains(actions, profile.DefaultAction) {
		return fault.Invalid("invalid seccomp profile: defaultAction %q is not supported", profile.DefaultAction)
	}
	for _, call := range profile.Syscalls {
		if !slices.Contains(actions, call.Action) {
			return fault.Invalid("invalid seccomp profile: action %q is not supported", call.Action)
		}
		for _, arg := range call.Args {
			if !slices.Contains(operators, arg.Op) || arg.Index > 5 {
				return fault.Invalid("invalid seccomp profile: argument %d %q is not supported", arg.Index, arg.Op)
			}
		}
	}
	return nil
}

// maxProfiles bounds the memory that remembered profiles take; a profile depends on the capabilities and on whether ids are
// emulated.
const maxProfiles = 64

// defaultProfile makes the default filter for a set of capabilities once and remembers it.
func (b *Builder) defaultProfile(spec *specs.Spec, emulate bool) (*specs.LinuxSeccomp, error) {
	key := strconv.FormatBool(emulate) + " " + strings.Join(spec.Process.Capabilities.Bounding, " ")
	b.mu.Lock()
	defer b.mu.Unlock()
	if profile, ok := b.profiles[key]; ok {
		return profile, nil
	}
	profile, err := seccomp.GetDefaultProfile(spec)
	if err != nil {
		return nil, err
	}
	closeSocketcall(profile, runtime.GOARCH)
	if emulate {
		emulateIDs(profile, spec.Process.Capabilities.Bounding)
	}
	if len(b.profiles) >= maxProfiles {
		clear(b.profiles)
	}
	b.profiles[key] = profile
	return profile, nil
}

// closeSocketcall takes away the way round the profile's block of AF_ALG and AF_VSOCK that 32-bit x86 code has: the
// arguments of socketcall(2) lie in memory, where no filter can look. Answering "no such call" makes programs use the
// calls of their own that Linux 4.3 added.
func closeSocketcall(profile *specs.LinuxSeccomp, goarch string) {
	if goarch != "amd64" && goarch != "386" {
		return // elsewhere no second ABI has socketcall, or the first one's C library depends on it
	}
	removeSyscalls(profile, "socketcall")
	nosys := uint(unix.ENOSYS)
	profile.Syscalls = append(profile.Syscalls, specs.LinuxSyscall{
		Names: []string{"socketcall"}, Action: specs.ActErrno, ErrnoRet: &nosys,
	})
}

// removeSyscalls takes system calls out of what a profile allows.
func removeSyscalls(profile *specs.LinuxSeccomp, calls ...string) {
	named := func(name string) bool { return slices.Contains(calls, name) }
	for i, call := range profile.Syscalls {
		if call.Action == specs.ActAllow && slices.ContainsFunc(call.Names, named) {
			profile.Syscalls[i].Names = slices.DeleteFunc(slices.Clone(call.Names), named)
		}
	}
}

// bpfAnnotation is how crun takes a compiled filter: base64 of an array of struct sock_filter.
const bpfAnnotation = "run.oci.seccomp_bpf_data"

// SeccompKey identifies the filter that a runtime compiles from the spec, for a cache of compiled filters. It does not
// cover the runtime and its version. It is empty when there is no filter.
func SeccompKey(spec *specs.Spec) string {
	if spec.Linux == nil || spec.Linux.Seccomp == nil {
		return ""
	}
	raw, err := json.Marshal(spec.Linux.Seccomp)
	if err != nil {
		return ""
	}
	hash := sha256.New()
	hash.Write([]byte(runtime.GOARCH + "\x00"))
	hash.Write(raw)
	return hex.EncodeToString(hash.Sum(nil))
}

// UseCompiledSeccomp puts a filter that crun compiled before (it leaves it in <root>/<id>/seccomp.bpf) in the place of
// the profile, which then need not be compiled again. It is for crun only. What stays of the profile refuses every system
// call: a runtime that does not know the annotation runs nothing rather than something unfiltered.
func UseCompiledSeccomp(spec *specs.Spec, bpf []byte) {
	annotations := make(map[string]string, len(spec.Annotations)+1)
	maps.Copy(annotations, spec.Annotations)
	annotations[bpfAnnotation] = base64.StdEncoding.EncodeToString(bpf)
	spec.Annotations = annotations
	spec.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: specs.ActErrno}
}
