package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/damage"
	"moss/engine/oci"
	"moss/rootless"
)

func TestSettings(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("MOSS_LOG_LEVEL", "warn")
	missing := t.TempDir() + "/moss.toml"
	for _, tc := range []struct {
		name string
		args []string
		done bool
		want string // in what is printed, or in the error
	}{
		{"version", []string{"--version"}, true, "mossd " + version},
		{"help names every setting", []string{"--help"}, true, "--network-driver"},
		{"help names the variable", []string{"--help"}, true, "driver of the containers' uplink (MOSS_NETWORK_DRIVER)\n"},
		{"help of a switch", []string{"--help"}, true, "--host-loopback   "},
		{"help of a list", []string{"--help"}, true, "--label value...  "},
		{"help of a path", []string{"--help"}, true, "--root path  "},
		{"help of a number", []string{"--help"}, true, "--mtu number  "},
		{"unknown flag", []string{"--bogus"}, false, "bogus"},
		{"argument", []string{"run"}, false, `unexpected argument "run"`},
		{"bad value", []string{"--log-level", "loud"}, false, "loud"},
		{"missing file", []string{"--config", missing}, false, missing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			_, done, err := readSettings(tc.args, &out)
			said := out.String()
			if err != nil {
				said += err.Error()
			}
			if done != tc.done || (err != nil) == tc.done || !strings.Contains(said, tc.want) {
				t.Errorf("settings(%q): done %v, said %q, error %v; want done %v and %q", tc.args, done, said, err, tc.done, tc.want)
			}
		})
	}
	args := []string{"--host", "unix:///a", "--host", "unix:///b", "--root", "/data", "--host-loopback"}
	cfg, _, err := readSettings(args, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cfg.Hosts, []string{"unix:///a", "unix:///b"}) || cfg.Root != "/data" || !cfg.HostLoopback || cfg.LogLevel != "warn" {
		t.Errorf("settings = %+v, want both hosts, the flags' root and the environment's level", cfg)
	}
}

func TestFindRuntime(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	facts := rootless.Facts{RunDir: t.TempDir()}
	if _, err := findRuntime("", facts); err == nil || !strings.Contains(err.Error(), "crun") {
		t.Errorf("without a runtime: %v, want advice to install crun", err)
	}
	for _, name := range []string{"runc", "crun"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		rt, err := findRuntime("", facts)
		if err != nil || rt.name != name {
			t.Errorf("found %q, %v, want %s, the better of those installed", rt.name, err, name)
		}
	}
	if rt, err := findRuntime("runc", facts); err != nil || rt.name != "runc" {
		t.Errorf("asked for runc: %q, %v", rt.name, err)
	}
}

func TestRuntimeVersionShown(t *testing.T) {
	rt := ociRuntime{name: "runc"}
	text, warnings := asked{version: oci.Version{Name: "runc", Number: "1.1.5"}}.describeVersion(rt)
	if text != "1.1.5" || len(warnings) == 0 || !strings.Contains(warnings[0], "CVE-2025-31133") {
		t.Errorf("shown = %q, %q, want the version and its holes", text, warnings)
	}
	if text, warnings = (asked{err: os.ErrPermission}).describeVersion(rt); text != "unknown" || len(warnings) != 1 {
		t.Errorf("shown after an error = %q, %q", text, warnings)
	}
}

func TestIdentifyKeepsTheID(t *testing.T) {
	root := t.TempDir()
	first, err := ensureIdentity(root, damage.New(root, nil))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ensureIdentity(root, damage.New(root, nil)); err != nil || again != first {
		t.Errorf("second identify = %q, %v, want %q", again, err, first)
	}
	if err := os.WriteFile(filepath.Join(root, "engine.json"), []byte(`{"ID":"x","Format":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ensureIdentity(root, damage.New(root, nil)); err == nil || !strings.Contains(err.Error(), "newer moss") {
		t.Errorf("identify of a newer format: %v, want a refusal", err)
	}
}

func TestIdentifyDamaged(t *testing.T) {
	for _, text := range []string{"", "{}", `{"ID":"half`, "garbage", `[]`, `{"ID":"../x","Format":1}`} {
		root := t.TempDir()
		account := damage.New(root, nil)
		path := filepath.Join(root, "engine.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		made, err := ensureIdentity(root, account)
		if err != nil || made == "" {
			t.Errorf("identify with %q: %q, %v; want another id", text, made, err)
		}
		if again, err := ensureIdentity(root, account); err != nil || again != made {
			t.Errorf("second identify = %q, %v; want %q", again, err, made)
		}
		if lines := damageShown(account); len(lines) != 1 || !strings.HasPrefix(lines[0], "damaged: engine.json: ") {
			t.Errorf("shown: %q", lines)
		}
	}
}

func TestHostDevicesOfSubfolders(t *testing.T) {
	devices := hostDevices("/dev")
	for _, name := range []string{"/dev/null", "/dev/net/tun"} {
		want := unix.Access(name, unix.R_OK|unix.W_OK) == nil
		if got := slices.Contains(devices, name); got != want {
			t.Errorf("hostDevices has %s: %t, want %t", name, got, want)
		}
	}
	for _, name := range devices {
		if strings.HasPrefix(name, "/dev/pts/") {
			t.Errorf("hostDevices has %s, which is of a mount", name)
		}
	}
}
