package dns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/thread"
	"moss/slirp/slirptest"
)

func dup(fd uintptr, name string) (*os.File, error) {
	d, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	return os.NewFile(uintptr(d), name), err
}

// furnish puts a few containers into two networks.
func furnish(s *Server) {
	s.Put("n1", Member{ContainerID: "c1", Network: "front", Names: []string{"web", "0123456789ab", "WWW.example.com"}, Addrs: addrs("172.18.0.2", "fd00::2")})
	s.Put("n1", Member{ContainerID: "c2", Network: "front", Names: []string{"db", "pool"}, Addrs: addrs("172.18.0.3")})
	s.Put("n1", Member{ContainerID: "c3", Network: "front", Names: []string{"db2", "pool"}, Addrs: addrs("172.18.0.4")})
	s.Put("n2", Member{ContainerID: "c2", Network: "back.end", Names: []string{"db", "only-there"}, Addrs: addrs("172.19.0.3", "fd01::3")})
	s.Put("n3", Member{ContainerID: "c4", Network: "other", Names: []string{"secret", "web"}, Addrs: addrs("172.20.0.2")})
	s.Put("n1", Member{ContainerID: "c5", Network: "front", Names: []string{strings.Repeat("x", 70), "short"}, Addrs: addrs("172.18.0.6")})
	s.Put("n4", Member{ContainerID: "c6", Names: []string{"nameless"}, Addrs: addrs("172.21.0.2")})
}

func TestNames(t *testing.T) {
	host, _ := hostWith(t, "nameserver 127.0.0.53\n")
	outside := serve(t, "", "127.0.0.53", says("192.0.2.1"))
	s := newServer(t, Options{Host: host})
	furnish(s)
	c := newContainer(t, s, "c1", View{
		Networks: []string{"n1", "n2", "n4"}, Outside: true, Host: netip.MustParseAddr("10.0.2.2"),
		Links: map[string]Links{"n1": {"Mysql": "c2", "away": "c9", "left": "c6", "only-there": "c9"}, "n2": {"mysql": "c2"}, "n3": {"elsewhere": "c2"}},
	})
	for _, tc := range []struct {
		name string
		kind uint16
		want string
	}{
		{"web", dns.TypeA, "172.18.0.2"},
		{"WEB", dns.TypeA, "172.18.0.2"},
		{"web", dns.TypeAAAA, "fd00::2"},
		{"web", dns.TypeANY, "172.18.0.2 fd00::2"},
		{"web", dns.TypeMX, ""},
		{"web", dns.TypeHTTPS, ""},
		{"0123456789ab", dns.TypeA, "172.18.0.2"},
		{"www.example.com", dns.TypeA, "172.18.0.2"},
		{"web.front", dns.TypeA, "172.18.0.2"},
		{"wEb.Front", dns.TypeAAAA, "fd00::2"},
		{"www.example.com.front", dns.TypeA, "172.18.0.2"},
		{"db", dns.TypeA, "172.18.0.3"}, // of the first network
		{"db", dns.TypeAAAA, "fd01::3"}, // which has none of the other family
		{"db.back.end", dns.TypeA, "172.19.0.3"},
		{"db.front", dns.TypeA, "172.18.0.3"},
		{"db.front", dns.TypeAAAA, ""},
		{"only-there", dns.TypeA, "172.19.0.3"},
		{"pool", dns.TypeA, "172.18.0.3 172.18.0.4"},
		{"pool", dns.TypeAAAA, ""},
		{"nameless", dns.TypeA, "172.21.0.2"},
		{"mysql", dns.TypeA, "172.18.0.3 172.19.0.3"},
		{"away", dns.TypeA, "NXDOMAIN"},
		{"left", dns.TypeA, "NXDOMAIN"}, // its container is in another network that both are in
		{"2.0.18.172.in-addr.arpa", dns.TypePTR, "web.front."},
		{"2.0.18.172.IN-ADDR.ARPA", dns.TypePTR, "web.front."},
		{"2.0.18.172.in-addr.arpa", dns.TypeTXT, ""},
		{"3.0.19.172.in-addr.arpa", dns.TypePTR, "db.back.end."},
		{"6.0.18.172.in-addr.arpa", dns.TypePTR, "short.front."},
		{"2.0.21.172.in-addr.arpa", dns.TypePTR, "nameless."},
		{"2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa", dns.TypePTR, "web.front."},
		{"host.docker.internal", dns.TypeA, "10.0.2.2"},
		{"Host.Moss.Internal", dns.TypeA, "10.0.2.2"},
		{"host.docker.internal", dns.TypeAAAA, ""},
	} {
		t.Run(fmt.Sprintf("%s %s", dns.TypeToString[tc.kind], tc.name), func(t *testing.T) {
			if got := c.ask(tc.name, tc.kind); got != tc.want {
				t.Errorf("%s of %s is %q, want %q", dns.TypeToString[tc.kind], tc.name, got, tc.want)
			}
		})
	}
	if asked := outside.asked(); len(asked) != 0 {
		t.Errorf("names of the networks were asked for outside: %q", asked)
	}
	for _, name := range []string{"secret", "web.other", "2.0.20.172.in-addr.arpa", "x.web", "front", "nameless.", "web.back.end", "docker.internal", "elsewhere"} {
		if name == "nameless." {
			name = "nameless.front"
		}
		if got := c.ask(name, dns.TypeA); got != "192.0.2.1" {
			t.Errorf("%s is %q, want what the outside says", name, got)
		}
	}
}

