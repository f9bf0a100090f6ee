package forward

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/rootless-containers/rootlesskit/v3/pkg/port"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

func TestParse(t *testing.T) {
	good := port.Spec{Proto: "tcp4", ParentIP: "0.0.0.0", ParentPort: 8080, ChildIP: "172.17.0.2", ChildPort: 80}
	with := func(change func(*port.Spec)) port.Spec {
		s := good
		change(&s)
		return s
	}
	for _, tc := range []struct {
		name string
		spec port.Spec
		kind kind
		want fault.Constructor // nil: it is good
	}{
		{"tcp", good, tcp4, nil},
		{"udp", with(func(s *port.Spec) { s.Proto = "udp4" }), udp4, nil},
		{"IPv6 to IPv4", with(func(s *port.Spec) { s.Proto, s.ParentIP = "tcp6", "::" }), tcp4, nil},
		{"IPv6", with(func(s *port.Spec) { s.Proto, s.ParentIP, s.ChildIP = "udp6", "::", "fd00::2" }), udp6, nil},
		{"IPv4 in IPv6", with(func(s *port.Spec) { s.ChildIP = "::ffff:172.17.0.2" }), tcp4, nil},
		{"sctp", with(func(s *port.Spec) { s.Proto = "sctp" }), 0, fault.Unsupported},
		{"protocol", with(func(s *port.Spec) { s.Proto = "icmp" }), 0, fault.Invalid},
		{"no target", with(func(s *port.Spec) { s.ChildIP = "" }), 0, fault.Invalid},
		{"no host address", with(func(s *port.Spec) { s.ParentIP = "" }), 0, fault.Invalid},
		{"port", with(func(s *port.Spec) { s.ChildPort = 65536 }), 0, fault.Invalid},
	} {
		r, err := parseSpec(tc.spec)
		if tc.want != nil {
			if !fault.Is(err, tc.want) {
				t.Errorf("%s: parse = %v, want kind %v", tc.name, err, fault.KindOf(tc.want("")))
			}
			continue
		}
		if err != nil || r.socketKind() != tc.kind {
			t.Errorf("%s: parse = kind %d, %v; want %d", tc.name, r.socketKind(), err, tc.kind)
		}
	}
}

func TestLocalRoundTrip(t *testing.T) {
	for _, tc := range []struct {
		name string
		l    local
		want local
	}{
		{"IPv4", local{addr: netip.MustParseAddr("192.0.2.7")}, local{addr: netip.MustParseAddr("192.0.2.7")}},
		{"IPv6", local{addr: netip.MustParseAddr("2001:db8::7"), iface: 3}, local{addr: netip.MustParseAddr("2001:db8::7")}},
		{"link-local", local{addr: netip.MustParseAddr("fe80::7"), iface: 3}, local{addr: netip.MustParseAddr("fe80::7"), iface: 3}},
		{"multicast", local{addr: netip.MustParseAddr("ff02::1"), iface: 3}, local{}},
		{"none", local{}, local{}},
	} {
		if got := parseLocal(tc.l.controlMessage()); got != tc.want {
			t.Errorf("%s: parseLocal = %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func FuzzParseLocal(f *testing.F) {
	f.Add(local{addr: netip.MustParseAddr("192.0.2.7")}.controlMessage())
	f.Add(local{addr: netip.MustParseAddr("fe80::7"), iface: 3}.controlMessage())
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, control []byte) {
		l := parseLocal(control)
		if l.iface != 0 && !l.addr.IsLinkLocalUnicast() {
			t.Errorf("parseLocal(%x) = %+v: a device for an address that needs none", control, l)
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte{byte(udp6), batch})
	f.Add([]byte{byte(kinds), 1})
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, count, err := parseRequest(b)
		if err == nil && (k >= kinds || count < 1 || count > batch) {
			t.Errorf("parseRequest(%x) = %d, %d", b, k, count)
		}
	})
}

func TestAboutSource(t *testing.T) {
	for err, want := range map[error]bool{
		unix.EADDRINUSE: true, unix.EADDRNOTAVAIL: true, unix.EACCES: true,
		unix.ECONNREFUSED: false, unix.EHOSTUNREACH: false, unix.ECONNRESET: false,
	} {
		if got := aboutSource(errors.Join(errors.New("connect"), err)); got != want {
			t.Errorf("aboutSource(%v) = %v, want %v", err, got, want)
		}
	}
}

// TestForget: a client is forgotten when it has been quiet long enough, and not before.
func TestForget(t *testing.T) {
	u := &udpPort{clients: make(map[path]*udpClient)}
	for _, tc := range []struct {
		name  string
		quiet time.Duration
		want  bool
	}{{"just heard", 0, false}, {"quiet for a while", clientIdle / 2, false}, {"quiet for long", clientIdle + time.Second, true}} {
		c := &udpClient{port: u}
		c.active.Store(time.Now().Add(-tc.quiet).UnixNano())
		u.clients[c.path] = c
		if got := u.forgetIdle(c); got != tc.want || (len(u.clients) == 0) != tc.want {
			t.Errorf("%s: forget = %v and %d clients left, want %v", tc.name, got, len(u.clients), tc.want)
		}
	}
}

// TestForgetQuietest: the one that was heard the longest ago goes.
func TestForgetQuietest(t *testing.T) {
	u := &udpPort{clients: make(map[path]*udpClient)}
	for i := range 5 {
		at := path{client: netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(i))}
		c := &udpClient{port: u, path: at}
		c.active.Store(int64((i + 3) % 5)) // the third has 0
		u.clients[at] = c
	}
	u.forgetQuietestLocked()
	if _, there := u.clients[path{client: netip.AddrPortFrom(netip.IPv4Unspecified(), 2)}]; there || len(u.clients) != 4 {
		t.Errorf("%d clients are left, the quietest among them: %v", len(u.clients), there)
	}
}

func TestPipesAreKept(t *testing.T) {
	var p pipes
	got := make([]pipe, 0, sparePipes+2)
	for range sparePipes + 2 {
		one, err := p.get()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, one)
	}
	for _, one := range got {
		p.put(one)
	}
	if len(p.spare) != sparePipes {
		t.Errorf("%d pipes are kept, want %d", len(p.spare), sparePipes)
	}
	if again, err := p.get(); err != nil || again != got[sparePipes-1] {
		t.Errorf("get = %v, %v; want one of those that were put back", again, err)
	}
	p.close()
}
