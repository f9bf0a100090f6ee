package slirp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/engine/network"
	"moss/slirp/bridge"
	"moss/slirp/slirptest"
	"moss/slirp/uplink"
)

// lanAddr is the address of the machine in the tests with a real outer process.
const lanAddr = "192.0.2.1"

// serveLAN gives the host an address that is not loopback and a server there.
func serveLAN(t *testing.T) (addr string) {
	t.Helper()
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan"}}
	must(t, netlink.LinkAdd(link))
	t.Cleanup(func() { must(t, netlink.LinkDel(link)) })
	must(t, netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(lanAddr), Mask: net.CIDRMask(24, 32)}}))
	must(t, netlink.LinkSetUp(link))
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP("192.0.2.254")})) // pasta wants one
	l, err := net.Listen("tcp4", lanAddr+":0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go tellPeers(l)
	return l.Addr().String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWithOuterProcess runs a real RootlessKit with each uplink; the checks are actEngine's.
func TestWithOuterProcess(t *testing.T) {
	server := serveLAN(t)
	for _, driver := range []string{uplink.Slirp4netns, uplink.Pasta, uplink.Gvisor, uplink.None} {
		t.Run(driver, func(t *testing.T) {
			dir := t.TempDir()
			out, err := outerCommand(t, driver, dir, server).CombinedOutput()
			if err != nil {
				t.Fatalf("outer process: %v\n%s", err, out)
			}
			t.Logf("%s", out)
			if left := processesNaming(t, dir); len(left) != 0 {
				t.Errorf("still running: %v", left)
			}
		})
	}
}

// TestPastaOfAKilledOuterIsEnded: nothing tells pasta that its outer process is gone.
func TestPastaOfAKilledOuterIsEnded(t *testing.T) {
	serveLAN(t)
	dir := t.TempDir()
	cmd := outerCommand(t, uplink.Pasta, dir, "") // no server: the engine waits
	must(t, cmd.Start())
	ready := filepath.Join(dir, "ready")
	for range 12000 { // a build with -race takes seconds to get there
		if _, err := os.Stat(ready); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	left := processesNaming(t, dir)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if len(left) != 1 || !strings.Contains(left[0], "pasta") {
		t.Fatalf("running before the kill: %v, want one pasta", left)
	}
	must(t, os.MkdirAll(filepath.Join(dir, "rootlesskit"), 0o700))
	if _, _, err := uplink.Parent(uplink.Config{Driver: uplink.Pasta, StateDir: filepath.Join(dir, "rootlesskit")}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	if left := processesNaming(t, dir); len(left) != 0 {
		t.Errorf("still running: %v", left)
	}
}

func outerCommand(t *testing.T, driver, dir, server string) *exec.Cmd {
	t.Helper()
	runtime.LockOSThread() // what RootlessKit starts dies with the thread that started it
	t.Cleanup(runtime.UnlockOSThread)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = outerEnv(t, driver, dir, server)
	cmd.WaitDelay = time.Minute
	return cmd
}

// processesNaming lists the command lines that name the directory.
func processesNaming(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	var found []string
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(dir)) {
			found = append(found, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return found
}

// actEngine is the engine's part inside a real outer process: two containers, the outside, a published port.
func actEngine() error {
	ctx := context.Background()
	dir, driver, server := os.Getenv(envDir), os.Getenv(envDriver), os.Getenv(envServer)
	if server == "" {
		if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600); err != nil {
			return err
		}
		_, err := unix.Poll(nil, 60_000)
		return err
	}
	n, err := New(ctx, Options{StateDir: os.Getenv(envState), RunDir: filepath.Join(dir, "run"), Driver: driver})
	if err != nil {
		return err
	}
	standard, err := n.Adopt(ctx, []*network.Network{{ID: bridge.NewID(), Name: network.Bridge, Driver: network.DriverBridge}})
	if err != nil {
		return err
	}
	attach := []network.Attachment{{Network: standard[0], Name: network.Bridge}}
	if err := n.Restore(ctx, nil); err != nil {
		return err
	}
	begin := time.Now()
	web, err := n.Join(ctx, network.Request{ContainerID: "web", Mode: network.Bridge, Attach: attach, Ports: []network.PortRequest{{Proto: "tcp", ContainerPort: 80}}})
	if err != nil {
		return err
	}
	first := time.Since(begin)
	begin = time.Now()
	if _, err := n.Join(ctx, network.Request{ContainerID: "other", Mode: network.Bridge, Attach: attach}); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s: first join with a port %s, second %s, dns %v, port %d\n", driver, first, time.Since(begin), web.DNS, web.Ports[0].HostPort)
	if err := errors.Join(checkOutside(driver, web, server), checkPublished(web)); err != nil {
		return err
	}
	if err := n.Leave(ctx, "web"); err != nil {
		return err
	}
	if err := checkThreads(n, attach); err != nil {
		return err
	}
	return n.Close(ctx)
}

// checkThreads: in here, other than in the tests without an outer process, a thread that has left the host's network
// namespace can never come back.
func checkThreads(n *Network, attach []network.Attachment) error {
	errs := make(chan error)
	for i := range 20 {
		go func() {
			_, err := n.Join(context.Background(), network.Request{ContainerID: fmt.Sprint("c", i), Mode: network.Bridge, Attach: attach})
			errs <- err
		}()
	}
	for range 20 {
		if err := <-errs; err != nil {
			return err
		}
	}
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	for range 6000 { // spares and dying threads
		time.Sleep(10 * time.Millisecond)
		var links []string
		if links, err = filepath.Glob("/proc/self/task/*/ns/net"); err != nil {
			return err
		}
		err = nil
		for _, link := range links {
			if at, rerr := os.Readlink(link); rerr == nil && at != home {
				err = fmt.Errorf("%s is in %s, the engine in %s", link, at, home)
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

func checkOutside(driver string, web network.Sandbox, server string) error {
	if got, want := fmt.Sprint(web.DNS), "["+web.Endpoints[network.Bridge].Gateway+"]"; got != want {
		return fmt.Errorf("name servers %s, want %s", got, want)
	}
	var peer string
	err := slirptest.Enter(web.Path, func() (err error) {
		peer, err = readFrom(server)
		return err
	})
	if driver == uplink.None {
		if err == nil {
			return errors.New("a container reached the outside without an uplink")
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("container to %s: %w", server, err)
	}
	_, _ = fmt.Fprintf(os.Stdout, "the outside sees %s\n", peer)
	// What listens on the host's loopback only is out of reach.
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	go tellPeers(l)
	gateway := "10.0.2.2"
	if driver == uplink.Gvisor {
		gateway = "10.0.2.1"
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := slirptest.Enter(web.Path, func() error {
		conn, err := net.DialTimeout("tcp4", net.JoinHostPort(gateway, port), 2*time.Second) // pasta answers nothing
		if err != nil {
			return nil //nolint:nilerr // the point
		}
		_ = conn.Close()
		return errors.New("a container reached the host's loopback")
	}); err != nil {
		return err
	}
	return nil
}

func checkPublished(web network.Sandbox) error {
	var l net.Listener
	if err := slirptest.Enter(web.Path, func() (err error) {
		l, err = net.Listen("tcp4", "0.0.0.0:80")
		return err
	}); err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	go tellPeers(l)
	port := strconv.Itoa(int(web.Ports[0].HostPort))
	for _, at := range []string{"127.0.0.1", lanAddr, lanAddr} {
		begin := time.Now()
		peer, err := readFrom(net.JoinHostPort(at, port))
		if err != nil {
			return fmt.Errorf("published port at %s: %w", at, err)
		}
		_, _ = fmt.Fprintf(os.Stdout, "published port at %s: seen as %s, %s\n", at, peer, time.Since(begin))
		want := web.Endpoints[network.Bridge].Gateway
		if at == lanAddr {
			want = lanAddr
		}
		if peer != want {
			return fmt.Errorf("the container sees a client of %s as %s, want %s", at, peer, want)
		}
	}
	return nil
}