func TestInternal(t *testing.T) {
	host, _ := hostWith(t, "nameserver 127.0.0.53\n")
	outside := serve(t, "", "127.0.0.53", says("192.0.2.1"))
	s := newServer(t, Options{Host: host})
	furnish(s)
	c := newContainer(t, s, "c1", View{Networks: []string{"n1"}})
	for _, tc := range [][2]string{
		{"web", "172.18.0.2"}, {"example.org", "NXDOMAIN"}, {"nobody", "NXDOMAIN"}, {"host.docker.internal", "NXDOMAIN"},
	} {
		for _, network := range []string{"udp", "tcp"} {
			if got := show(c.exchange(network, question(tc[0], dns.TypeA))); got != tc[1] {
				t.Errorf("%s over %s is %q, want %q", tc[0], network, got, tc[1])
			}
		}
	}
	if asked := outside.asked(); len(asked) != 0 {
		t.Errorf("the outside was asked %q", asked)
	}
	check(t, s.Update("c1", View{Networks: []string{"n1"}, Outside: true}))
	if got, want := c.ask("example.org", dns.TypeA), "192.0.2.1"; got != want {
		t.Errorf("after an update example.org is %q, want %q", got, want)
	}
	if err := s.Update("nobody", View{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("Update(nobody) = %v, want a fault.NotFound", err)
	}
}

// TestPort53 is a container with a name server of its own on all its addresses, which does not get in the way.
func TestPort53(t *testing.T) {
	s := newServer(t, Options{})
	furnish(s)
	c := newContainer(t, s, "c1", View{Networks: []string{"n1"}})
	own := serve(t, c.ns, "0.0.0.0", says("192.0.2.53"))
	for _, network := range []string{"udp", "tcp"} {
		if got, want := show(c.exchange(network, question("web", dns.TypeA))), "172.18.0.2"; got != want {
			t.Errorf("at %s over %s: %q, want %q", Address, network, got, want)
		}
		for _, at := range []string{"127.0.0.1", slirptest.UplinkAddr} {
			if got, want := show(c.exchangeAt(network, at, question("web", dns.TypeA))), "192.0.2.53"; got != want {
				t.Errorf("at %s over %s: %q, want %q", at, network, got, want)
			}
		}
	}
	if got, want := len(own.asked()), 4; got != want {
		t.Errorf("the container's own was asked %d times, want %d", got, want)
	}
}

// TestShuffle looks that each of several containers is the first one at times.
func TestShuffle(t *testing.T) {
	s := newServer(t, Options{})
	furnish(s)
	c := newContainer(t, s, "c1", View{Networks: []string{"n1"}})
	first := make(map[string]bool)
	for range 100 { // 2^-99 that it stays one
		reply := c.exchange("udp", question("pool", dns.TypeA))
		first[reply.Answer[0].(*dns.A).A.String()] = true
	}
	if len(first) != 2 {
		t.Errorf("only %v comes first", first)
	}
}

// TestSizes looks that an answer fits what the client takes, and that the rest comes over TCP.
func TestSizes(t *testing.T) {
	s := newServer(t, Options{})
	for i := range 300 {
		s.Put("n", Member{ContainerID: strconv.Itoa(i), Names: []string{"all"}, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{172, 18, byte(i / 256), byte(i)})}})
	}
	c := newContainer(t, s, "c1", View{Networks: []string{"n"}})
	for _, tc := range []struct {
		network string
		edns    uint16
		least   int
		most    int
		cut     bool
	}{{"udp", 0, 25, 31, true}, {"udp", 1232, 70, 77, true}, {"udp", 100, 25, 31, true}, {"udp", 65535, 300, 300, false}, {"tcp", 0, 300, 300, false}} {
		q := question("all", dns.TypeA)
		if tc.edns > 0 {
			q.SetEdns0(tc.edns, true)
		}
		reply := c.exchange(tc.network, q)
		if n := len(reply.Answer); n < tc.least || n > tc.most || reply.Truncated != tc.cut {
			t.Errorf("%s, %d bytes: %d addresses, truncated %t, want %d to %d, %t", tc.network, tc.edns, n, reply.Truncated, tc.least, tc.most, tc.cut)
		}
		if got, want := reply.IsEdns0() != nil, tc.edns > 0; got != want {
			t.Errorf("%s, %d bytes: EDNS in the answer %t, want %t", tc.network, tc.edns, got, want)
		}
	}
}

