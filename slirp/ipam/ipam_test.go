package ipam

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"moss/engine/fault"
)

func open(t *testing.T, prefix, cursor string) *Pool {
	t.Helper()
	p, err := Open(netip.MustParsePrefix(prefix), cursor)
	if err != nil {
		t.Fatalf("Open(%s): %v", prefix, err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return p
}

func take(t *testing.T, p *Pool, owner string) netip.Addr {
	t.Helper()
	a, err := p.Take(owner)
	if err != nil {
		t.Fatalf("Take(%s): %v", owner, err)
	}
	return a
}

func TestOpenRefusesWhatHasNoRoom(t *testing.T) {
	for _, s := range []string{"fd00::/64", "10.0.0.0/31", "10.0.0.1/32"} {
		if _, err := Open(netip.MustParsePrefix(s), filepath.Join(t.TempDir(), "next")); !fault.Is(err, fault.Invalid) {
			t.Errorf("Open(%s) = %v, want an Invalid fault", s, err)
		}
	}
}

func TestTakeGoesRoundAndRunsOut(t *testing.T) {
	p := open(t, "10.9.0.0/29", filepath.Join(t.TempDir(), "next")) // .1 gateway, .2 to .6 to give
	if got := p.Gateway().String(); got != "10.9.0.1" {
		t.Errorf("Gateway() = %s, want 10.9.0.1", got)
	}
	first := take(t, p, "a")
	if first.String() != "10.9.0.2" {
		t.Errorf("first Take = %s, want 10.9.0.2", first)
	}
	p.Release("a", first)
	got := make([]string, 0, 5)
	for i := range 5 {
		got = append(got, take(t, p, strconv.Itoa(i)).String())
	}
	for i, want := range []string{"10.9.0.3", "10.9.0.4", "10.9.0.5", "10.9.0.6", "10.9.0.2"} {
		if got[i] != want {
			t.Errorf("Take number %d = %s, want %s: a released address must wait for its turn", i+2, got[i], want)
		}
	}
	if _, err := p.Take("late"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Take from a full pool = %v, want an Unavailable fault", err)
	}
	p.Release("2", netip.MustParseAddr("10.9.0.5"))
	if a := take(t, p, "late"); a.String() != "10.9.0.5" {
		t.Errorf("Take with one free = %s, want 10.9.0.5", a)
	}
}

func TestClaim(t *testing.T) {
	p := open(t, "10.9.0.0/24", filepath.Join(t.TempDir(), "next"))
	own := netip.MustParseAddr("10.9.0.2")
	if err := p.Claim("a", own); err != nil {
		t.Fatalf("Claim of a free address: %v", err)
	}
	if err := p.Claim("a", own); err != nil {
		t.Errorf("Claim of one's own address: %v", err)
	}
	if err := p.Claim("b", own); !fault.Is(err, fault.Conflict) {
		t.Errorf("Claim of another's address = %v, want a Conflict fault", err)
	}
	for _, s := range []string{"10.9.0.0", "10.9.0.1", "10.9.0.255", "10.9.1.2", "fd00::2"} {
		if err := p.Claim("c", netip.MustParseAddr(s)); !fault.Is(err, fault.Invalid) {
			t.Errorf("Claim(%s) = %v, want an Invalid fault", s, err)
		}
	}
	if a := take(t, p, "b"); a.String() != "10.9.0.3" {
		t.Errorf("Take after a claim of .2 = %s, want 10.9.0.3", a)
	}
	p.Release("b", own)
	if err := p.Claim("b", own); !fault.Is(err, fault.Conflict) {
		t.Errorf("Claim after a stranger's Release = %v, want a Conflict fault: only the owner releases", err)
	}
}

func TestCursorSurvivesRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "next")
	p, err := Open(netip.MustParsePrefix("10.9.0.0/16"), path)
	if err != nil {
		t.Fatal(err)
	}
	for range 300 { // to 10.9.1.45, shorter and longer texts
		take(t, p, "x")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if a := take(t, open(t, "10.9.0.0/16", path), "y"); a.String() != "10.9.1.46" {
		t.Errorf("first Take after a restart = %s, want 10.9.1.46", a)
	}
	for name, text := range map[string]string{"other network": "192.168.0.9\n", "garbage": "\x00\xff", "gateway": "10.9.0.1", "empty": ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if a := take(t, open(t, "10.9.0.0/16", path), "y"); a.String() != "10.9.0.2" {
			t.Errorf("%s in the cursor file: first Take = %s, want 10.9.0.2", name, a)
		}
	}
}

func TestTakeAtTheSameTime(t *testing.T) {
	p := open(t, "10.9.0.0/22", filepath.Join(t.TempDir(), "next"))
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seen = map[netip.Addr]bool{}
	)
	for range 8 {
		wg.Go(func() {
			for range 100 {
				a, err := p.Take("x")
				mu.Lock()
				if err != nil || seen[a] {
					t.Errorf("Take = %s, %v: given twice or failed", a, err)
				}
				seen[a] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if p.Len() != 800 {
		t.Errorf("Len() = %d, want 800", p.Len())
	}
}
