package dns

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"
)

func packedQuery(t testing.TB, edit func(*dns.Msg)) []byte {
	t.Helper()
	m := question("web", dns.TypeA)
	edit(m)
	raw, err := m.Pack()
	check(t, err)
	return raw
}

// TestMalformed looks what becomes of packets that are no proper query.
func TestMalformed(t *testing.T) {
	const dropped = -1
	s := newServer(t, Options{})
	furnish(s)
	v := &View{Networks: []string{"n1"}}
	good := packedQuery(t, func(*dns.Msg) {})
	for _, tc := range []struct {
		name string
		raw  []byte
		want int // status
	}{
		{"a good one", good, dns.RcodeSuccess},
		{"nothing", nil, dropped},
		{"half a header", good[:11], dropped},
		{"a header alone", good[:12], dns.RcodeFormatError},
		{"cut off", good[:len(good)-1], dns.RcodeFormatError},
		{"an answer", packedQuery(t, func(m *dns.Msg) { m.Response = true }), dropped},
		{"an answer that is broken", append([]byte{0, 0, 0x80}, make([]byte, 20)...), dropped},
		{"no question", packedQuery(t, func(m *dns.Msg) { m.Question = nil }), dns.RcodeFormatError},
		{"two questions", packedQuery(t, func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }), dns.RcodeFormatError},
		{"a loop of pointers", append(append([]byte{}, good[:12]...), 0xc0, 12, 0, 1, 0, 1), dns.RcodeFormatError},
		{"an update", packedQuery(t, func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }), dns.RcodeNotImplemented},
		{"a notify", packedQuery(t, func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }), dns.RcodeNotImplemented},
		{"another class", packedQuery(t, func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }), dns.RcodeRefused},
		{"a zone transfer", packedQuery(t, func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }), dns.RcodeRefused},
		{"a later EDNS", packedQuery(t, func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }), dns.RcodeBadVers},
		{"the root", packedQuery(t, func(m *dns.Msg) { m.Question[0].Name = "." }), dns.RcodeNameError},
		{"a dot in a label", packedQuery(t, func(m *dns.Msg) { m.Question[0].Name = `we\.b.` }), dns.RcodeNameError},
		{"a nul in a label", packedQuery(t, func(m *dns.Msg) { m.Question[0].Name = `web\000.` }), dns.RcodeNameError},
	} {
		q, reply := s.answerLocally(v, tc.raw, false)
		got := dropped
		if reply != nil {
			var m dns.Msg
			if err := m.Unpack(reply); err != nil || !m.Response || m.Id != binary.BigEndian.Uint16(tc.raw) {
				t.Errorf("%s: the answer is %v, %v", tc.name, m, err)
			}
			got = m.Rcode
		}
		if q != nil || got != tc.want {
			t.Errorf("%s: status %d, forwarded %t, want %d, false", tc.name, got, q != nil, tc.want)
		}
	}
}

// FuzzAnswer sends the name server whatever there may be.
func FuzzAnswer(f *testing.F) {
	for _, edit := range []func(*dns.Msg){
		func(*dns.Msg) {},
		func(m *dns.Msg) { m.SetEdns0(4096, true) },
		func(m *dns.Msg) { m.Question[0].Name = "2.0.18.172.in-addr.arpa." },
		func(m *dns.Msg) {
			m.Question[0].Name = "2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa."
		},
		func(m *dns.Msg) { m.Question[0].Name = "www.example.com.front." },
		func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeANY },
		func(m *dns.Msg) { m.Response = true },
		func(m *dns.Msg) { m.Question = nil },
	} {
		f.Add(packedQuery(f, edit), true, false)
		f.Add(packedQuery(f, edit), false, true)
	}
	s := NewServer(f.Context(), Options{})
	furnish(s)
	f.Fuzz(func(t *testing.T, raw []byte, outside, tcp bool) {
		v := &View{Networks: []string{"n1", "n2", "n4"}, Links: map[string]Links{"n1": {"a": "c1"}}, Outside: outside, Host: netip.MustParseAddr("10.0.2.2")}
		q, reply := s.answerLocally(v, raw, tcp)
		if q != nil && !outside {
			t.Error("an internal network's query would be forwarded")
		}
		if q != nil {
			reply = q.failureReply()
		}
		if len(raw) >= header && raw[2]&0x80 == 0 && reply == nil {
			t.Error("a query has no answer")
		}
		if reply == nil {
			return
		}
		if len(raw) < header || len(reply) < header || reply[2]&0x80 == 0 || reply[0] != raw[0] || reply[1] != raw[1] {
			t.Fatalf("%x is answered %x", raw, reply)
		}
		if !tcp && len(reply) > 65535 {
			t.Errorf("%d bytes over UDP", len(reply))
		}
		var m dns.Msg
		if err := m.Unpack(reply); err != nil {
			t.Errorf("%x is answered %x: %v", raw, reply, err)
		}
	})
}

