package bridge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

func TestDetachLeavesNothing(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	const count = 50
	up(t, f, first())
	f.Warm()
	var wg sync.WaitGroup
	for round := range 2 { // the second uses names and addresses of the first right after
		for i := range count {
			wg.Go(func() { attach(t, f, fmt.Sprint("c", i), endpoint(first(), "eth0", byte(i+2))) })
		}
		wg.Wait()
		if ids, err := f.Attached(); err != nil || len(ids) != count {
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
				if err := f.Detach(fmt.Sprint("c", i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if err := f.Detach("c0"); err != nil {
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
	deadline := time.Now().Add(time.Minute)
	for {
		links, err := h.LinkList()
		changing := errors.Is(err, netlink.ErrDumpInterrupted) // the kernel takes devices away while the list is read
		if !changing {
			must(t, err)
		}
		left := slices.DeleteFunc(links, func(l netlink.Link) bool { return !strings.HasPrefix(l.Attrs().Name, "veth") })
		if len(left) == 0 && !changing {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d veth devices are left", len(left))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestMakeTakesOverWhatACrashLeft(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	up(t, f, first())
	old := nsOf(t, attach(t, f, "one", endpoint(first(), "eth0", 2)))
	next := p.fabric(t)
	up(t, next, first())
	if again := nsOf(t, attach(t, next, "one", endpoint(first(), "eth0", 2))); again == old {
		t.Error("the namespace of a container that is gone is used again")
	}
	must(t, f.Detach("one"))
	// Killed between the file and the mount.
	must(t, os.WriteFile(filepath.Join(p.opts.Dir, "two"), nil, 0o400))
	attach(t, f, "two", endpoint(first(), "eth0", 2))
}

func TestMakeRefusesWhatIsNoID(t *testing.T) {
	f := newPlace(t).fabric(t)
	for _, id := range []string{"", ".", "..", "../x", "a/b", ".hidden"} {
		if _, err := f.Make(t.Context(), id); err == nil {
			t.Errorf("Make took the container id %q", id)
		}
	}
}

func TestCloseLeavesNoDescriptorAndNoThread(t *testing.T) {
	p := newPlace(t)
	cycle := func() {
		f, err := New(p.opts)
		must(t, err)
		up(t, f, second())
		f.Warm()
		e := endpoint(second(), "eth0", 2)
		attach(t, f, "one", e)
		must(t, f.Unplug(t.Context(), "one", e.ID, nil))
		must(t, f.Plug(t.Context(), "one", e, gateways(e)))
		must(t, f.Detach("one"))
		must(t, f.Close())
	}
	fds, threads := count(t, "/proc/self/fd"), runtime.NumGoroutine()
	for range 5 {
		cycle()
	}
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // what ends may lag
		if err = leftOver(t, fds, threads); err == nil {
			return
		}
	}
	t.Errorf("after five engines: %v", err)
}

// leftOver tells what there is more than so many descriptors and goroutines, and which threads are elsewhere.
func leftOver(t *testing.T, fds, goroutines int) error {
	var errs []error
	if got := count(t, "/proc/self/fd"); got > fds {
		errs = append(errs, fmt.Errorf("%d descriptors, %d before", got, fds))
	}
	if got := runtime.NumGoroutine(); got > goroutines {
		errs = append(errs, fmt.Errorf("%d goroutines, %d before", got, goroutines))
	}
	self := fmt.Sprintf("net:[%d]", nsOf(t, "/proc/self/ns/net"))
	tasks, err := os.ReadDir("/proc/self/task")
	must(t, err)
	for _, task := range tasks {
		if got, err := os.Readlink(filepath.Join("/proc/self/task", task.Name(), "ns/net")); err == nil && got != self {
			errs = append(errs, fmt.Errorf("thread %s is in %s, the process in %s", task.Name(), got, self))
		}
	}
	return errors.Join(errs...)
}

func BenchmarkAttachDetach(b *testing.B) {
	for _, n := range []Net{first(), second()} {
		b.Run(n.Device, func(b *testing.B) { benchmarkAttachDetach(b, n) })
	}
}

func benchmarkAttachDetach(b *testing.B, n Net) {
	f := newPlace(b).fabric(b)
	up(b, f, n)
	f.Warm()
	var attaching, detaching time.Duration
	for i := 0; b.Loop(); i++ {
		e := endpoint(n, "eth0", byte(i%250+2))
		begin := time.Now()
		attach(b, f, "one", e)
		middle := time.Now()
		must(b, f.Detach("one"))
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

func BenchmarkUpCold(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		f := newPlace(b).fabric(b)
		b.StartTimer()
		up(b, f, first())
	}
}
