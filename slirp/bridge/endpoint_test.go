package bridge

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"moss/slirp/slirptest"
)

func TestAttachConnects(t *testing.T) {
	p := newPlace(t)
	b := p.bridge(t)
	first, second := netip.MustParseAddr("172.17.0.2"), netip.MustParseAddr("172.17.0.3")
	one, two := attach(t, b, "one", first), attach(t, b, "two", second)
	if one != filepath.Join(p.opts.Dir, "one") {
		t.Errorf("Attach = %s, want a file named for the container in %s", one, p.opts.Dir)
	}
	if nsOf(t, one) == nsOf(t, two) || nsOf(t, one) == nsOf(t, p.opts.NetNS) {
		t.Error("containers share a network namespace")
	}
	h := handle(t, one)
	eth, err := h.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	if a := eth.Attrs(); a.MTU != 65520 || a.Flags&net.FlagUp == 0 || a.HardwareAddr.String() != "02:42:ac:11:00:02" {
		t.Errorf("eth0 has MTU %d, flags %s, address %s; want 65520, up, 02:42:ac:11:00:02", a.MTU, a.Flags, a.HardwareAddr)
	}
	if got := sysctlIn(t, one, "net/ipv6/conf/eth0/disable_ipv6"); got != "1" {
		t.Errorf("disable_ipv6 of eth0 = %s, want 1", got)
	}
	if got := talk(t, two, second.String(), one, second.String()); got != first.String() {
		t.Errorf("container two sees container one as %s, want %s", got, first)
	}
	if got := talk(t, one, "127.0.0.1", one, "127.0.0.1"); got != "127.0.0.1" {
		t.Errorf("a container sees itself on loopback as %s", got)
	}
	if got := talk(t, "/proc/self/ns/net", slirptest.OutsideAddr, one, slirptest.OutsideAddr); got != slirptest.UplinkAddr {
		t.Errorf("the outside sees a container as %s, want %s by masquerading", got, slirptest.UplinkAddr)
	}
	if conn, err := net.DialTimeout("tcp", "172.17.0.2:80", 300*time.Millisecond); err == nil {
		_ = conn.Close()
		t.Error("the outside can open a connection to a container")
	}
}