// TestRestart is what happens when the engine is killed: queries wait for the next one.
func TestRestart(t *testing.T) {
	keep := newShelf()
	first := NewServer(t.Context(), Options{Keep: keep})
	furnish(first)
	c := newContainer(t, first, "c1", View{Networks: []string{"n1"}})
	other := newContainer(t, first, "c2", View{Networks: []string{"n1"}})
	_ = newContainer(t, first, "c3", View{Networks: []string{"n1"}})
	check(t, first.Detach("c3"))
	check(t, first.Close())

	answers := make(chan string)
	for _, network := range []string{"udp", "tcp"} {
		sent := make(chan struct{})
		go func() {
			err := slirptest.Enter(c.ns, func() error {
				conn, err := dns.Dial(network, Address+":53")
				if err != nil {
					return err
				}
				defer func() { _ = conn.Close() }()
				if err := conn.WriteMsg(question("web", dns.TypeA)); err != nil {
					return err
				}
				close(sent)
				reply, err := conn.ReadMsg()
				if err == nil {
					answers <- network + " " + show(reply)
				}
				return err
			})
			if err != nil {
				answers <- err.Error()
			}
		}()
		<-sent
	}
	keep.next(t)
	second := newServer(t, Options{Keep: keep})
	if second.Adopt("c3", View{}) || second.Adopt("nobody", View{}) {
		t.Error("sockets were adopted that nobody had left")
	}
	if !second.Adopt("c1", View{Networks: []string{"n1"}}) {
		t.Fatal("nothing was left for c1")
	}
	furnish(second)
	check(t, second.Sweep())
	got := []string{<-answers, <-answers}
	slices.Sort(got)
	if want := []string{"tcp 172.18.0.2", "udp 172.18.0.2"}; !slices.Equal(got, want) {
		t.Errorf("queries in between are answered %q, want %q", got, want)
	}
	if names := len(keep.held); names != 2 {
		t.Errorf("%d descriptors are kept, want the two of c1", names)
	}
	if second.Adopt("c2", View{}) {
		t.Error("what was swept away could be adopted")
	}
	slirptest.In(t, other.ns, func() error { // nobody listens any more
		conn, err := net.DialTimeout("tcp", Address+":53", 200*time.Millisecond)
		if err == nil {
			_ = conn.Close()
			t.Error("a name server that was swept away still listens")
		}
		return nil
	})
	// New sockets for the same namespace take the old ones' place.
	sock, err := Open(openNS(t, other.ns))
	check(t, err)
	check(t, second.Attach("c2", sock, View{Networks: []string{"n1"}}))
	if got, want := other.ask("db", dns.TypeA), "172.18.0.3"; got != want {
		t.Errorf("after new sockets db is %q, want %q", got, want)
	}
	check(t, second.Detach("c1"))
	check(t, second.Detach("c2"))
	check(t, second.Detach("c2"))
	if len(keep.held) != 0 {
		t.Errorf("%d descriptors are kept at the end", len(keep.held))
	}
}

