package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPodmanRunRootFits(t *testing.T) {
	dir := filepath.Join("/tmp", "moss-bench-1234567890", "podman-memory10")
	root, err := podmanRunRoot(dir)
	if err != nil || len(root) > runRootLimit {
		t.Errorf("podmanRunRoot(%s) = %s, %v; want at most %d characters", dir, root, err, runRootLimit)
	}
	if root, err := podmanRunRoot(filepath.Join("/tmp", strings.Repeat("x", runRootLimit))); err == nil {
		t.Errorf("podmanRunRoot of a long folder = %s, want an error", root)
	}
	t.Chdir(t.TempDir()) // a path that is short wherever temporary files are
	p, err := newPodmanEngine("podman", "").prepare("p")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{p.serve, p.cli} {
		if !slices.Contains(line, "--runroot") {
			t.Errorf("podman is started by %q, want --runroot in it", line)
		}
	}
}
