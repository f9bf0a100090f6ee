// Package storagetest runs the tests of packages that need a real store where a store can work: as an ordinary user in a
// user namespace. It knows nothing of the tests.
package storagetest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.podman.io/storage/pkg/reexec"
	"golang.org/x/sys/unix"
)

const (
	stageVar = "MOSS_TEST_STAGE"
	testID   = 39001 // an id that no account has
)

// Main is the body of TestMain. It runs the tests as an ordinary user inside a user namespace with that one id, as the
// engine does for users without sub-ids; root becomes such a user first. It does not return.
func Main(m *testing.M) {
	if reexec.Init() {
		os.Exit(0)
	}
	flag.Parse()
	switch {
	case os.Getenv(stageVar) == "namespace":
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "make mounts private:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	case isFuzzRun():
		os.Exit(m.Run())
	case os.Getuid() == 0:
		os.Exit(rerunAs("user", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testID, Gid: testID}}))
	default:
		os.Exit(rerunAs("namespace", &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}))
	}
}

// isFuzzRun reports whether this is a fuzz run: its workers could not be started from inside.
func isFuzzRun() bool {
	for _, name := range []string{"test.fuzz", "test.fuzzworker"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" && f.Value.String() != "false" {
			return true
		}
	}
	return false
}

func rerunAs(stage string, attr *syscall.SysProcAttr) int {
	// The log of opened files, for the cache of test results, lies in a folder of the first user's own.
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool {
		return strings.HasPrefix(arg, "-test.testlogfile=")
	})
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), stageVar+"="+stage, "HOME=/dev/null")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = attr
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "run the tests as", stage+":", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}
