package imagesvc

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"

	"moss/engine/fault"
	"moss/engine/image"
)

// parsePlatform reads a platform in a client's words. Nothing at all is this machine, and then own is true. Errors are
// fault.Invalid.
func parsePlatform(text string) (p image.Platform, own bool, err error) {
	if text == "" {
		return image.ThisPlatform(), true, nil
	}
	p, err = image.ParsePlatform(text)
	return p, false, err
}

// parseUsable is parsePlatform for what containers are to be made of: another system than theirs is fault.Invalid too.
func parseUsable(text string) (p image.Platform, own bool, err error) {
	if p, own, err = parsePlatform(text); err == nil {
		err = p.CheckUsable()
	}
	return p, own, err
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
func candidatePlatforms(p image.Platform, own bool) []image.Platform {
	like := func(arch string, variants ...string) (found []image.Platform) {
		for _, v := range variants {
			found = append(found, image.Platform{OS: p.OS, Architecture: arch, Variant: v})
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
			return []image.Platform{p}
		}
		return append(like("arm", order[at:]...), like("arm", "")...)
	case "arm64":
		found := like("arm64", "")
		if p.Variant != "" {
			found = append([]image.Platform{p}, found...)
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
			return []image.Platform{p}
		}
		down := levelNames(2, named)
		slices.Reverse(down)
		return like("amd64", append(down, "")...)
	default:
		if p.Variant != "" {
			return []image.Platform{p, {OS: p.OS, Architecture: p.Architecture}}
		}
		return []image.Platform{p}
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
func chooseEntry(p image.Platform, own bool, entries []descriptor) (chosen descriptor, ok bool) {
	for _, want := range candidatePlatforms(p, own) {
		for _, entry := range entries {
			if entry.Platform != nil && entry.namesManifest() && entry.Platform.NormalForm() == want {
				return entry, true
			}
		}
	}
	return descriptor{}, false
}

// suitsPlatform reports whether an image made for other is one that p asks for. For own see candidatePlatforms.
func suitsPlatform(p image.Platform, own bool, other image.Platform) bool {
	return slices.Contains(candidatePlatforms(p, own), other.NormalForm())
}

// checkPlatform is fault.NotFound for an image, named ref, that is not for the platform in a client's words, in which
// fault.Invalid finds a mistake. No words ask for nothing.
func checkPlatform(ref string, img *image.Image, text string) error {
	want, anyPlatform, err := parsePlatform(text)
	if err != nil || anyPlatform {
		return err
	}
	if has := img.Platform(); !suitsPlatform(want, false, has) {
		return fault.NotFound("image with reference %s was found but does not match the specified platform: wanted %s, actual: %s",
			ref, want, has)
	}
	return nil
}

// noPlatform is the one wording for an index without an image for p (clients show it as it is).
func noPlatform(p image.Platform) error {
	return fault.NotFound("no matching manifest for %s in the manifest list entries", p)
}
