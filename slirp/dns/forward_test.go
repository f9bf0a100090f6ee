package dns

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"moss/slirp/slirptest"
)

// silent never answers.
func silent(*dns.Msg, bool) bool { return false }

// TestForward looks who is asked, and what becomes of what they say.
func TestForward(t *testing.T) {
	for _, tc := range []struct {
		name    string
		conf    string
		answers map[string]func(*dns.Msg, bool) bool // by address
		network string
		want    string
		asked   map[string]int // how often at least
	}{
		{
			"the first one", "nameserver 127.0.0.53\nnameserver 127.0.0.54\noptions timeout:10\n",
			map[string]func(*dns.Msg, bool) bool{"127.0.0.53": says("192.0.2.1"), "127.0.0.54": says("192.0.2.2")},
			"udp", "192.0.2.1",
			map[string]int{"127.0.0.53": 1, "127.0.0.54": 0},
		},
		{
			"over TCP", "nameserver 127.0.0.53\n",
			map[string]func(*dns.Msg, bool) bool{"127.0.0.53": says("192.0.2.1")},
			"tcp", "192.0.2.1",
			map[string]int{"127.0.0.53": 1},
		},
		{
			"nobody there, then one", "nameserver 127.0.0.53\nnameserver 127.0.0.54\n",
			map[string]func(*dns.Msg, bool) bool{"127.0.0.54": says("192.0.2.2")},
			"udp", "192.0.2.2",
			map[string]int{"127.0.0.54": 1},
		},
		{
			"nobody there over TCP, then one", "nameserver 127.0.0.53\nnameserver 127.0.0.54\n",
			map[string]func(*dns.Msg, bool) bool{"127.0.0.54": says("192.0.2.2")},
			"tcp", "192.0.2.2",
			map[string]int{"127.0.0.54": 1},
		},
		{
			"SERVFAIL and REFUSED, then one", "nameserver 127.0.0.53\nnameserver 127.0.0.54\nnameserver 127.0.0.55\n",
			map[string]func(*dns.Msg, bool) bool{
				"127.0.0.53": fails(dns.RcodeServerFailure), "127.0.0.54": fails(dns.RcodeRefused), "127.0.0.55": says("192.0.2.3"),
			},
			"udp", "192.0.2.3",
			map[string]int{"127.0.0.53": 1, "127.0.0.54": 1, "127.0.0.55": 1},
		},
		{
			"NXDOMAIN is the last word", "nameserver 127.0.0.53\nnameserver 127.0.0.54\noptions timeout:10\n",
			map[string]func(*dns.Msg, bool) bool{"127.0.0.53": fails(dns.RcodeNameError), "127.0.0.54": says("192.0.2.2")},
			"udp", "NXDOMAIN",
			map[string]int{"127.0.0.53": 1, "127.0.0.54": 0},
		},
		{
			"silence, then one", "nameserver 127.0.0.53\nnameserver 127.0.0.54\noptions timeout:10\n",
			map[string]func(*dns.Msg, bool) bool{"127.0.0.53": silent, "127.0.0.54": says("192.0.2.2")},
			"udp", "192.0.2.2",
			map[string]int{"127.0.0.53": 1, "127.0.0.54": 1},
		},
		{
			"silence everywhere", "nameserver 127.0.0.53\noptions timeout:1 attempts:3\n",
			map[string]func(*dns.Msg, bool) bool{"127.0.0.53": silent},
			"udp", "SERVFAIL",
			map[string]int{"127.0.0.53": 3},
		},
		{
			"refused everywhere", "nameserver 127.0.0.53\n",
			map[string]func(*dns.Msg, bool) bool{"127.0.0.53": fails(dns.RcodeRefused)},
			"udp", "REFUSED",
			map[string]int{"127.0.0.53": 2},
		},
		{"nobody anywhere", "nameserver 127.0.0.53\n", nil, "udp", "SERVFAIL", nil},
		{
			"only TCP wanted", "nameserver 127.0.0.53\noptions use-vc\n",
			map[string]func(*dns.Msg, bool) bool{"127.0.0.53": func(reply *dns.Msg, tcp bool) bool { return tcp && says("192.0.2.1")(reply, tcp) }},
			"udp", "192.0.2.1",
			map[string]int{"127.0.0.53": 1},
		},
		{
			"the machine itself by default", "search example.org\n",
			map[string]func(*dns.Msg, bool) bool{"127.0.0.1": says("192.0.2.1")},
			"udp", "192.0.2.1",
			map[string]int{"127.0.0.1": 1},
		},
		{
			"IPv6", "nameserver ::1\n",
			map[string]func(*dns.Msg, bool) bool{"::1": says("192.0.2.1")},
			"udp", "192.0.2.1",
			map[string]int{"::1": 1},
		},
		{
			"IPv6 with a scope", "nameserver ::1%lo\n",
			map[string]func(*dns.Msg, bool) bool{"::1": says("192.0.2.1")},
			"tcp", "192.0.2.1",
			map[string]int{"::1": 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host, _ := hostWith(t, tc.conf)
			servers := make(map[string]*upstream)
			for addr, answer := range tc.answers {
				servers[addr] = serve(t, "", addr, answer)
			}
			s := newServer(t, Options{Host: host})
			most := maxTimeout                  // until the silent one has failed
			if tc.name != "silence, then one" { // however busy the machine is, the next one is asked after a failure alone
				s.next, most = time.Minute, time.Minute
			}
			c := newContainer(t, s, "c1", View{Outside: true})
			began := time.Now()
			if got := show(c.exchange(tc.network, question("example.org", dns.TypeA))); got != tc.want {
				t.Errorf("the answer is %q, want %q", got, tc.want)
			}
			if took := time.Since(began); took >= most {
				t.Errorf("it took %s", took)
			}
			for addr, least := range tc.asked {
				if got := len(servers[addr].asked()); got < least || least == 0 && got > 0 {
					t.Errorf("%s was asked %d times, want %d", addr, got, least)
				}
			}
		})
	}
}

