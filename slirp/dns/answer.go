package dns

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

const (
	header = 12 // bytes
	// ttl is how long an address of a container is believed, in seconds: a container that is started again may have another
	// one, and programs that keep what they were told (nginx, the JVM) must not run after the old one for long.
	ttl = 5

	minUDP = dns.MinMsgSize // bytes; what a client takes that says nothing (RFC 1035, 4.2.1)
	maxTCP = dns.MaxMsgSize
)

// hostName reports whether a name is that of the host, in every container that may reach it.
func hostName(name string) bool {
	return name == "host.docker.internal" || name == "host.moss.internal"
}

// query is one that only the outside can answer.
type query struct {
	raw  []byte
	msg  *dns.Msg
	tcp  bool
	size int // bytes that the client takes
}

// answerLocally answers what needs nobody else. Without a reply and without a query the packet is dropped: it is an answer
// itself, or nothing that could be answered.
func (s *Server) answerLocally(v *View, raw []byte, tcp bool) (*query, []byte) {
	if len(raw) < header || raw[2]&0x80 != 0 {
		return nil, nil
	}
	msg := new(dns.Msg)
	if err := msg.Unpack(raw); err != nil || msg.Opcode == dns.OpcodeQuery && len(msg.Question) != 1 {
		return nil, formatError(raw)
	}
	q := &query{raw: raw, msg: msg, tcp: tcp, size: maxTCP}
	opt := msg.IsEdns0()
	if !tcp {
		q.size = minUDP
		if opt != nil {
			q.size = max(minUDP, int(opt.UDPSize()))
		}
	}
	switch {
	case msg.Opcode != dns.OpcodeQuery:
		return nil, q.statusReply(dns.RcodeNotImplemented)
	case opt != nil && opt.Version() != 0:
		return nil, q.statusReply(dns.RcodeBadVers)
	case msg.Question[0].Qclass != dns.ClassINET || isZoneTransfer(msg.Question[0].Qtype):
		return nil, q.statusReply(dns.RcodeRefused)
	}
	if reply, known := s.answerFromMemory(v, msg); known {
		return nil, q.packReply(reply)
	}
	if !v.Outside {
		return nil, q.statusReply(dns.RcodeNameError)
	}
	return q, nil
}

// isZoneTransfer reports whether a query takes more than one answer: there are no zones here.
func isZoneTransfer(kind uint16) bool { return kind == dns.TypeAXFR || kind == dns.TypeIXFR }

// answerFromMemory answers from memory. Whatever is asked about a name that is known here never leaves the host.
func (s *Server) answerFromMemory(v *View, msg *dns.Msg) (reply *dns.Msg, known bool) {
	asked := msg.Question[0]
	name := strings.ToLower(strings.TrimSuffix(asked.Name, "."))
	reply = new(dns.Msg).SetReply(msg)
	reply.RecursionAvailable = true
	if addr, ok := parseReverseName(name); ok {
		target := s.names.nameOf(v, addr)
		if target == "" {
			return nil, false
		}
		if asked.Qtype == dns.TypePTR || asked.Qtype == dns.TypeANY {
			reply.Answer = append(reply.Answer, &dns.PTR{Hdr: recordHeader(asked.Name, dns.TypePTR), Ptr: target})
		}
		return reply, true
	}
	addrs, known := s.names.lookupAddresses(v, name)
	switch {
	case !known && !hostName(name):
		return nil, false
	case !known && v.Host.IsValid():
		addrs = []netip.Addr{v.Host}
	case len(addrs) == 0:
		reply.Rcode = dns.RcodeNameError
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	for _, a := range addrs {
		kind := dns.TypeAAAA
		if a.Is4() {
			kind = dns.TypeA
		}
		switch {
		case asked.Qtype != kind && asked.Qtype != dns.TypeANY:
		case a.Is4():
			reply.Answer = append(reply.Answer, &dns.A{Hdr: recordHeader(asked.Name, kind), A: net.IP(a.AsSlice())})
		default:
			reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: recordHeader(asked.Name, kind), AAAA: net.IP(a.AsSlice())})
		}
	}
	return reply, true
}

func recordHeader(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

// parseReverseName returns the address that a name below in-addr.arpa or ip6.arpa is about.
func parseReverseName(name string) (netip.Addr, bool) {
	if rest, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		parts := strings.Split(rest, ".")
		if len(parts) != 4 {
			return netip.Addr{}, false
		}
		addr, err := netip.ParseAddr(parts[3] + "." + parts[2] + "." + parts[1] + "." + parts[0])
		return addr, err == nil
	}
	rest, ok := strings.CutSuffix(name, ".ip6.arpa")
	if !ok || len(rest) != 63 {
		return netip.Addr{}, false
	}
	var b strings.Builder
	for i := len(rest) - 1; i >= 0; i -= 2 {
		b.WriteByte(rest[i])
		if n := (len(rest) - i) / 2; n%4 == 3 && i > 0 {
			b.WriteByte(':')
		}
	}
	addr, err := netip.ParseAddr(b.String())
	return addr, err == nil
}

// statusReply makes an answer that says nothing but how it went.
func (q *query) statusReply(code int) []byte {
	reply := new(dns.Msg).SetRcode(q.msg, code)
	reply.RecursionAvailable = true
	if opt := q.msg.IsEdns0(); opt != nil {
		reply.SetEdns0(maxQuery, opt.Do())
	}
	return packMessage(reply)
}

func (q *query) failureReply() []byte { return q.statusReply(dns.RcodeServerFailure) }

// packReply makes a reply fit for the client.
func (q *query) packReply(reply *dns.Msg) []byte {
	if opt := q.msg.IsEdns0(); opt != nil && reply.IsEdns0() == nil {
		reply.SetEdns0(maxQuery, opt.Do())
	}
	reply.Compress = true
	reply.Truncate(q.size)
	if raw := packMessage(reply); raw != nil && len(raw) <= q.size {
		return raw
	}
	return q.failureReply()
}

// packMessage returns nothing for what cannot be written, such as a question that was no name.
func packMessage(reply *dns.Msg) []byte {
	raw, err := reply.Pack()
	if err != nil {
		return nil
	}
	return raw
}

// formatError answers what could not be read, with a header alone: it is never longer than what came.
func formatError(raw []byte) []byte {
	reply := make([]byte, header)
	copy(reply, raw[:2])
	reply[2] = 0x80 | raw[2]&0x79 // an answer; opcode and RD as they were
	reply[3] = 0x80 | dns.RcodeFormatError
	return reply
}

// fitReply makes an answer from outside fit for the client.
func (q *query) fitReply(raw []byte) []byte {
	binary.BigEndian.PutUint16(raw, q.msg.Id)
	if len(raw) <= q.size {
		return raw
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(raw); err != nil {
		return q.failureReply()
	}
	reply.Compress = true
	reply.Truncate(q.size)
	if short := packMessage(reply); short != nil && len(short) <= q.size {
		return short
	}
	return q.failureReply()
}