func TestAttach(t *testing.T) {
	s := newServer(t, Options{})
	c := newContainer(t, s, "c1", View{})
	again := func() Sockets {
		sock, err := Open(openNS(t, c.ns))
		check(t, err)
		return sock
	}
	if err := s.Attach("c1", again(), View{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("Attach again = %v, want a fault.Conflict", err)
	}
	if err := s.Attach("a/b", again(), View{}); err == nil {
		t.Error("an owner with a slash is attached")
	}
	if err := s.Attach("c2", Sockets{}, View{}); err == nil {
		t.Error("nothing is attached")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Attach("c3", again(), View{}); err == nil {
		t.Error("a server that is closed attaches")
	}
}

// TestGateway is the name server of the default network, on the address of its bridge.
func TestGateway(t *testing.T) {
	host, _ := hostWith(t, "nameserver 127.0.0.53\n")
	serve(t, "", "127.0.0.53", says("192.0.2.1"))
	s := newServer(t, Options{Host: host})
	c := &container{t: t, ns: slirptest.Detached(t, t.TempDir()), server: s}
	for _, addr := range []string{slirptest.UplinkAddr, "172.17.0.1", "fd00::1"} { // two of them are not there, yet
		sock, err := OpenAt(openNS(t, c.ns), netip.MustParseAddr(addr))
		check(t, err)
		check(t, s.Attach("at "+addr, sock, View{Outside: true}))
	}
	for _, network := range []string{"udp", "tcp"} {
		if got, want := show(c.exchangeAt(network, slirptest.UplinkAddr, question("example.org", dns.TypeA))), "192.0.2.1"; got != want {
			t.Errorf("over %s: %q, want %q", network, got, want)
		}
	}
}

// TestConnections holds more TCP connections than one container may have; others are served all the same.
func TestConnections(t *testing.T) {
	s := newServer(t, Options{})
	furnish(s)
	c := newContainer(t, s, "c1", View{Networks: []string{"n1"}})
	sock, err := OpenAt(openNS(t, c.ns), netip.MustParseAddr("127.0.0.1"))
	check(t, err)
	shared, err := s.newClient(sock, View{Networks: []string{"n1"}})
	check(t, err)
	shared.own = false // as on a bridge's address
	shared.startServing()
	t.Cleanup(func() { check(t, shared.close()) })
	var held []net.Conn
	slirptest.In(t, c.ns, func() error {
		for range maxConnsEach + 4 {
			conn, err := net.Dial("tcp", "127.0.0.1:53")
			if err != nil {
				return err
			}
			held = append(held, conn)
		}
		return nil
	})
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	for i, conn := range held { // those that are too many were closed
		patience, open := time.Minute, i < maxConnsEach
		if open {
			patience = 10 * time.Millisecond // nothing comes
		}
		check(t, conn.SetReadDeadline(time.Now().Add(patience)))
		_, err := conn.Read(make([]byte, 1))
		if got, want := errors.Is(err, os.ErrDeadlineExceeded), open; got != want {
			t.Errorf("connection %d: %v, open %t, want %t", i, err, got, want)
		}
	}
	slirptest.In(t, c.ns, func() error {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}).Dial("tcp", "127.0.0.1:53")
		if err != nil {
			return err
		}
		other := &dns.Conn{Conn: conn}
		defer func() { _ = other.Close() }()
		check(t, other.WriteMsg(question("web", dns.TypeA)))
		reply, err := other.ReadMsg()
		if err == nil && show(reply) != "172.18.0.2" {
			t.Errorf("another one is answered %q", show(reply))
		}
		return err
	})
}