// TestRotate looks that each server is asked first at times.
func TestRotate(t *testing.T) {
	host, _ := hostWith(t, "nameserver 127.0.0.53\nnameserver 127.0.0.54\noptions rotate\n")
	for _, addr := range []string{"127.0.0.53", "127.0.0.54"} {
		serve(t, "", addr, says(addr))
	}
	s := newServer(t, Options{Host: host})
	c := newContainer(t, s, "c1", View{Outside: true})
	seen := make(map[string]bool)
	for range 60 { // 2^-59 that it stays one
		seen[c.ask("example.org", dns.TypeA)] = true
	}
	if !seen["127.0.0.53"] || !seen["127.0.0.54"] {
		t.Errorf("only %v were asked", seen)
	}
}

// TestTruncated passes a large answer on: by UDP as far as the client takes it, by TCP whole.
func TestTruncated(t *testing.T) {
	host, _ := hostWith(t, "nameserver 127.0.0.53\n")
	text := make([]string, 10)
	for i := range text {
		text[i] = strings.Repeat("t", 200)
	}
	for name, careless := range map[string]bool{"a server that cuts": false, "a server that sends all": true} {
		t.Run(name, func(t *testing.T) {
			outside := serve(t, "", "127.0.0.53", func(reply *dns.Msg, tcp bool) bool {
				for _, s := range text {
					reply.Answer = append(reply.Answer, &dns.TXT{Hdr: recordHeader(reply.Question[0].Name, dns.TypeTXT), Txt: []string{s}})
				}
				if !tcp && !careless {
					reply.Truncate(dns.MinMsgSize)
				}
				return true
			})
			s := newServer(t, Options{Host: host})
			c := newContainer(t, s, "c1", View{Outside: true})
			reply := c.exchange("udp", question("example.org", dns.TypeTXT))
			if n := len(reply.Answer); !reply.Truncated || n == 0 || n >= len(text) {
				t.Errorf("over UDP: truncated %t, %d of %d records", reply.Truncated, n, len(text))
			}
			reply = c.exchange("tcp", question("example.org", dns.TypeTXT))
			if n := len(reply.Answer); reply.Truncated || n != len(text) {
				t.Errorf("over TCP: truncated %t, %d of %d records", reply.Truncated, n, len(text))
			}
			if got, want := outside.asked(), []string{"udp example.org.", "tcp example.org."}; !slices.Equal(got, want) {
				t.Errorf("the server was asked %q, want %q", got, want)
			}
		})
	}
}

