package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClearData: what engines keep goes, what others have put there stays, and another folder stays whole.
func TestClearData(t *testing.T) {
	for _, tc := range []struct {
		name, files, left string
		refused           bool
	}{
		{"a data folder", "engine.json containers/a/record.json storage/overlay/x/diff/y volumes/v/_data/f damaged/x build/used.json lock", "lock", false},
		{"with a file of others", "engine.json events/1 mine others/x lock", "lock mine others", false},
		{"new", "lock", "lock", false},
		{"of somebody else", "build/x cache/y lock", "build cache lock", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			fillFolder(t, root, tc.files)
			err := clearData(root)
			if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), "nothing is removed") {
				t.Errorf("clearData = %v, want a refusal: %t", err, tc.refused)
			}
			if got := listFolder(t, root); got != tc.left {
				t.Errorf("left of %s: %s, want %s", tc.files, got, tc.left)
			}
		})
	}
}

// TestClearSwarm: the folder of swarm-dir loses what a node keeps in it; one without a node's record stays whole.
func TestClearSwarm(t *testing.T) {
	for _, tc := range []struct{ name, files, left string }{
		{"a node's folder", "member.json state/raft/wal/1 state/certificates/swarm-node.crt tunnel.key networks.json", ""},
		{"with a file of others", "member.json state/docker-state.json mine", "mine"},
		{"of somebody else", "state/mine", "state"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "swarm")
			fillFolder(t, dir, tc.files)
			if err := clearSwarm(dir); err != nil {
				t.Fatal(err)
			}
			if got := listFolder(t, dir); got != tc.left {
				t.Errorf("left of %s: %s, want %s", tc.files, got, tc.left)
			}
			if _, err := os.Lstat(dir); os.IsNotExist(err) != (tc.left == "") {
				t.Errorf("the folder itself: %v, want it gone: %t", err, tc.left == "")
			}
		})
	}
	if err := clearSwarm(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("clearSwarm of no folder = %v", err)
	}
}

// fillFolder makes empty files, given by spaces.
func fillFolder(t *testing.T, dir, files string) {
	t.Helper()
	for file := range strings.FieldsSeq(files) {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// listFolder returns the names in a folder by spaces; none if there is no folder.
func listFolder(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

func TestResetSettings(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	asked, done, err := readSettings([]string{"--reset", "--network-driver", "pasta"}, nil)
	if err != nil || done || !asked.reset || asked.NetworkDriver != "none" {
		t.Errorf("settings with --reset = %+v, %t, %v, want no uplink", asked, done, err)
	}
}
