package credential

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChangeSeesWhoTakesNoLock lets another program write between the reading and the writing.
func TestChangeSeesWhoTakesNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	write := func(text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	write(`{}`)
	rounds := 0
	err := changeFile(t.Context(), path, func(f *file) error {
		if rounds++; rounds == 1 {
			write(`{"theirs":"kept"}`)
		}
		return f.setEntry("r.io", Credential{Username: "u", Password: "p"})
	})
	raw, _ := os.ReadFile(path)
	if err != nil || rounds != 2 || !strings.Contains(string(raw), `"theirs": "kept"`) || !strings.Contains(string(raw), "r.io") {
		t.Errorf("%d rounds, %v, the file is %s; want both changes after two rounds", rounds, err, raw)
	}
	err = changeFile(t.Context(), path, func(*file) error { write(`{"theirs":"again"}`); return nil })
	if !errors.Is(err, errRaced) {
		t.Errorf("somebody writes all the time: %v, want errRaced", err)
	}
	failed := errors.New("no")
	if err := changeFile(t.Context(), path, func(*file) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("an edit that fails: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v, want the file alone", left, err)
	}
}