// TestPassedOn looks that a query arrives as it was sent, and the answer as it was given, but for the id.
func TestPassedOn(t *testing.T) {
	host, _ := hostWith(t, "nameserver 127.0.0.53\n")
	arrived := make(chan *dns.Msg, 1)
	serve(t, "", "127.0.0.53", func(reply *dns.Msg, tcp bool) bool {
		arrived <- reply.Copy()
		reply.AuthenticatedData, reply.Authoritative = true, true
		reply.SetEdns0(1400, true)
		reply.Extra = append(reply.Extra, &dns.A{Hdr: recordHeader("extra.example.", dns.TypeA), A: []byte{192, 0, 2, 9}})
		return says("192.0.2.1")(reply, tcp)
	})
	s := newServer(t, Options{Host: host})
	c := newContainer(t, s, "c1", View{Outside: true})
	q := question("eXample.oRG", dns.TypeA)
	q.CheckingDisabled = true
	q.SetEdns0(1232, true)
	q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0011223344556677"})
	reply := c.exchange("udp", q)
	got := <-arrived
	if got.Question[0].Name != "eXample.oRG." || !got.CheckingDisabled || !got.RecursionDesired {
		t.Errorf("what arrived is %v", got)
	}
	if reply.Id != q.Id || !reply.AuthenticatedData || !reply.Authoritative || reply.IsEdns0() == nil || len(reply.Extra) != 2 {
		t.Errorf("what came back is %v", reply)
	}
}

// TestOwnServers asks those that the client named, from inside.
func TestOwnServers(t *testing.T) {
	host, _ := hostWith(t, "nameserver 127.0.0.53\n")
	outside := serve(t, "", "127.0.0.53", says("192.0.2.1"))
	s := newServer(t, Options{Host: host})
	furnish(s)
	v := View{Networks: []string{"n1"}, Outside: true, Servers: addrs(Address, "127.0.0.53")}
	c := newContainer(t, s, "c1", v)
	serve(t, c.ns, "127.0.0.53", says("192.0.2.7"))
	for _, network := range []string{"udp", "tcp"} {
		if got, want := show(c.exchange(network, question("example.org", dns.TypeA))), "192.0.2.7"; got != want {
			t.Errorf("over %s: %q, want %q", network, got, want)
		}
	}
	if got, want := c.ask("web", dns.TypeA), "172.18.0.2"; got != want {
		t.Errorf("web is %q, want %q", got, want)
	}
	// One that is reached over the network is, too: the test's own namespace is the outside.
	v.Servers, v.NS = addrs(slirptest.OutsideAddr), c.ns
	serve(t, "", slirptest.OutsideAddr, says("192.0.2.8"))
	check(t, s.Update("c1", v))
	if got, want := c.ask("example.org", dns.TypeA), "192.0.2.8"; got != want {
		t.Errorf("over the uplink: %q, want %q", got, want)
	}
	v.Servers = addrs(Address)
	check(t, s.Update("c1", v))
	if got, want := c.ask("example.org", dns.TypeA), "SERVFAIL"; got != want {
		t.Errorf("with nobody but ourselves: %q, want %q", got, want)
	}
	if asked := outside.asked(); len(asked) != 0 {
		t.Errorf("the host's server was asked %q", asked)
	}
}