func TestDetachLeavesNothing(t *testing.T) {
	p := newPlace(t)
	b := p.bridge(t)
	const count = 50
	if err := b.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for round := range 2 { // the second uses names and addresses of the first right after
		for i := range count {
			wg.Go(func() {
				addr := netip.AddrFrom4([4]byte{172, 17, 0, byte(i + 2)})
				attach(t, b, fmt.Sprint("c", i), addr)
			})
		}
		wg.Wait()
		if ids, err := b.Attached(); err != nil || len(ids) != count {
			t.Fatalf("round %d: Attached() = %d containers, %v; want %d", round, len(ids), err, count)
		}
		from := filepath.Join(p.opts.Dir, "c0")
		for _, i := range []int{1, 17, count - 1} {
			at := fmt.Sprint("172.17.0.", i+2)
			if got := talk(t, filepath.Join(p.opts.Dir, fmt.Sprint("c", i)), at, from, at); got != "172.17.0.2" {
				t.Errorf("round %d: container %d sees container 0 as %s", round, i, got)
			}
		}
		for i := range count {
			wg.Go(func() {
				if err := b.Detach(fmt.Sprint("c", i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if err := b.Detach("c0"); err != nil {
		t.Errorf("Detach of a detached container: %v", err)
	}
	entries, err := os.ReadDir(p.opts.Dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left in %s: %v, %v", p.opts.Dir, entries, err)
	}
	if mounts := ours(t, p); len(mounts) != 0 {
		t.Errorf("left mounted: %v", mounts)
	}
	h := handle(t, p.opts.NetNS)
	deadline := time.Now().Add(10 * time.Second)
	for {
		links, err := h.LinkList()
		if err != nil {
			t.Fatal(err)
		}
		left := slices.DeleteFunc(links, func(l netlink.Link) bool { return !strings.HasPrefix(l.Attrs().Name, "veth") })
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d veth devices are left", len(left))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestAttachTakesOverWhatACrashLeft(t *testing.T) {
	p := newPlace(t)
	b := p.bridge(t)
	addr := netip.MustParseAddr("172.17.0.2")
	old := nsOf(t, attach(t, b, "one", addr))
	if again := nsOf(t, attach(t, p.bridge(t), "one", addr)); again == old {
		t.Error("the namespace of a container that is gone is used again")
	}
	if err := b.Detach("one"); err != nil {
		t.Fatal(err)
	}
	// Killed between the file and the mount.
	if err := os.WriteFile(filepath.Join(p.opts.Dir, "two"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	attach(t, b, "two", addr)
}

func TestAttachUndoesAHalf(t *testing.T) {
	p := newPlace(t)
	b := p.bridge(t)
	if _, err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	bad := Endpoint{ContainerID: "one", ID: NewID(), Addr: netip.MustParseAddr("172.17.0.2"), MAC: net.HardwareAddr{1, 0, 0, 0, 0, 1}}
	if _, err := b.Attach(t.Context(), bad); err == nil {
		t.Fatal("Attach took a group address as MAC")
	}
	if ids, err := b.Attached(); err != nil || len(ids) != 0 {
		t.Errorf("Attached() = %v, %v; want none", ids, err)
	}
	if mounts := ours(t, p); len(mounts) != 0 {
		t.Errorf("left mounted: %v", mounts)
	}
	for _, id := range []string{"", ".", "..", "../x", "a/b", ".hidden"} {
		if _, err := b.Attach(t.Context(), Endpoint{ContainerID: id, ID: NewID()}); err == nil {
			t.Errorf("Attach took the container id %q", id)
		}
	}
}

func TestCloseLeavesNoDescriptorAndNoThread(t *testing.T) {
	p := newPlace(t)
	cycle := func() {
		b, err := New(p.opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
		attach(t, b, "one", netip.MustParseAddr("172.17.0.2"))
		if err := b.Detach("one"); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cycle()
	fds, threads := count(t, "/proc/self/fd"), runtime.NumGoroutine()
	for range 5 {
		cycle()
	}
	if got := count(t, "/proc/self/fd"); got > fds {
		t.Errorf("%d descriptors after five more engines, %d before", got, fds)
	}
	if got := runtime.NumGoroutine(); got > threads {
		t.Errorf("%d goroutines after five more engines, %d before", got, threads)
	}
	self := nsOf(t, "/proc/self/ns/net")
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if got, err := os.Readlink(filepath.Join("/proc/self/task", task.Name(), "ns/net")); err == nil && got != fmt.Sprintf("net:[%d]", self) {
			t.Errorf("thread %s is in %s, the process in %d", task.Name(), got, self)
		}
	}
}

func BenchmarkAttachDetach(b *testing.B) {
	p := newPlace(b)
	br := p.bridge(b)
	if err := br.Warm(b.Context()); err != nil {
		b.Fatal(err)
	}
	var attaching, detaching time.Duration
	for i := 0; b.Loop(); i++ {
		addr := netip.AddrFrom4([4]byte{172, 17, byte(i >> 8), byte(i)})
		if addr.As4()[3] < 2 {
			continue
		}
		begin := time.Now()
		attach(b, br, "one", addr)
		middle := time.Now()
		if err := br.Detach("one"); err != nil {
			b.Fatal(err)
		}
		attaching, detaching = attaching+middle.Sub(begin), detaching+time.Since(middle)
		b.StopTimer()
		time.Sleep(10 * time.Millisecond) // a container's life: the next namespace gets ready, the last one goes
		b.StartTimer()
	}
	b.ReportMetric(float64(attaching.Microseconds())/float64(b.N), "µs/attach")
	b.ReportMetric(float64(detaching.Microseconds())/float64(b.N), "µs/detach")
}

func BenchmarkNewNamespace(b *testing.B) {
	for b.Loop() {
		n, err := newNamespace()
		if err != nil {
			b.Fatal(err)
		}
		n.close()
	}
}

func BenchmarkEnsureCold(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		p := newPlace(b)
		br := p.bridge(b)
		b.StartTimer()
		if _, err := br.Ensure(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
