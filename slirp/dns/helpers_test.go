package dns

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/rs/zerolog"

	"moss/slirp/slirptest"
)

func TestMain(m *testing.M) { slirptest.Main(m) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// upstream is a name server outside that counts what it is asked.
type upstream struct {
	addr string
	mu   sync.Mutex // guards seen
	seen []string   // "udp name" in order
}

func (u *upstream) asked() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.seen)
}

// serve starts one at port 53 of addr in the network namespace ns ("": the test's own). answer fills in the reply; one
// that returns false says nothing at all.
func serve(t testing.TB, ns, addr string, answer func(reply *dns.Msg, tcp bool) bool) *upstream {
	t.Helper()
	u := &upstream{addr: addr}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		_, tcp := w.RemoteAddr().(*net.TCPAddr)
		kind := map[bool]string{true: "tcp ", false: "udp "}[tcp]
		u.mu.Lock()
		u.seen = append(u.seen, kind+q.Question[0].Name)
		u.mu.Unlock()
		reply := new(dns.Msg).SetReply(q)
		if answer(reply, tcp) {
			_ = w.WriteMsg(reply)
		}
	})
	at := net.JoinHostPort(addr, "53")
	var (
		pc net.PacketConn
		l  net.Listener
	)
	open := func() (err error) {
		if pc, err = net.ListenPacket("udp", at); err != nil {
			return err
		}
		l, err = net.Listen("tcp", at)
		return err
	}
	if ns == "" {
		check(t, open())
	} else {
		slirptest.In(t, ns, open)
	}
	for _, srv := range []*dns.Server{{PacketConn: pc, Handler: handler}, {Listener: l, Handler: handler}} {
		started := make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		ended := make(chan error, 1)
		go func() { ended <- srv.ActivateAndServe() }()
		<-started
		t.Cleanup(func() {
			check(t, srv.Shutdown())
			check(t, <-ended)
		})
	}
	return u
}

// says answers each A with one address.
func says(ip string) func(*dns.Msg, bool) bool {
	return func(reply *dns.Msg, _ bool) bool {
		if reply.Question[0].Qtype == dns.TypeA {
			reply.Answer = append(reply.Answer, &dns.A{Hdr: recordHeader(reply.Question[0].Name, dns.TypeA), A: net.ParseIP(ip)})
		}
		return true
	}
}

// fails answers with a code.
func fails(code int) func(*dns.Msg, bool) bool {
	return func(reply *dns.Msg, _ bool) bool { reply.Rcode = code; return true }
}

// hostWith returns a host with a resolv.conf, and the path of that.
func hostWith(t testing.TB, text string) (*Host, string) {
	t.Helper()
	root := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	path := filepath.Join(root, resolvConf)
	check(t, os.WriteFile(path, []byte(text), 0o600))
	return NewHost(root), path
}

// container is a network namespace with a name server for it.
type container struct {
	t      testing.TB
	ns     string
	server *Server
}

func newServer(t testing.TB, opts Options) *Server {
	t.Helper()
	opts.Log = zerolog.New(zerolog.NewTestWriter(t))
	s := NewServer(t.Context(), opts)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

func openNS(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// newContainer attaches a container to a server.
func newContainer(t testing.TB, s *Server, owner string, v View) *container {
	t.Helper()
	c := &container{t: t, ns: slirptest.Detached(t, t.TempDir()), server: s}
	sock, err := Open(openNS(t, c.ns))
	check(t, err)
	if len(v.Servers) > 0 {
		v.NS = c.ns
	}
	check(t, s.Attach(owner, sock, v))
	return c
}

// exchange asks from inside.
func (c *container) exchange(network string, q *dns.Msg) *dns.Msg {
	c.t.Helper()
	return c.exchangeAt(network, Address, q)
}

func (c *container) exchangeAt(network, server string, q *dns.Msg) (reply *dns.Msg) {
	c.t.Helper()
	slirptest.In(c.t, c.ns, func() (err error) {
		client := &dns.Client{Net: network, Timeout: time.Minute, UDPSize: dns.MaxMsgSize}
		for range 3 { // as clients do: a packet may get lost
			if reply, _, err = client.Exchange(q, net.JoinHostPort(server, "53")); err == nil {
				return nil
			}
		}
		return err
	})
	return reply
}

func question(name string, kind uint16) *dns.Msg {
	return new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
}

// ask returns what a name resolves to, sorted, and how that went if it did not go well.
func (c *container) ask(name string, kind uint16) string {
	c.t.Helper()
	return show(c.exchange("udp", question(name, kind)))
}

func show(reply *dns.Msg) string {
	var all []string
	for _, rr := range reply.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			all = append(all, rr.A.String())
		case *dns.AAAA:
			all = append(all, rr.AAAA.String())
		case *dns.PTR:
			all = append(all, rr.Ptr)
		default:
			all = append(all, rr.String())
		}
	}
	slices.Sort(all)
	if reply.Rcode != dns.RcodeSuccess {
		all = append(all, dns.RcodeToString[reply.Rcode])
	}
	return strings.Join(all, " ")
}

func addrs(all ...string) []netip.Addr {
	parsed := make([]netip.Addr, 0, len(all))
	for _, a := range all {
		parsed = append(parsed, netip.MustParseAddr(a))
	}
	return parsed
}

// shelf keeps descriptors like the engine's supervisor.
type shelf struct {
	held map[string]*os.File
	left map[string]*os.File
}

func newShelf() *shelf { return &shelf{held: make(map[string]*os.File)} }

func (s *shelf) Put(name string, fd uintptr) error {
	f, err := dup(fd, name)
	if err != nil {
		return err
	}
	return errors.Join(s.Drop(name), func() error { s.held[name] = f; return nil }())
}

func (s *shelf) Drop(name string) error {
	f, ok := s.held[name]
	delete(s.held, name)
	if !ok {
		return nil
	}
	return f.Close()
}

// next begins another engine's life.
func (s *shelf) next(t testing.TB) {
	t.Helper()
	s.left = make(map[string]*os.File)
	for name, f := range s.held {
		d, err := dup(f.Fd(), name)
		check(t, err)
		s.left[name] = d
	}
}

func (s *shelf) Names() []string {
	names := make([]string, 0, len(s.left))
	for name := range s.left {
		names = append(names, name)
	}
	return names
}

func (s *shelf) Take(name string) *os.File {
	f := s.left[name]
	delete(s.left, name)
	return f
}