// TestLies looks that only answers to what was asked are taken.
func TestLies(t *testing.T) {
	q := &query{msg: question("example.org", dns.TypeA), size: maxTCP}
	answer := func(lie func(*dns.Msg)) bool {
		reply := new(dns.Msg).SetReply(q.msg)
		says("192.0.2.66")(reply, false)
		lie(reply)
		raw, err := reply.Pack()
		check(t, err)
		return q.matchesReply(raw, q.msg.Id)
	}
	if !answer(func(m *dns.Msg) { m.Question[0].Name = "Example.ORG." }) {
		t.Error("the truth is not taken")
	}
	for name, lie := range map[string]func(*dns.Msg){
		"another id":       func(m *dns.Msg) { m.Id++ },
		"another name":     func(m *dns.Msg) { m.Question[0].Name = "evil.example." },
		"another type":     func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA },
		"a query":          func(m *dns.Msg) { m.Response = false },
		"no question":      func(m *dns.Msg) { m.Question = nil },
		"several of them":  func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) },
		"another class":    func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS },
		"a longer name":    func(m *dns.Msg) { m.Question[0].Name = "example.org.evil." },
		"a name cut short": func(m *dns.Msg) { m.Question[0].Name = "org." },
	} {
		if answer(lie) {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestRoaming changes what the host resolves with in all the ways there are, while queries come.
func TestRoaming(t *testing.T) {
	for _, addr := range []string{"127.0.0.53", "127.0.0.54", "127.0.0.55"} {
		serve(t, "", addr, says(addr))
	}
	for name, covered := range map[string]bool{"plain": false, "under RootlessKit": true} {
		t.Run(name, func(t *testing.T) {
			host, root := coveredHost(t, covered)
			conf := filepath.Join(root, resolvConf)
			s := newServer(t, Options{Host: host})
			c := newContainer(t, s, "c1", View{Outside: true})
			step := func(what, want string) {
				t.Helper()
				for range 2 { // the second one may be remembered
					if got := c.ask("example.org", dns.TypeA); got != want {
						t.Errorf("%s: %q, want %q", what, got, want)
					}
				}
			}
			write := func(path, server string) { check(t, os.WriteFile(path, []byte("nameserver "+server+"\n"), 0o600)) }
			step("at the start", "127.0.0.53")
			write(conf, "127.0.0.54")
			step("written over", "127.0.0.54")
			write(conf+".new", "127.0.0.55")
			check(t, os.Rename(conf+".new", conf))
			step("renamed over", "127.0.0.55")
			check(t, os.MkdirAll(filepath.Join(root, "run/systemd/resolve"), 0o755))
			write(filepath.Join(root, "run/systemd/resolve/stub-resolv.conf"), "127.0.0.53")
			check(t, os.Remove(conf))
			step("missing", "SERVFAIL")
			check(t, os.Symlink("../run/systemd/resolve/stub-resolv.conf", conf))
			step("a link", "127.0.0.53")
			check(t, os.Mkdir(filepath.Join(root, "run/NetworkManager"), 0o755))
			write(filepath.Join(root, "run/NetworkManager/resolv.conf"), "127.0.0.54")
			check(t, os.Symlink("/var/run/NetworkManager/resolv.conf", conf+".new"))
			check(t, os.MkdirAll(filepath.Join(root, "var"), 0o755))
			check(t, os.Symlink("/run", filepath.Join(root, "var/run")))
			check(t, os.Rename(conf+".new", conf))
			step("another link, through a link", "127.0.0.54")
			write(filepath.Join(root, "run/NetworkManager/resolv.conf"), "127.0.0.55")
			step("behind the link", "127.0.0.55")
			check(t, os.Remove(conf))
			check(t, os.Symlink("resolv.conf", conf))
			step("a loop", "SERVFAIL")
			check(t, os.Remove(conf))
			check(t, unix.Mkfifo(conf, 0o600))
			step("a pipe that nobody writes to", "SERVFAIL")
			check(t, os.Remove(conf))
			check(t, os.Mkdir(conf, 0o700))
			step("a folder", "SERVFAIL")
		})
	}
}

// coveredHost returns a host, and the folder where what is changed is the host's. If it is covered, the host is looked at
// through /etc and /run as RootlessKit's child has them.
func coveredHost(t *testing.T, covered bool) (*Host, string) {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"etc", "run"} {
		check(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	check(t, os.WriteFile(filepath.Join(root, resolvConf), []byte("nameserver 127.0.0.53\n"), 0o600))
	if !covered {
		return NewHost(root), root
	}
	inner := t.TempDir()
	check(t, unix.Mount(root, inner, "", unix.MS_BIND|unix.MS_REC, ""))
	t.Cleanup(func() { check(t, unix.Unmount(inner, unix.MNT_DETACH)) })
	for i, dir := range []string{"etc", "run"} {
		over := filepath.Join(inner, dir)
		check(t, unix.Mount("none", over, "tmpfs", 0, ""))
		t.Cleanup(func() { check(t, unix.Unmount(over, unix.MNT_DETACH)) })
		check(t, os.Mkdir(filepath.Join(over, ".ro-no"), 0o700))
		check(t, os.Mkdir(filepath.Join(over, ".ro00"), 0o700)) // not mounted
		ro := fmt.Sprintf(".ro%d", 2000000000+i)
		check(t, os.Mkdir(filepath.Join(over, ro), 0o700))
		check(t, unix.Mount(filepath.Join(root, dir), filepath.Join(over, ro), "", unix.MS_BIND|unix.MS_REC, ""))
		if dir == "etc" {
			check(t, os.Symlink(ro+"/resolv.conf", filepath.Join(over, "resolv.conf")))
		}
	}
	return NewHost(inner), root
}

func TestParseResolvConf(t *testing.T) {
	five, two := 5*time.Second, 2
	for _, tc := range []struct {
		text string
		want conf
	}{
		{"", conf{servers: addrs("127.0.0.1"), timeout: five, attempts: two}},
		{
			"# comment\nnameserver 1.1.1.1\n nameserver\t2.2.2.2 \n;x\nnameserver nonsense\nnameserver fe80::1%eth0\nnameserver 4.4.4.4\n",
			conf{servers: addrs("1.1.1.1", "2.2.2.2", "fe80::1%eth0"), timeout: five, attempts: two},
		},
		{"domain a\nsearch b c\nnameserver ::1", conf{servers: addrs("::1"), search: []string{"b", "c"}, timeout: five, attempts: two}},
		{
			"options ndots:3 timeout:1 rotate\noptions attempts:9 use-vc timeout:x edns0\n",
			conf{
				servers: addrs("127.0.0.1"), options: []string{"ndots:3", "timeout:1", "rotate", "attempts:9", "use-vc", "timeout:x", "edns0"},
				timeout: time.Second, attempts: maxAttempts, rotate: true, tcp: true,
			},
		},
		{"options timeout:3000000000 attempts:-1", conf{servers: addrs("127.0.0.1"), options: []string{"timeout:3000000000", "attempts:-1"}, timeout: maxTimeout, attempts: two}},
	} {
		if got := parseResolvConf(tc.text); fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("parseResolvConf(%q) = %v, want %v", tc.text, got, tc.want)
		}
	}
	host, path := hostWith(t, "search corp.example lan\noptions ndots:2\n")
	for range 2 {
		if got := strings.Join(append(host.Search(), host.Options()...), " "); got != "corp.example lan ndots:2" {
			t.Errorf("the host says %q", got)
		}
	}
	check(t, os.Remove(path))
	if got := append(host.Search(), host.Options()...); len(got) != 0 {
		t.Errorf("a host without resolv.conf says %q", got)
	}
}

// TestRemembered looks that a file that is old enough is not parsed again, and that a change is noticed all the same. The
// times of files are the kernel's: the bubble's clock, which begins in another year, is set by them.
func TestRemembered(t *testing.T) {
	host, path := hostWith(t, "nameserver 192.0.2.1\n")
	info, err := os.Stat(path)
	check(t, err)
	made := info.ModTime()
	synctest.Test(t, func(t *testing.T) {
		read := func() string {
			t.Helper()
			c, err := host.readResolvConf()
			check(t, err)
			return c.servers[0].String()
		}
		time.Sleep(time.Until(made.Add(settled)))
		read()
		if host.stamp != (stamp{}) {
			t.Errorf("a file that changed %s ago is remembered", settled)
		}
		time.Sleep(time.Second) // the time of its change is somewhat later than that of its content
		read()
		if host.stamp == (stamp{}) {
			t.Errorf("a file that changed more than %s ago is not remembered", settled)
		}
		host.known.servers = []netip.Addr{netip.MustParseAddr("192.0.2.9")}
		if got := read(); got != "192.0.2.9" {
			t.Errorf("an old file is read again: %s", got)
		}
		check(t, os.WriteFile(path, []byte("nameserver 192.0.2.2\n"), 0o600))
		if got, want := read(), "192.0.2.2"; got != want {
			t.Errorf("after a change: %s, want %s", got, want)
		}
	})
}

// TestFlood looks that one container's questions to a server that says nothing stay bounded, and that names of the
// network are answered all the while.
func TestFlood(t *testing.T) {
	host, path := hostWith(t, "nameserver 127.0.0.53\noptions timeout:10 attempts:1\n") // those of the flood wait all the while
	outside := serve(t, "", "127.0.0.53", silent)
	s := newServer(t, Options{Host: host})
	furnish(s)
	c := newContainer(t, s, "c1", View{Networks: []string{"n1"}, Outside: true})
	other := newContainer(t, s, "c2", View{Networks: []string{"n1"}, Outside: true})
	const sent = 3 * maxForwardsEach
	slirptest.In(t, c.ns, func() error {
		conn, err := dns.Dial("udp", Address+":53")
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		for i := range sent {
			if err := conn.WriteMsg(question(fmt.Sprintf("n%d.example", i), dns.TypeA)); err != nil {
				return err
			}
		}
		return nil
	})
	if got, want := c.ask("web", dns.TypeA), "172.18.0.2"; got != want {
		t.Errorf("in the flood web is %q, want %q", got, want)
	}
	check(t, os.WriteFile(path, []byte("nameserver 127.0.0.53\noptions timeout:1 attempts:1\n"), 0o600))
	if got, want := other.ask("example.org", dns.TypeA), "SERVFAIL"; got != want { // it was asked, and waited for
		t.Errorf("another container gets %q, want %q", got, want)
	}
	if got, most := len(outside.asked()), maxForwardsEach+1; got > most || got < maxForwardsEach/2 {
		t.Errorf("%d questions went out, want at most %d", got, most)
	}
	check(t, s.Close())
	if s.limit.all != 0 || len(s.limit.now) != 0 {
		t.Errorf("%d are counted as waiting at the end, %v", s.limit.all, s.limit.now)
	}
}
