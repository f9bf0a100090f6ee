package rootless

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestCheckHostNamesAMissingProgram(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	for _, program := range []string{"unshare", "mount"} {
		if err := checkHost(zerolog.Nop()); err == nil || !strings.Contains(err.Error(), program+" is not installed") {
			t.Errorf("without %s: %v, want its name", program, err)
		}
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	if err := checkHost(zerolog.Nop()); err != nil {
		t.Errorf("with all programs: %v", err)
	}
}

func TestTooOld(t *testing.T) {
	for release, want := range map[string]bool{
		"4.18.0-553.el8_10.x86_64": true, "5.10.0-28-amd64": true, "5.12": true, "5.13.0": false, "5.14.0-427.el9": false,
		"6.1.0": false, "10.0-rc1": false, "": false, "unknown": false,
	} {
		if got := tooOld(release); got != want {
			t.Errorf("tooOld(%q) = %t, want %t", release, got, want)
		}
	}
}