// FuzzReply sends it whatever an upstream server may.
func FuzzReply(f *testing.F) {
	q := question("example.org", dns.TypeA)
	reply := new(dns.Msg).SetReply(q)
	says("192.0.2.1")(reply, false)
	raw, err := reply.Pack()
	check(f, err)
	f.Add(raw, uint16(100))
	f.Add(raw[:12], uint16(0))
	f.Fuzz(func(t *testing.T, raw []byte, size uint16) {
		asked := &query{msg: q, size: max(minUDP, int(size))}
		if !asked.matchesReply(raw, q.Id) {
			return
		}
		got := asked.fitReply(append([]byte(nil), raw...))
		if len(got) > asked.size || len(got) < header || binary.BigEndian.Uint16(got) != q.Id {
			t.Errorf("%x becomes %x", raw, got)
		}
	})
}

// FuzzResolvConf reads whatever a host may have.
func FuzzResolvConf(f *testing.F) {
	f.Add("nameserver 1.1.1.1\nsearch a b\noptions timeout:1 attempts:2 rotate\n")
	f.Add("nameserver fe80::1%eth0\noptions timeout:99999999999999999999\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := parseResolvConf(text)
		if n := len(c.servers); n < 1 || n > maxServers || c.timeout <= 0 || c.timeout > maxTimeout || c.attempts < 1 || c.attempts > maxAttempts {
			t.Errorf("parseResolvConf(%q) = %v", text, c)
		}
	})
}

// FuzzResolve follows whatever links a host may have: the path that comes out stays below the root.
func FuzzResolve(f *testing.F) {
	f.Add("../run/x", "/etc/y")
	f.Add("../../../../../..", "resolv.conf")
	f.Fuzz(func(t *testing.T, one, two string) {
		host, path := hostWith(t, "nameserver 192.0.2.1\n")
		if os.Remove(path) != nil || os.Symlink(one, path) != nil || os.Symlink(two, filepath.Join(filepath.Dir(path), "y")) != nil {
			t.Skip("no links")
		}
		if got, err := host.resolvePath(resolvConf); err == nil && got != host.root {
			if rel, err := filepath.Rel(host.root, got); err != nil || !filepath.IsLocal(rel) {
				t.Errorf("links %q, %q lead to %s", one, two, got)
			}
		}
		_, _ = host.readResolvConf()
	})
}

// FuzzConversation sends bytes over a TCP connection: it ends, and the server goes on.
func FuzzConversation(f *testing.F) {
	good := packedQuery(f, func(*dns.Msg) {})
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(good))), good...)
	f.Add(framed)
	f.Add(append(framed, framed...))
	f.Add([]byte{0xff, 0xff, 1})
	s := NewServer(f.Context(), Options{})
	furnish(s)
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		defer func() { _ = l.Close() }()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c := &client{server: s}
			c.view.Store(&View{Networks: []string{"n1"}})
			c.serveConn(context.Background(), conn)
			_ = conn.Close()
		}()
		conn, err := net.Dial("tcp", l.Addr().String())
		check(t, err)
		_, _ = conn.Write(data)
		_ = conn.(*net.TCPConn).CloseWrite()
		<-ended
		_ = conn.Close()
	})
}
