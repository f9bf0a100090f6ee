package image

import (
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// maxPlatform bounds a platform that a client names, in bytes.
const maxPlatform = 128

// Platform is what an image is made for (OCI image specification, index: platform). Two of them are compared in their normal
// form.
type Platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant,omitempty"`
}

// String returns the platform as clients write it: linux/arm/v7.
func (p Platform) String() string {
	s := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// ParsePlatform reads os[/arch[/variant]] into the normal form. A single word is an architecture, or a system for which this
// machine's architecture is meant. fault.Invalid for other texts.
func ParsePlatform(text string) (Platform, error) {
	if err := CheckPlatform(text); err != nil {
		return Platform{}, err
	}
	parts := append(strings.Split(text, "/"), "", "")
	if parts[1] != "" {
		return Platform{OS: parts[0], Architecture: parts[1], Variant: parts[2]}.NormalForm(), nil
	}
	if one := (Platform{OS: "linux", Architecture: parts[0]}).NormalForm(); slices.Contains(bareArchitectures(), one.Architecture) {
		return one, nil
	}
	p := ThisPlatform()
	p.OS = strings.ToLower(parts[0])
	return p, nil
}

// CheckUsable returns fault.Invalid for a platform whose programs no container here can be made for.
func (p Platform) CheckUsable() error {
	if p.OS != "linux" {
		return fault.Invalid("image operating system %q cannot be used on this platform", p.OS)
	}
	return nil
}

// bareArchitectures returns the names that mean an architecture when they stand alone.
func bareArchitectures() []string {
	return []string{"386", "amd64", "arm", "arm64", "loong64", "mips64le", "ppc64le", "riscv64", "s390x"}
}

// NormalForm gives the names that other tools use for an architecture their usual form, and drops variants that are the rule.
func (p Platform) NormalForm() Platform {
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

// ThisPlatform returns what this machine is. It names a variant where images of other variants may not run.
func ThisPlatform() Platform {
	p := Platform{OS: "linux", Architecture: runtime.GOARCH}
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

// CheckPlatform returns fault.Invalid for a text that is no os[/arch[/variant]]. Whether images are for it is another question.
func CheckPlatform(text string) error {
	parts := strings.Split(text, "/")
	bad := len(parts) > 3 || len(text) > maxPlatform
	for _, part := range parts {
		bad = bad || !isPlatformWord(part)
	}
	if bad {
		return fault.Invalid("%.128q is no platform: it must be os[/arch[/variant]]", text)
	}
	return nil
}

// isPlatformWord reports whether a text may be a part of a platform.
func isPlatformWord(s string) bool {
	word := strings.ToLower(s)
	return strings.Trim(word, ".-_") != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == ""
}
