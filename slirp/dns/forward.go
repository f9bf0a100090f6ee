package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/miekg/dns"

	"moss/engine/thread"
)

const (
	// nextServer is how long a server is waited for before the next one is asked as well. Clients give up after five
	// seconds (glibc) or less (musl), so that waiting for each in turn would hide all but the first.
	nextServer = time.Second

	maxServers  = 3                // resolv.conf(5), MAXNS
	maxTimeout  = 10 * time.Second // of one question to one server; clients have given up long before
	maxAttempts = 5                // resolv.conf(5), RES_MAXRETRY
)

// asking is how questions get out.
type asking struct {
	servers  []netip.AddrPort
	timeout  time.Duration // for one server
	attempts int
	tcp      bool // also what came over UDP
	dial     func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error)
}

// forwardQuery asks outside and always has an answer, unless ctx is done.
func (s *Server) forwardQuery(ctx context.Context, v *View, q *query) []byte {
	a, err := s.upstreamOf(v)
	var reply []byte
	if err == nil {
		reply, err = a.askServers(ctx, s, q)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		s.opts.Log.Debug().Err(err).Str("name", q.msg.Question[0].Name).Msg("name server: no answer from outside")
	}
	if reply == nil {
		return q.failureReply()
	}
	return q.fitReply(reply)
}

// upstreamOf says whom to ask for a view, as of now.
func (s *Server) upstreamOf(v *View) (asking, error) {
	if len(v.Servers) > 0 {
		a := asking{timeout: defaultTimeout, attempts: defaultAttempts, dial: dialInside(v.NS)}
		for _, addr := range v.Servers {
			if addr != netip.MustParseAddr(Address) { // that is ourselves
				a.servers = append(a.servers, netip.AddrPortFrom(addr, port))
			}
		}
		return a, nil
	}
	if s.opts.Host == nil {
		return asking{}, errors.New("there is nobody to ask")
	}
	conf, err := s.opts.Host.readResolvConf()
	if err != nil {
		return asking{}, err
	}
	a := asking{timeout: conf.timeout, attempts: conf.attempts, tcp: conf.tcp, dial: dialHere}
	for _, addr := range conf.servers {
		a.servers = append(a.servers, netip.AddrPortFrom(addr, port))
	}
	if conf.rotate {
		first := rand.IntN(len(a.servers))
		a.servers = append(a.servers[first:len(a.servers):len(a.servers)], a.servers[:first]...)
	}
	return a, nil
}

// dialHere connects from the engine's network namespace, which is the host's.
func dialHere(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, to.String())
}

// dialInside connects from a container's network namespace. Only what the calling thread makes itself is inside: the
// address is one already, so that nothing is looked up and nothing else is started.
func dialInside(path string) func(context.Context, string, netip.AddrPort) (net.Conn, error) {
	return func(ctx context.Context, network string, to netip.AddrPort) (conn net.Conn, err error) {
		ns, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open the container's network namespace: %w", err)
		}
		defer func() { _ = ns.Close() }()
		err = thread.InNetwork(ns, func() error {
			conn, err = dialHere(ctx, network, to)
			return err
		})
		return conn, err
	}
}

type outcome struct {
	reply []byte
	good  bool // the last word; otherwise another server may know better
	err   error
}

// askServers asks one server after the other and takes the first good answer. Without one it returns the last answer
// there was.
func (a *asking) askServers(ctx context.Context, s *Server, q *query) (reply []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout*time.Duration(a.attempts)+s.next*maxServers)
	defer cancel()
	rounds := len(a.servers) * a.attempts
	outcomes := make(chan outcome)
	timer := time.NewTimer(0)
	defer timer.Stop()
	asked, open := 0, 0
	defer func() { // before the cancel above would come
		cancel()
		for ; open > 0; open-- {
			<-outcomes
		}
	}()
	for {
		var next <-chan time.Time
		if asked < rounds {
			next = timer.C
		} else if open == 0 {
			return reply, err
		}
		select {
		case <-next:
			server := a.servers[asked%len(a.servers)]
			asked, open = asked+1, open+1
			go func() { outcomes <- a.askOne(ctx, s, q, server) }()
			wait := s.next
			if asked%len(a.servers) == 0 {
				wait = a.timeout
			}
			timer.Reset(wait)
		case o := <-outcomes:
			open--
			if o.good {
				return o.reply, nil
			}
			if o.reply != nil {
				reply = o.reply
			}
			err = errors.Join(err, o.err)
			if asked < rounds {
				timer.Reset(0)
			}
		case <-ctx.Done():
			return reply, errors.Join(err, ctx.Err())
		}
	}
}

// askOne asks one server once, with an id of its own, from a port of its own.
func (a *asking) askOne(ctx context.Context, s *Server, q *query, server netip.AddrPort) outcome {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	network := "udp"
	if q.tcp || a.tcp {
		network = "tcp"
	}
	reply, err := a.exchangeMessages(ctx, s, q, network, server)
	if err != nil {
		return outcome{err: fmt.Errorf("ask %s: %w", server, err)}
	}
	switch code := int(reply[3] & 0xf); code {
	case dns.RcodeServerFailure, dns.RcodeNotImplemented, dns.RcodeRefused:
		return outcome{reply: reply, err: fmt.Errorf("ask %s: %s", server, dns.RcodeToString[code])}
	}
	return outcome{reply: reply, good: true}
}

func (a *asking) exchangeMessages(
	ctx context.Context, s *Server, q *query, network string, server netip.AddrPort,
) ([]byte, error) {
	conn, err := a.dial(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	raw := append([]byte(nil), q.raw...)
	id := uint16(rand.Uint32()) // ChaCha8: nobody outside can guess it
	binary.BigEndian.PutUint16(raw, id)
	if network == "tcp" {
		if err := writeMessage(conn, raw); err != nil {
			return nil, err
		}
		reply, err := readMessage(conn, maxTCP)
		if err == nil && !q.matchesReply(reply, id) {
			err = errors.New("the answer is to another question")
		}
		return reply, err
	}
	if _, err := conn.Write(raw); err != nil {
		return nil, err
	}
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		return nil, fmt.Errorf("%T is no UDP socket", conn)
	}
	rc, err := udp.SyscallConn()
	if err != nil {
		return nil, err
	}
	for {
		reply, _, err := s.receivePacket(rc)
		if err != nil || q.matchesReply(reply, id) {
			return reply, err
		}
	}
}

// matchesReply reports whether a reply is one to the question.
func (q *query) matchesReply(reply []byte, id uint16) bool {
	if len(reply) < header || binary.BigEndian.Uint16(reply) != id || reply[2]&0x80 == 0 {
		return false
	}
	asked := q.msg.Question[0]
	switch binary.BigEndian.Uint16(reply[4:]) {
	case 0: // some servers leave it out of an error
		return reply[3]&0xf != dns.RcodeSuccess
	case 1:
	default:
		return false
	}
	name, off, err := dns.UnpackDomainName(reply, header)
	return err == nil && strings.EqualFold(name, asked.Name) && len(reply) >= off+4 &&
		binary.BigEndian.Uint16(reply[off:]) == asked.Qtype && binary.BigEndian.Uint16(reply[off+2:]) == asked.Qclass
}
