package rootless

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"moss/engine/fault"
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

func TestRefuseRoot(t *testing.T) {
	for _, tc := range []struct {
		uid        int
		sudo, want string
	}{
		{1000, "", ""},
		{1000, "ann", ""},
		{0, "ann", "start it as ann, without sudo"},
		{0, "root", "useradd"},
		{0, "", "su --login"},
	} {
		err := RefuseRoot(tc.uid, func(string) string { return tc.sudo })
		if (err == nil) != (tc.want == "") || err != nil && (!fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("RefuseRoot(%d) with SUDO_USER=%q: %v, want forbidden and %q", tc.uid, tc.sudo, err, tc.want)
		}
	}
}
