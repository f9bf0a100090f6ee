package image_test

import (
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestCheckPlatform(t *testing.T) {
	for _, text := range []string{"linux", "linux/amd64", "Linux/ARM/v7", "arm64", "linux/x86_64"} {
		if err := image.CheckPlatform(text); err != nil {
			t.Errorf("CheckPlatform(%q) = %v, want none", text, err)
		}
	}
	for _, text := range []string{
		"", " ", "/", "/amd64", "linux/", "linux//v7", "linux/arm/v7/x", "../x", "linux/..", "a b", "{}", `{"os":"linux"}`, "linux\x00", "l\u00efnux",
		strings.Repeat("a", 129),
	} {
		if err := image.CheckPlatform(text); !fault.Is(err, fault.Invalid) || len(err.Error()) > 1000 {
			t.Errorf("CheckPlatform(%q) = %v, want an invalid fault", text, err)
		}
	}
}