// TestMembers changes networks while they are asked; the race detector watches too.
func TestMembers(t *testing.T) {
	s := newServer(t, Options{})
	v := &View{Networks: []string{"n"}}
	stay := Member{ContainerID: "stay", Network: "net", Names: []string{"all", "stay"}, Addrs: addrs("172.18.0.2")}
	s.Put("n", stay)
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			m := Member{ContainerID: strconv.Itoa(i), Network: "net", Names: []string{"all", fmt.Sprint("c", i)}, Addrs: addrs(fmt.Sprintf("172.18.1.%d", i))}
			for range 2000 {
				s.Put("n", m)
				s.Remove("n", m.ContainerID)
			}
		})
		work.Go(func() {
			for range 2000 {
				if got, known := s.names.lookupAddresses(v, "all"); !known || !slices.Contains(got, stay.Addrs[0]) || len(got) > 5 {
					t.Errorf("all is %v, %t", got, known)
				}
				if got := s.names.nameOf(v, stay.Addrs[0]); got != "stay.net." && got != "all.net." {
					t.Errorf("the address is of %q", got)
				}
			}
		})
	}
	work.Wait()
	// A rename, and an address that another container has got.
	s.Put("n", Member{ContainerID: "stay", Network: "net", Names: []string{"new"}, Addrs: addrs("172.18.0.3")})
	s.Put("n", Member{ContainerID: "next", Network: "net", Names: []string{"stay"}, Addrs: addrs("172.18.0.2")})
	s.Remove("n", "nobody")
	s.Remove("nowhere", "stay")
	for name, want := range map[string]string{"new": "172.18.0.3", "stay": "172.18.0.2", "all": ""} {
		got, _ := s.names.lookupAddresses(v, name)
		if want == "" && len(got) != 0 || want != "" && !slices.Equal(got, addrs(want)) {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
	s.Remove("n", "stay")
	s.Remove("n", "next")
	if len(s.names.networks) != 0 {
		t.Errorf("networks without members are left: %v", s.names.networks)
	}
}

// TestMemory keeps a silent container cheap.
func TestMemory(t *testing.T) {
	const count, most = 200, 16 << 10 // bytes each, stacks included
	s := newServer(t, Options{})
	socks := make([]Sockets, count)
	for i := range socks {
		var err error
		socks[i], err = openSockets(netip.MustParseAddrPort(Address + ":0"))
		check(t, err)
	}
	use := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := use()
	for i, sock := range socks {
		check(t, s.Attach(fmt.Sprint("c", i), sock, View{}))
	}
	each := (int64(use()) - int64(before)) / count
	for end := time.Now().Add(30 * time.Second); each > most && !raceDetector && time.Now().Before(end); {
		runtime.Gosched() // what others have left behind goes by and by
		each = min(each, (int64(use())-int64(before))/count)
	}
	t.Logf("%d bytes for each container", each)
	if each > most && !raceDetector {
		t.Errorf("%d bytes for each container, want at most %d", each, most)
	}
}

// BenchmarkOpen is what a container's start pays.
func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		var ns *os.File
		check(b, thread.Apart(func() (err error) {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			ns, err = os.Open("/proc/thread-self/ns/net")
			return err
		}))
		b.StartTimer()
		sock, err := Open(ns)
		b.StopTimer()
		check(b, err)
		check(b, sock.Close())
		check(b, ns.Close())
		b.StartTimer()
	}
}
