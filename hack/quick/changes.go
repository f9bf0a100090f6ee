package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// change is a file that differs from the base. One that is gone still belongs to its package.
type change struct {
	path string // below the top folder, with slashes
	gone bool
}

// findBase returns the revision at which this branch left the default branch. Without a default branch it is HEAD.
func findBase(ctx context.Context) (string, error) {
	for _, ref := range []string{"origin/HEAD", "origin/main", "main"} {
		if _, err := runGit(ctx, "rev-parse", "--verify", "--quiet", ref+"^{commit}"); err != nil {
			continue
		}
		if base, err := runGit(ctx, "merge-base", "HEAD", ref); err == nil {
			return strings.TrimSpace(base), nil
		}
	}
	head, err := runGit(ctx, "rev-parse", "--verify", "HEAD")
	return strings.TrimSpace(head), err
}

// listChanges returns the files that differ between the base and the working tree, untracked ones included.
func listChanges(ctx context.Context, base string) ([]change, error) {
	tracked, err := runGit(ctx, "diff", "-z", "--name-only", "--no-renames", "--relative", base, "--")
	if err != nil {
		return nil, err
	}
	untracked, err := runGit(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	paths := strings.FieldsFunc(tracked+untracked, func(r rune) bool { return r == 0 })
	slices.Sort(paths)
	var changes []change
	for _, path := range slices.Compact(paths) {
		changes = append(changes, change{path: path, gone: !fileExists(path)})
	}
	return changes, nil
}

func runGit(ctx context.Context, args ...string) (string, error) {
	// The tree may belong to another user than the one who tests it.
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", args[0], err, stderr.String())
	}
	return string(out), nil
}
