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

func open(t *testing.T, o Options) *Pool {
	t.Helper()
	p, err := Open(o)
	if err != nil {
		t.Fatalf("Open(%+v): %v", o, err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return p
}

func subnet(s string) Options { return Options{Subnet: netip.MustParsePrefix(s)} }

func addrs(all ...string) []netip.Addr {
	list := make([]netip.Addr, 0, len(all))
	for _, s := range all {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

func take(t *testing.T, p *Pool, owner string) netip.Addr {
	t.Helper()
	a, err := p.Take(owner)
	if err != nil {
		t.Fatalf("Take(%s): %v", owner, err)
	}
	return a
}

func TestOpenRefusesWhatCannotBe(t *testing.T) {
	net24 := netip.MustParsePrefix("10.0.0.0/24")
	for _, tc := range []struct {
		name string
		opts Options
	}{
		{"nothing", Options{}},
		{"no room", subnet("10.0.0.0/31")},
		{"no room in IPv6", subnet("fd00::/127")},
		{"range outside", Options{Subnet: net24, Range: netip.MustParsePrefix("10.0.1.0/25")}},
		{"range larger", Options{Subnet: net24, Range: netip.MustParsePrefix("10.0.0.0/23")}},
		{"range of the network's own address", Options{Subnet: net24, Range: netip.MustParsePrefix("10.0.0.0/32")}},
		{"range of the other family", Options{Subnet: net24, Range: netip.MustParsePrefix("fd00::/64")}},
		{"gateway outside", Options{Subnet: net24, Gateway: netip.MustParseAddr("10.0.1.1")}},
		{"gateway is the broadcast address", Options{Subnet: net24, Gateway: netip.MustParseAddr("10.0.0.255")}},
		{"gateway of the other family", Options{Subnet: net24, Gateway: netip.MustParseAddr("fd00::1")}},
		{"auxiliary address outside", Options{Subnet: net24, Aux: addrs("10.0.1.1")}},
		{"auxiliary address is the gateway's", Options{Subnet: net24, Aux: addrs("10.0.0.1")}},
	} {
		if _, err := Open(tc.opts); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: Open = %v, want an Invalid fault", tc.name, err)
		}
	}
}

func TestTakeGoesRoundAndRunsOut(t *testing.T) {
	p := open(t, subnet("10.9.0.0/29")) // .1 gateway, .2 to .6 to give
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

func TestTakeKeepsToTheRange(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts Options
		want []string // all there are
	}{
		{
			"in the middle",
			Options{Subnet: netip.MustParsePrefix("10.9.0.0/24"), Range: netip.MustParsePrefix("10.9.0.8/30"), Aux: addrs("10.9.0.9")},
			[]string{"10.9.0.8", "10.9.0.10", "10.9.0.11"},
		},
		{
			"at the start, with the gateway in it",
			Options{Subnet: netip.MustParsePrefix("10.9.0.0/24"), Range: netip.MustParsePrefix("10.9.0.0/30"), Gateway: netip.MustParseAddr("10.9.0.2")},
			[]string{"10.9.0.1", "10.9.0.3"},
		},
		{
			"at the end",
			Options{Subnet: netip.MustParsePrefix("10.9.0.0/24"), Range: netip.MustParsePrefix("10.9.0.252/30")},
			[]string{"10.9.0.252", "10.9.0.253", "10.9.0.254"},
		},
		{
			"IPv6, to the last one",
			Options{Subnet: netip.MustParsePrefix("fd00::/64"), Range: netip.MustParsePrefix("fd00::fffc/126")},
			[]string{"fd00::fffc", "fd00::fffd", "fd00::fffe", "fd00::ffff"},
		},
		{"one address", Options{Subnet: netip.MustParsePrefix("10.9.0.0/24"), Range: netip.MustParsePrefix("10.9.0.7/32")}, []string{"10.9.0.7"}},
	} {
		p := open(t, tc.opts)
		for _, want := range tc.want {
			if got := take(t, p, "x").String(); got != want {
				t.Errorf("%s: Take = %s, want %s", tc.name, got, want)
			}
		}
		if a, err := p.Take("x"); err == nil {
			t.Errorf("%s: Take = %s when all are given", tc.name, a)
		}
	}
}

func TestClaim(t *testing.T) {
	p := open(t, Options{Subnet: netip.MustParsePrefix("10.9.0.0/24"), Range: netip.MustParsePrefix("10.9.0.0/25"), Aux: addrs("10.9.0.77")})
	own := netip.MustParseAddr("10.9.0.2")
	for range 2 { // one's own again is no error
		if err := p.Claim("a", own); err != nil {
			t.Fatalf("Claim of a free address: %v", err)
		}
	}
	if err := p.Claim("b", netip.MustParseAddr("10.9.0.200")); err != nil {
		t.Errorf("Claim of an address beside the range: %v", err)
	}
	for _, tc := range []struct {
		addr string
		want fault.Constructor
		text string
	}{
		{"10.9.0.2", fault.Conflict, "Address already in use: 10.9.0.2"},
		{"10.9.0.0", fault.Conflict, "Address already in use: 10.9.0.0"},
		{"10.9.0.1", fault.Conflict, "Address already in use: 10.9.0.1"},
		{"10.9.0.77", fault.Conflict, "Address already in use: 10.9.0.77"},
		{"10.9.0.255", fault.Conflict, "Address already in use: 10.9.0.255"},
		{"10.9.1.2", fault.Invalid, "no configured subnet or ip-range contain the IP address 10.9.1.2"},
		{"fd00::2", fault.Invalid, "no configured subnet or ip-range contain the IP address fd00::2"},
	} {
		if err := p.Claim("c", netip.MustParseAddr(tc.addr)); !fault.Is(err, tc.want) || err.Error() != tc.text {
			t.Errorf("Claim(%s) = %v, want kind %v with %q", tc.addr, err, fault.KindOf(tc.want("")), tc.text)
		}
	}
	if a := take(t, p, "b"); a.String() != "10.9.0.3" {
		t.Errorf("Take after a claim of .2 = %s, want 10.9.0.3", a)
	}
	p.Release("b", own)
	if err := p.Claim("b", own); !fault.Is(err, fault.Conflict) {
		t.Errorf("Claim after a stranger's Release = %v, want a Conflict fault: only the owner releases", err)
	}
	p.Release("", p.Gateway())
	if err := p.Claim("b", p.Gateway()); !fault.Is(err, fault.Conflict) {
		t.Errorf("Claim of the gateway = %v, want a Conflict fault: nobody releases it", err)
	}
	if p.Len() != 3 {
		t.Errorf("Len() = %d, want 3", p.Len())
	}
}

func TestIPv6HasNoBroadcastAddress(t *testing.T) {
	p := open(t, subnet("fd00::/126"))
	if err := p.Claim("a", netip.MustParseAddr("fd00::3")); err != nil {
		t.Errorf("Claim of the last address: %v", err)
	}
	if err := p.Claim("a", netip.MustParseAddr("fd00::")); !fault.Is(err, fault.Conflict) {
		t.Errorf("Claim of any router's address = %v, want a Conflict fault", err)
	}
}

func TestCursorSurvivesRestart(t *testing.T) {
	for _, tc := range []struct{ subnet, next, first string }{
		{"10.9.0.0/16", "10.9.1.46", "10.9.0.2"}, // after 300, shorter and longer texts
		{"fd00:1:2:3::/64", "fd00:1:2:3::12e", "fd00:1:2:3::2"},
	} {
		o := subnet(tc.subnet)
		o.Cursor = filepath.Join(t.TempDir(), "ipam", "next")
		p, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			take(t, p, "x")
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if a := take(t, open(t, o), "y"); a.String() != tc.next {
			t.Errorf("%s: first Take after a restart = %s, want %s", tc.subnet, a, tc.next)
		}
		for name, text := range map[string]string{"other network": "192.168.0.9\n", "garbage": "\x00\xff", "network": o.Subnet.Addr().String(), "empty": ""} {
			if err := os.WriteFile(o.Cursor, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if a := take(t, open(t, o), "y"); a.String() != tc.first {
				t.Errorf("%s in the cursor file: first Take = %s, want %s", name, a, tc.first)
			}
		}
	}
}

func TestTakeAtTheSameTime(t *testing.T) {
	o := subnet("10.9.0.0/22")
	o.Cursor = filepath.Join(t.TempDir(), "next")
	p := open(t, o)
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

// FuzzPool gives a pool away whole, whatever its shape: no address twice, none that nobody may have.
func FuzzPool(f *testing.F) {
	f.Add([]byte{10, 9, 0, 0}, 28, 30, byte(5), byte(3))
	f.Add([]byte{10, 9, 0, 0}, 30, 32, byte(1), byte(2))
	f.Fuzz(func(t *testing.T, raw []byte, bits, rangeBits int, gateway, aux byte) {
		a, ok := netip.AddrFromSlice(raw)
		if !ok || bits < 24 || bits > a.BitLen() || a.Is6() && bits < 120 {
			return
		}
		at := func(low byte) netip.Addr {
			b := a.AsSlice()
			b[len(b)-1] = low
			addr, _ := netip.AddrFromSlice(b)
			return addr
		}
		o := Options{Subnet: netip.PrefixFrom(a, bits).Masked(), Gateway: at(gateway), Aux: []netip.Addr{at(aux)}}
		if rangeBits >= bits && rangeBits <= a.BitLen() {
			o.Range = netip.PrefixFrom(a, rangeBits).Masked()
		}
		p, err := Open(o)
		if err != nil {
			return
		}
		seen := map[netip.Addr]bool{}
		for {
			got, err := p.Take("x")
			if err != nil {
				break
			}
			if seen[got] || got == o.Gateway || got == o.Aux[0] || !isUsable(o.Subnet, got) || o.Range.IsValid() && !o.Range.Contains(got) {
				t.Fatalf("Take of %+v = %s", o, got)
			}
			seen[got] = true
		}
	})
}
