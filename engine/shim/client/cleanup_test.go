package client_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"moss/engine/shim/client"
)

// TestCleanupWhoseOutputIsHeld: what counts is how the cleanup after a killed shim ends, not who else has its output.
func TestCleanupWhoseOutputIsHeld(t *testing.T) {
	spec := newSpec(t, sh("while :; do sleep 1; done"))
	held, program := filepath.Join(spec.Dir, "held"), filepath.Join(spec.Dir, "moss-shim")
	script := fmt.Sprintf("#!/bin/sh\ncat %s &\nexec %s/bin/moss-shim \"$@\"\n", held, os.Getenv(envLab))
	if err := errors.Join(syscall.Mkfifo(held, 0o600), os.WriteFile(program, []byte(script), 0o700)); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	hold, err := os.OpenFile(held, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hold.Close() }) // ends cat
	pid := start(t, prepare(t, newRunner(t), spec))
	if err := syscall.Kill(shimOf(t, pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r, err := client.New(client.Options{Path: program})
	if err != nil {
		t.Fatal(err)
	}
	tk, err := r.Adopt(t.Context(), spec.ID, spec.Dir)
	if err != nil {
		t.Fatalf("Adopt = %v", err)
	}
	wait(t, tk, 137)
}
