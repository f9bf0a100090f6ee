package arg_test

import (
	"runtime"
	"slices"
	"testing"

	"moss/api/client"
	"moss/cmd/moss/arg"
)

func TestPlatforms(t *testing.T) {
	for text, want := range map[string]client.Platform{
		"linux":          {OS: "linux", Architecture: runtime.GOARCH},
		"arm64":          {OS: "linux", Architecture: "arm64"},
		"Linux/AMD64":    {OS: "linux", Architecture: "amd64"},
		"linux/arm64/v8": {OS: "linux", Architecture: "arm64", Variant: "v8"},
	} {
		if got, err := arg.Platforms("", text); err != nil || !slices.Equal(got, []client.Platform{want}) {
			t.Errorf("Platforms(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"/", "linux/", "a/b/c/d", "linux/a b"} {
		if got, err := arg.Platforms("linux", text); err == nil {
			t.Errorf("Platforms(%q) = %v, want an error", text, got)
		}
	}
}
