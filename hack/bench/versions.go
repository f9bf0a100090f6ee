package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// listVersions names the machine and what is measured on it. What cannot be told is left out.
func listVersions(ctx context.Context, opt options) []string {
	var all []string
	for _, line := range [][]string{
		{filepath.Join(opt.bin, "mossd"), "--version"},
		{"podman", "--version"},
		{"crun", "--version"},
		{"findmnt", "--noheadings", "--output", "FSTYPE", "--target", opt.state},
	} {
		out, _ := exec.CommandContext(ctx, line[0], line[1:]...).Output() // only shown
		if first, _, _ := strings.Cut(string(out), "\n"); first != "" {
			all = append(all, strings.TrimSpace(first))
		}
	}
	return append(all, readField("/etc/os-release", "PRETTY_NAME"), readField("/proc/cpuinfo", "model name"), readField("/proc/meminfo", "MemTotal"))
}

// readField returns what stands behind a name in a file of names and values.
func readField(path, name string) string {
	raw, _ := os.ReadFile(path) // only shown
	for line := range strings.Lines(string(raw)) {
		if rest, found := strings.CutPrefix(line, name); found {
			return strings.Trim(rest, " \t\n:=\"")
		}
	}
	return "unknown " + name
}
