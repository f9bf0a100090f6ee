package slirp

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rootless-containers/rootlesskit/v3/pkg/child"
	"github.com/rootless-containers/rootlesskit/v3/pkg/parent"
	"golang.org/x/sys/unix"

	"moss/slirp/slirptest"
	"moss/slirp/uplink"
)

// The environment by which this program knows its part when RootlessKit starts it again.
const (
	envDriver = "MOSS_TEST_DRIVER" // set in all parts of an outer process
	envDir    = "MOSS_TEST_DIR"
	envPipe   = "MOSS_TEST_PIPE"
	envState  = "MOSS_TEST_STATE"
	envAct    = "MOSS_TEST_ACTIVATION"
	envHelper = "MOSS_TEST_ACTIVATION_HELPER"
	envEngine = "MOSS_TEST_ENGINE"
	envServer = "MOSS_TEST_SERVER"
)

func TestMain(m *testing.M) {
	act := map[string]func() error{
		"unshare": actUnshare, "getsubids": actGetsubids, "newuidmap": actIDMap, "newgidmap": actIDMap,
	}[filepath.Base(os.Args[0])]
	switch {
	case act != nil:
	case os.Getenv(envDriver) == "":
		slirptest.Main(m)
	case os.Getenv(envPipe) != "":
		act = actChild
	case os.Getenv(envEngine) != "":
		act = actEngine
	default:
		act = actParent
	}
	if err := act(); err != nil {
		fmt.Fprintln(os.Stderr, os.Args[0], err)
		os.Exit(1)
	}
	os.Exit(0)
}

// actUnshare is RootlessKit's "unshare -n mount --bind /proc/self/ns/net FILE".
func actUnshare() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	return unix.Mount("/proc/thread-self/ns/net", os.Args[len(os.Args)-1], "", unix.MS_BIND, "")
}

func actGetsubids() error {
	_, err := os.Stdout.WriteString("0: root 100000 65536\n")
	return err
}

// actIDMap maps the one id that a user may map by himself.
func actIDMap() error {
	pid, file := os.Args[1], "uid_map"
	if filepath.Base(os.Args[0]) == "newgidmap" {
		file = "gid_map"
		if err := os.WriteFile(filepath.Join("/proc", pid, "setgroups"), []byte("deny"), 0); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join("/proc", pid, file), []byte("0 0 1"), 0)
}

func uplinkConfig() uplink.Config {
	return uplink.Config{Driver: os.Getenv(envDriver), StateDir: filepath.Join(os.Getenv(envDir), "rootlesskit")}
}

func actParent() error {
	cfg := uplinkConfig()
	if err := parent.InitStateDir(cfg.StateDir); err != nil {
		return err
	}
	nd, pd, err := uplink.Parent(cfg, os.Stderr)
	if err != nil {
		return err
	}
	return parent.Parent(parent.Opt{
		PipeFDEnvKey: envPipe, ChildUseActivationEnvKey: envAct, StateDir: cfg.StateDir, StateDirEnvKey: envState,
		NetworkDriver: nd, PortDriver: pd, DetachNetNS: true, Propagation: "rprivate",
	})
}

func actChild() error {
	nd, pd, err := uplink.Child(uplinkConfig(), os.Stderr)
	if err != nil {
		return err
	}
	if err := os.Setenv(envEngine, "1"); err != nil {
		return err
	}
	return child.Child(child.Opt{
		PipeFDEnvKey: envPipe, RunActivationHelperEnvKey: envHelper, ChildUseActivationEnvKey: envAct, StateDirEnvKey: envState,
		TargetCmd: []string{"/proc/self/exe"}, NetworkDriver: nd, PortDriver: pd, DetachNetNS: true, Propagation: "rprivate",
	})
}

// outerEnv makes the environment of an outer process, with a PATH on which the tools that need rights are this program.
func outerEnv(t *testing.T, driver, dir, server string) []string {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"getsubids", "newuidmap", "newgidmap"} {
		if err := os.Symlink("/proc/self/exe", filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{
		"PATH=" + bin + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "TMPDIR=/tmp", "GORACE=atexit_sleep_ms=0",
		envDriver + "=" + driver, envDir + "=" + dir, envServer + "=" + server,
	}
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "GOCOVERDIR=") {
			env = append(env, e)
		}
	}
	return env
}

// readFrom connects and reads until the other side closes.
func readFrom(addr string) (string, error) {
	conn, err := net.DialTimeout("tcp4", addr, time.Minute)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	data, err := io.ReadAll(conn)
	return string(data), err
}

// tellPeers accepts connections and tells each who it is, until the listener is closed.
func tellPeers(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		_, _ = io.WriteString(conn, host)
		_ = conn.Close()
	}
}
