package main

import (
	"context"
	"os"
	"strconv"

	"moss/hack/reaper"
)

// runReaped runs this program again and becomes the parent of what its engines leave: podman takes a monitor that has ended
// for alive until it is reaped, which not every container's or machine's init does at once. What is left when the
// measuring is over (podman's pause process) is ended.
func runReaped(ctx context.Context) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	if fd, err := strconv.Atoi(os.Getenv(envOut)); err == nil {
		files = append(files, os.NewFile(uintptr(fd), envOut))
	}
	return reaper.Run(ctx, append([]string{self}, os.Args[1:]...), []string{envReaped + "=1"}, files)
}
