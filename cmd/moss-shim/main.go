// Command moss-shim stands beside one container: it runs it, holds its streams and records its end, whatever happens to
// the engine. The same binary supervises the engine itself, because it is small and changes rarely.
//
//	moss-shim run DIR                          one task; descriptor 3 is the engine's control socket
//	moss-shim cleanup DIR                      what a killed shim has left undone
//	moss-shim supervise [--as NAME] -- CMD…    runs CMD, whose argv[0] is NAME, and starts it again when it crashes
//	init -- CMD…                               under this name, as a copy in a container: its first process
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"moss/engine/shim/monitor"
)

// controlFD is where the engine's control socket is inherited.
const controlFD = 3

func main() {
	if isInit(os.Args) {
		code, err := runInit(os.Args[2:])
		if err != nil {
			fmt.Fprintf(os.Stderr, "init: %v\n", err)
		}
		os.Exit(code)
	}
	unix.Umask(0o077) // the supervisor's; those beside containers have another
	code, err := dispatchCommand(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "moss-shim: %v\n", err)
	}
	os.Exit(code)
}

// runtimeUmask is for the points of mounts that a runtime makes in a container. The shim's own files have their modes
// explicitly.
const runtimeUmask = 0o022

func dispatchCommand(ctx context.Context, args []string) (int, error) {
	switch {
	case len(args) == 2 && args[0] == "run":
		unix.Umask(runtimeUmask)
		return exitStatus(runShim(ctx, args[1]))
	case len(args) == 2 && args[0] == "cleanup":
		unix.Umask(runtimeUmask)
		return exitStatus(monitor.Cleanup(ctx, args[1]))
	case len(args) >= 3 && args[0] == "supervise" && args[1] == "--":
		return superviseCommand(args[2], args[2:])
	case len(args) >= 5 && args[0] == "supervise" && args[1] == "--as" && args[3] == "--":
		return superviseCommand(args[4], append([]string{args[2]}, args[5:]...))
	default:
		return 2, errors.New("usage: moss-shim run DIR | cleanup DIR | supervise [--as NAME] -- CMD [ARG...]")
	}
}

func exitStatus(err error) (int, error) {
	if err != nil {
		return 1, err
	}
	return 0, nil
}

func runShim(ctx context.Context, dir string) error {
	unix.CloseOnExec(controlFD)
	if err := closeInherited(); err != nil {
		return fmt.Errorf("close inherited descriptors: %w", err)
	}
	if err := unix.SetNonblock(controlFD, true); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	return monitor.Run(ctx, dir, os.NewFile(controlFD, "control"))
}

// closeInherited closes every descriptor beyond the standard ones that came through exec: they lack the close-on-exec
// flag, which all of this process's own carry.
func closeInherited() error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range fds {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd < controlFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}
