// Package slirptest gives tests a machine of their own: a user namespace of one unprivileged user, with mounts and a host
// network that nobody else sees, and in it a detached network namespace behind a pretended uplink.
package slirptest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// inside marks the test process that Main has started in the namespaces.
const inside = "MOSS_SLIRPTEST_INSIDE"

// nobody is the user of tests that root starts.
const nobody = 65534

// The addresses of the pretended uplink: the containers' side as slirp4netns has it, and what lies beyond.
const (
	UplinkAddr  = "10.0.2.100"
	OutsideAddr = "10.0.2.2"
)

// Main runs the package's tests inside the namespaces, as TestMain. It does not return.
func Main(m *testing.M) {
	if slices.ContainsFunc(os.Args[1:], func(a string) bool {
		return strings.HasPrefix(a, "-test.fuzz") && a != "-test.fuzz=" && !strings.HasPrefix(a, "-test.fuzzcachedir")
	}) {
		os.Exit(m.Run()) // fuzzing writes to folders that nobody may not, and needs none of this
	}
	if os.Getenv(inside) != "" {
		if err := setUpNamespaces(); err != nil {
			fmt.Fprintln(os.Stderr, "slirptest:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	err := runInNamespaces()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slirptest: enter namespaces:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runInNamespaces runs this program again as root of a user namespace with a single id, which is nobody's when root
// starts it.
func runInNamespaces() error {
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = nobody, nobody
	}
	// The outer test process has opened this file and writes it; the inner one may not even reach it.
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return strings.HasPrefix(a, "-test.testlogfile") })
	// The go tool builds in a folder that nobody cannot enter.
	dir, err := os.MkdirTemp("", "slirptest-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	self := filepath.Join(dir, filepath.Base(os.Args[0]))
	if err := errors.Join(os.Chmod(dir, 0o755), copyFile(self, "/proc/self/exe")); err != nil {
		return err
	}
	cmd := exec.Command(self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: gid, Size: 1}},
		Credential:  &syscall.Credential{NoSetGroups: true},
		Pdeathsig:   syscall.SIGKILL,
	}
	runtime.LockOSThread() // Pdeathsig goes by the thread
	return cmd.Run()
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

func setUpNamespaces() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// Detached makes a network namespace bound at dir/netns with a tap0 that leads to the test's own network namespace, the
// host, and returns its path. It also writes dir/resolv.conf. All goes when the test ends.
func Detached(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "netns")
	check(t, os.WriteFile(path, nil, 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("nameserver 10.0.2.3\n"), 0o600))
	check(t, onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	}))
	t.Cleanup(func() { check(t, unix.Unmount(path, unix.MNT_DETACH)) })

	ns, err := netns.GetFromPath(path)
	check(t, err)
	defer func() { _ = ns.Close() }()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "out"+rand.Text()[:8], 65520 // a test may have several
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: "tap0", PeerNamespace: netlink.NsFd(ns)}
	check(t, netlink.LinkAdd(pair))
	t.Cleanup(func() { check(t, netlink.LinkDel(pair)) })
	configureLink(t, &netlink.Handle{}, attrs.Name, OutsideAddr)
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	check(t, err)
	defer h.Close()
	configureLink(t, h, "tap0", UplinkAddr)
	check(t, h.RouteAdd(&netlink.Route{Gw: net.ParseIP(OutsideAddr)}))
	lo, err := h.LinkByName("lo")
	check(t, err)
	check(t, h.LinkSetUp(lo))
	return path
}

func configureLink(t testing.TB, h *netlink.Handle, name, addr string) {
	t.Helper()
	link, err := h.LinkByName(name)
	check(t, err)
	check(t, h.LinkSetUp(link))
	check(t, h.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(addr), Mask: net.CIDRMask(24, 32)}}))
}

// In runs fn inside the network namespace at path and fails the test if it does. Only sockets that fn itself makes, on
// its own goroutine, are inside.
func In(t testing.TB, path string, fn func() error) {
	t.Helper()
	if err := Enter(path, fn); err != nil {
		t.Fatalf("in %s: %v", path, err)
	}
}

// Enter is In outside of a test.
func Enter(path string, fn func() error) error {
	return onThread(func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := errors.Join(unix.Setns(int(f.Fd()), unix.CLONE_NEWNET), f.Close()); err != nil {
			return err
		}
		return fn()
	})
}

// onThread is like the bridge's own, which a test of it must not lean on.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- onThread(fn)
			runtime.UnlockOSThread()
			return
		}
		done <- fn()
	}()
	return <-done
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
