package image

import (
	"runtime"
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestCheckPlatform(t *testing.T) {
	for _, text := range []string{"linux", "linux/amd64", "Linux/ARM/v7", "arm64", "linux/x86_64"} {
		if err := CheckPlatform(text); err != nil {
			t.Errorf("CheckPlatform(%q) = %v, want none", text, err)
		}
	}
	for _, text := range []string{
		"", " ", "/", "/amd64", "linux/", "linux//v7", "linux/arm/v7/x", "../x", "linux/..", "a b", "{}", `{"os":"linux"}`, "linux\x00", "l\u00efnux",
		strings.Repeat("a", 129),
	} {
		if err := CheckPlatform(text); !fault.Is(err, fault.Invalid) || len(err.Error()) > 1000 {
			t.Errorf("CheckPlatform(%q) = %v, want an invalid fault", text, err)
		}
	}
}

func TestParsePlatform(t *testing.T) {
	for in, want := range map[string]string{
		"linux/amd64": "linux/amd64", "linux/amd64/v1": "linux/amd64", "linux/AMD64/v3": "linux/amd64/v3", "LINUX/x86_64": "linux/amd64",
		"linux/aarch64": "linux/arm64", "linux/arm64/v8": "linux/arm64", "linux/arm/7": "linux/arm/v7", "linux/armhf": "linux/arm/v7",
		"arm64": "linux/arm64", "x86_64": "linux/amd64", "windows/amd64": "windows/amd64",
	} {
		if p, err := ParsePlatform(in); err != nil || p.String() != want {
			t.Errorf("ParsePlatform(%q) = %v, %v, want %s", in, p, err, want)
		}
	}
	for _, in := range []string{"linux", "Windows", "foo"} {
		if p, err := ParsePlatform(in); err != nil || p.OS != strings.ToLower(in) || p.Architecture != runtime.GOARCH {
			t.Errorf("ParsePlatform(%q) = %v, %v, want that system on this machine", in, p, err)
		}
	}
	for _, in := range []string{"", "/", "linux/", "linux//v7", "a/b/c/d", "linux/amd64 ", strings.Repeat("a", 200)} {
		if p, err := ParsePlatform(in); !fault.Is(err, fault.Invalid) {
			t.Errorf("ParsePlatform(%q) = %v, %v, want an invalid fault", in, p, err)
		}
	}
}

func TestPlatformCheckUsable(t *testing.T) {
	if err := ThisPlatform().CheckUsable(); err != nil {
		t.Errorf("this machine: %v", err)
	}
	if err := (Platform{OS: "windows", Architecture: "amd64"}).CheckUsable(); !fault.Is(err, fault.Invalid) {
		t.Errorf("windows: %v, want an invalid fault", err)
	}
}

func TestArmVariant(t *testing.T) {
	for in, want := range map[string]string{"aarch64": "v8", "armv8l": "v8", "armv7l": "v7", "armv6l": "v6", "armv5tel": "v5", "": "v7"} {
		if got := armVariant(in); got != want {
			t.Errorf("armVariant(%q) = %s, want %s", in, got, want)
		}
	}
}
