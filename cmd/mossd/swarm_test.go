package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestReachPath(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "netns"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	own := "/proc/self/fd/" + strconv.Itoa(int(file.Fd()))
	path := reachPath(own, os.Getpid())
	want, err := os.Stat(own)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.Stat(path); path == own || err != nil || !os.SameFile(got, want) {
		t.Errorf("%s: got %s, which is %v, %v", own, path, got, err)
	}
	if got := reachPath("/run/netns", 1); got != "/run/netns" {
		t.Errorf("got %s", got)
	}
}
