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
			for file := range strings.FieldsSeq(tc.files) {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := clearData(root)
			if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), "nothing is removed") {
				t.Errorf("clearData = %v, want a refusal: %t", err, tc.refused)
			}
			entries, err := os.ReadDir(root)
			if err != nil {
				t.Fatal(err)
			}
			left := make([]string, 0, len(entries))
			for _, entry := range entries {
				left = append(left, entry.Name())
			}
			if got := strings.Join(left, " "); got != tc.left {
				t.Errorf("left of %s: %s, want %s", tc.files, got, tc.left)
			}
		})
	}
}

func TestResetSettings(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	asked, done, err := readSettings([]string{"--reset", "--network-driver", "pasta"}, nil)
	if err != nil || done || !asked.reset || asked.NetworkDriver != "none" {
		t.Errorf("settings with --reset = %+v, %t, %v, want no uplink", asked, done, err)
	}
}
