package lifecycle

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A file that does not hold the filter that was kept is never used: half of one, or another one, might let calls pass.
func TestDamagedFilter(t *testing.T) {
	dir, made := t.TempDir(), filepath.Join(t.TempDir(), "seccomp.bpf")
	filter, other := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 64), bytes.Repeat([]byte{8}, 512)
	open := func() *SeccompCache {
		s, err := NewSeccompCache(dir, "crun 1.8")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	keep := func(key string, bpf []byte) {
		if err := os.WriteFile(made, bpf, 0o600); err != nil {
			t.Fatal(err)
		}
		open().Keep(key, made)
	}
	keep("mine", filter)
	keep("other", other)
	path := open().path("mine")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	others, err := os.ReadFile(open().path("other"))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := open().Get("mine"); !ok || !bytes.Equal(got, filter) {
		t.Fatalf("Get = %v, %v; want the filter", got, ok)
	}
	for name, raw := range map[string][]byte{
		"empty": nil, "half": whole[:len(whole)/2], "shorter": whole[:len(whole)-8], "without a sum": filter, "another's": others,
		"garbage": bytes.Repeat([]byte("garbage "), 8),
	} {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := open().Get("mine"); ok {
			t.Errorf("%s: Get = %d bytes, want nothing", name, len(got))
		}
		keep("mine", filter)
		if got, ok := open().Get("mine"); !ok || !bytes.Equal(got, filter) {
			t.Errorf("%s: kept again: %v", name, ok)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	keep("mine", filter)
	if _, ok := open().Get("mine"); !ok {
		t.Error("a folder in the place of the file keeps it out")
	}
}
