package rootless

import (
	"os"
	"path/filepath"

	"github.com/rootless-containers/rootlesskit/v3/cmd/rootlesskit/unshare"
)

// Role is what this process of mossd is.
type Role int

// The roles, in the order in which a start goes through them.
const (
	RoleOuter  Role = iota // the command the user or systemd started; RootlessKit's parent
	RoleChild              // RootlessKit's child: makes the namespaces, carries the port driver
	RoleEngine             // the engine itself
	RoleHelper             // a helper command (unshare, the single-id map) that has already run
)

// Environment keys by which the processes of one engine find each other. None of them reaches a container.
const (
	pipeKey   = "_MOSS_PIPE"
	stateKey  = "_MOSS_STATE_DIR"
	engineKey = "_MOSS_ENGINE" // set for the supervisor and the engine
	factsKey  = "_MOSS_FACTS"  // what the outer process found out, as JSON

	// RootlessKit wants names for these two and does not use them: its parent sees no sockets of systemd.
	activationKey = "_MOSS_ACTIVATION"
	useSocketsKey = "_MOSS_USE_SOCKETS"
)

// Names of the processes as ps, pgrep and killall show and find them. The outer process alone is "mossd": whoever signals that
// name means the whole engine. The kernel keeps 15 bytes.
const (
	childName  = "mossd-child"
	EngineName = "mossd-engine"
)

// Dispatch tells the role of this process, and gives it the role's name. Helper roles have done their work when it returns
// RoleHelper: main ends then.
func Dispatch() Role {
	switch filepath.Base(os.Args[0]) {
	case "unshare":
		unshare.Main()
		return RoleHelper
	case "getsubids", "newuidmap", "newgidmap":
		if os.Getenv(factsKey) != "" {
			os.Exit(mapHelper(filepath.Base(os.Args[0]), os.Args[1:], os.Stdout, os.Stderr))
		}
	}
	switch {
	case os.Getenv(pipeKey) != "":
		// RootlessKit starts it as /proc/self/exe, and executes it once more by its arguments when it has its capabilities.
		os.Args[0] = childName
		renameProcess(childName)
		return RoleChild
	case os.Getenv(engineKey) != "":
		renameProcess(EngineName) // its first argument is the supervisor's to give
		return RoleEngine
	}
	return RoleOuter
}

// renameProcess gives this process a name. Where that fails it keeps the one of its file, which only people read.
func renameProcess(name string) {
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // the kernel's file is there
}
