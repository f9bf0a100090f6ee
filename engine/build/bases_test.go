package build

import (
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestFits(t *testing.T) {
	arm := &image.Image{OS: "linux", Architecture: "arm", Variant: "v7"}
	for platform, want := range map[string]bool{
		"linux/arm/v7": true, "linux/arm": true, "arm": true, "Linux/ARM/7": true, "linux/armhf": true,
		"linux/arm/v6": false, "linux/amd64": false, "windows/arm": false,
	} {
		p, err := image.ParsePlatform(platform)
		if got := matchesPlatform(arm, p); err != nil || got != want {
			t.Errorf("a match of linux/arm/v7 and %q = %t, %v, want %t", platform, got, err, want)
		}
	}
	arm64 := image.Platform{OS: "linux", Architecture: "arm64"}
	if !matchesPlatform(&image.Image{OS: "linux", Architecture: "arm64", Variant: "v8"}, arm64) {
		t.Error("the usual variant, written out, does not fit")
	}
	if !matchesPlatform(&image.Image{}, arm64) {
		t.Error("an image that says nothing does not fit")
	}
}

func TestAuthFor(t *testing.T) {
	auths := map[string]image.RegistryAuth{
		"https://index.docker.io/v1/": {Username: "hub"}, "reg.example:5000": {Username: "plain"},
		"http://other.example/v2/": {Username: "other"},
	}
	for domain, want := range map[string]string{
		"docker.io": "hub", "reg.example:5000": "plain", "other.example": "other", "reg.example": "", "example": "",
	} {
		if got := authFor(auths, domain).Username; got != want {
			t.Errorf("authFor(%s) = %q, want %q", domain, got, want)
		}
	}
}

func TestPlatformOfTheBase(t *testing.T) {
	r := newRig(t)
	r.images.remote["base:latest"] = &image.Image{ID: hashed("arm"), OS: "linux", Architecture: "arm64", Layers: []string{"l"}}
	got := r.must(request("FROM --platform=linux/arm64 base\nENV A=1\n", nil))
	if img := r.images.byID[got.id]; img.Architecture != "arm64" || len(r.images.pulls) != 1 || r.images.pulls[0].Platform != "linux/arm64" {
		t.Errorf("image for %s after pulls %+v, want arm64 after one for it", img.Architecture, r.images.pulls)
	}
	r.images.remote["base:latest"] = &image.Image{ID: hashed("amd"), OS: "linux", Architecture: "amd64"}
	if got := r.build(t.Context(), request("FROM --platform=linux/riscv64 base\n", nil)); !fault.Is(got.err, fault.Invalid) {
		t.Errorf("a registry that has another platform: %v, want an invalid fault", got.err)
	}
	id := hashed("arm")
	if got := r.build(t.Context(), request("FROM "+id+"\n", nil)); !fault.Is(got.err, fault.Invalid) {
		t.Errorf("an id of another platform: %v, want an invalid fault", got.err)
	}
	r.idle()
}
