package imagesvc

import (
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/image"
)

// platform is what an image is made for (OCI image spec, index: platform).
type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant,omitempty"`
}

// String returns the platform as clients write it: linux/arm/v7.
func (p platform) String() string {
	s := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// parsePlatform reads os[/arch[/variant]]; a single word may be an architecture. Nothing at all is this machine, and then
// own is true. Errors are fault.Invalid.
func parsePlatform(s string) (p platform, own bool, err error) {
	if s == "" {
		return thisPlatform(), true, nil
	}
	if err := image.CheckPlatform(s); err != nil {
		return platform{}, false, err
	}
	parts := strings.Split(strings.ToLower(s), "/")
	if len(parts) == 1 {
		if one := (platform{Architecture: parts[0]}).normalForm(); slices.Contains(bareArchitectures(), one.Architecture) {
			one.OS = "linux"
			return one, false, nil
		}
		p = thisPlatform()
		p.OS = parts[0]
		return p, false, nil
	}
	p = platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p.normalForm(), false, nil
}

// bareArchitectures returns the names that mean an architecture when they stand alone.
func bareArchitectures() []string {
	return []string{"386", "amd64", "arm", "arm64", "loong64", "mips64le", "ppc64le", "riscv64", "s390x"}
}

// normalForm gives the names that other tools use for an architecture their usual form, and drops variants that are the rule.
func (p platform) normalForm() platform {
	p.OS, p.Architecture, p.Variant = strings.ToLower(p.OS), strings.ToLower(p.Architecture), strings.ToLower(p.Variant)
	switch p.Architecture {
	case "x86_64", "x86-64":
		p.Architecture = "amd64"
	case "i386", "i686":
		p.Architecture, p.Variant = "386", ""
	case "aarch64":
		p.Architecture = "arm64"
	case "armhf":
		p.Architecture, p.Variant = "arm", "v7"
	case "armel":
		p.Architecture, p.Variant = "arm", "v6"
	}
	switch {
	case p.Variant == "":
	case p.Architecture == "arm64" && (p.Variant == "v8" || p.Variant == "8"), p.Architecture == "amd64" && p.Variant == "v1":
		p.Variant = ""
	case p.Architecture == "arm" && strings.Trim(p.Variant, "0123456789") == "":
		p.Variant = "v" + p.Variant
	}
	return p
}

// thisPlatform returns what this machine is. It names a variant where images of other variants may not run.
func thisPlatform() platform {
	p := platform{OS: "linux", Architecture: runtime.GOARCH}
	if p.Architecture == "arm" {
		p.Variant = armVariant(machineName())
	}
	return p
}

// machineName returns the kernel's name for the hardware: x86_64, armv7l.
func machineName() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Machine[:])
}

// armVariant tells the variant from the kernel's name for the hardware; v7 unless it is an older one.
func armVariant(machine string) string {
	switch {
	case strings.HasPrefix(machine, "aarch64"), strings.HasPrefix(machine, "armv8"):
		return "v8"
	case strings.HasPrefix(machine, "armv6"):
		return "v6"
	case strings.HasPrefix(machine, "armv5"), strings.HasPrefix(machine, "armv4"):
		return "v5"
	default:
		return "v7"
	}
}

// amd64Level is the newest level of the x86-64 ABI that this machine's processor has: 1 to 4.
func amd64Level() int {
	x := &cpu.X86
	switch {
	case !x.HasSSE42 || !x.HasSSSE3 || !x.HasPOPCNT || !x.HasCX16:
		return 1
	case !x.HasAVX2 || !x.HasBMI1 || !x.HasBMI2 || !x.HasFMA:
		return 2
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512CD || !x.HasAVX512DQ || !x.HasAVX512VL:
		return 3
	default:
		return 4
	}
}

// candidatePlatforms returns what may stand in for p in an index, the best first. own says that p is this machine, which takes
// what its processor can run besides; a platform that a client named is taken at its word.
func (p platform) candidatePlatforms(own bool) []platform {
	like := func(arch string, variants ...string) (found []platform) {
		for _, v := range variants {
			found = append(found, platform{p.OS, arch, v})
		}
		return found
	}
	switch p.Architecture {
	case "arm":
		order := []string{"v8", "v7", "v6", "v5"}
		at := slices.Index(order, p.Variant)
		if p.Variant == "" {
			at = 1 // what everybody means by arm
		}
		if at < 0 {
			return []platform{p}
		}
		return append(like("arm", order[at:]...), like("arm", "")...)
	case "arm64":
		found := like("arm64", "")
		if p.Variant != "" {
			found = append([]platform{p}, found...)
		}
		if own {
			found = append(found, like("arm", "v8", "v7", "v6", "v5", "")...)
		}
		return found
	case "amd64":
		if own {
			// The plain level first: the same name then gives the same image on every machine.
			return append(like("amd64", slices.Insert(levelNames(2, amd64Level()), 0, "")...), like("386", "")...)
		}
		named, err := strconv.Atoi(strings.TrimPrefix(p.Variant, "v"))
		if err != nil || named < 2 || named > 4 {
			return []platform{p}
		}
		down := levelNames(2, named)
		slices.Reverse(down)
		return like("amd64", append(down, "")...)
	default:
		if p.Variant != "" {
			return []platform{p, {OS: p.OS, Architecture: p.Architecture}}
		}
		return []platform{p}
	}
}

// levelNames returns the variants from one level of the x86-64 ABI to another.
func levelNames(from, to int) (names []string) {
	for level := from; level <= to; level++ {
		names = append(names, "v"+strconv.Itoa(level))
	}
	return names
}

// chooseEntry returns the entry of an index that suits best; ok is false if none does. Entries without a platform and those of
// another kind (attestations) are passed over.
func (p platform) chooseEntry(own bool, entries []descriptor) (chosen descriptor, ok bool) {
	for _, want := range p.candidatePlatforms(own) {
		for _, entry := range entries {
			if entry.Platform != nil && entry.namesManifest() && entry.Platform.normalForm() == want {
				return entry, true
			}
		}
	}
	return descriptor{}, false
}

// suits reports whether an image made for other is one that p asks for.
func (p platform) suits(own bool, other platform) bool {
	return slices.Contains(p.candidatePlatforms(own), other.normalForm())
}

// noPlatform is the one wording for an index without an image for p (clients show it as it is).
func noPlatform(p platform) error {
	return fault.NotFound("no matching manifest for %s in the manifest list entries", p)
}
