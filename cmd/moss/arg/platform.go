package arg

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"moss/api/client"
)

// Platforms reads --platform values: os[/arch[/variant]], or an architecture of Linux alone. An empty one asks for none.
func Platforms(texts ...string) ([]client.Platform, error) {
	var all []client.Platform
	for _, text := range texts {
		if text == "" {
			continue
		}
		parts := strings.Split(strings.ToLower(text), "/")
		if len(parts) > 3 || slices.ContainsFunc(parts, isNoPlatform) {
			return nil, fmt.Errorf("platform %q: want OS[/ARCH[/VARIANT]], such as linux/arm64", text)
		}
		platform := client.Platform{OS: parts[0]}
		switch len(parts) {
		case 1:
			platform.Architecture = runtime.GOARCH
			if parts[0] != "linux" && parts[0] != "windows" {
				platform.OS, platform.Architecture = "linux", parts[0]
			}
		case 2:
			platform.Architecture = parts[1]
		default:
			platform.Architecture, platform.Variant = parts[1], parts[2]
		}
		all = append(all, platform)
	}
	return all, nil
}

// isNoPlatform reports whether a part of a platform is empty or has other signs than names have.
func isNoPlatform(part string) bool {
	return part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789_.-") != ""
}
