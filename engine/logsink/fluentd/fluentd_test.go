package fluentd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/logsink"
	"moss/engine/logsink/stream/streamtest"
	"moss/engine/stdio"
)

// trusted vouches for the receivers of these tests.
var trusted *streamtest.Authority

func TestMain(m *testing.M) {
	code, err := streamtest.Trust(func(a *streamtest.Authority) int {
		trusted = a
		return m.Run()
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

const containerID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// newSetup returns a setup with an address and pairs of further options.
func newSetup(address string, options ...string) logsink.Setup {
	s := logsink.Setup{
		Container: logsink.Container{ID: containerID, Name: "web", Tag: "app.web"},
		Options:   map[string]string{"fluentd-address": address},
	}
	for i := 0; i < len(options); i += 2 {
		s.Options[options[i]] = options[i+1]
	}
	return s
}

// open opens a sender, which is closed at the end of the test.
func open(t *testing.T, setup logsink.Setup) logsink.Sender {
	t.Helper()
	s, err := Open(t.Context(), setup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// listen listens on a free port, and returns the address as the option has it.
func listen(t testing.TB) (net.Listener, string) {
	t.Helper()
	return listenAt(t, "127.0.0.1:0")
}

func listenAt(t testing.TB, at string) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, l.Addr().String()
}

// lines returns records with the texts from "line from" on.
func lines(from, n int) []logsink.Record {
	records := make([]logsink.Record, n)
	for i := range records {
		records[i] = logsink.Record{
			At: time.Unix(1700000000, int64(from+i)), Stream: stdio.Stdout, Text: fmt.Appendf(nil, "line %d", from+i),
		}
	}
	return records
}

// expectLines judges that the entries are those of lines, in order.
func expectLines(t *testing.T, entries []entry) {
	t.Helper()
	for i, e := range entries {
		if want := fmt.Sprintf("line %d", i); e.fields["log"] != want {
			t.Fatalf("entry %d has %q, want %q", i, e.fields["log"], want)
		}
	}
}

// sendAll sends as moss-log does, without its waits: what was not acknowledged goes again.
func sendAll(t *testing.T, s logsink.Sender, records []logsink.Record) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); len(records) > 0; {
		n, err := s.Send(t.Context(), records, true)
		if n < 0 || n > len(records) || (err == nil && n != len(records)) {
			t.Fatalf("Send of %d = %d, %v", len(records), n, err)
		}
		if records = records[n:]; err != nil && time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestRecord(t *testing.T) {
	l, address := listen(t)
	r := serve(t, l, nil)
	setup := newSetup(address)
	setup.Container.Attrs = map[string]string{
		"team": "blue", "source": "elsewhere", "log": "lost?", "partial_id": "x", "many\xff": strings.Repeat("é", 40000),
	}
	at := time.Date(2026, 11, 23, 1, 2, 3, 456789012, time.UTC)
	s := open(t, setup)
	sendAll(t, s, []logsink.Record{
		{At: at, Stream: stdio.Stdout, Text: []byte("out")},
		{At: at.Add(time.Second), Stream: stdio.Stderr, Text: nil},
		{At: at, Stream: stdio.Stderr, Text: []byte("one \x00\xff"), LineID: 0xab, Ordinal: 1},
		{At: at, Stream: stdio.Stderr, Text: []byte("two"), LineID: 0xab, Ordinal: 2, Last: true},
	})
	base := map[string]string{
		"container_id": containerID, "container_name": "/web", "source": "elsewhere", "team": "blue",
		"many\xff": strings.Repeat("é", 40000),
	}
	pieces := map[string]string{"partial_message": "true", "partial_id": containerID[:48] + "00000000000000ab"}
	for i, want := range []map[string]string{
		{"log": "out"},
		{"log": ""},
		{"log": "one \x00\xff", "partial_ordinal": "1", "partial_last": "false"},
		{"log": "two", "partial_ordinal": "2", "partial_last": "true"},
	} {
		maps.Copy(want, base)
		if i >= 2 {
			maps.Copy(want, pieces)
		}
		got := r.await(4)[i]
		if !maps.Equal(got.fields, want) {
			t.Errorf("record %d has %.500q, want %.500q", i, got.fields, want)
		}
		if got.tag != "app.web" || got.exact {
			t.Errorf("record %d: tag %q, exact %v", i, got.tag, got.exact)
		}
		seconds := at.Unix()
		if i == 1 {
			seconds++
		}
		if got.at.UnixNano() != seconds*1e9 {
			t.Errorf("record %d is of %s, want the second of %s", i, got.at, at)
		}
	}
	setup.Container.Attrs = nil
	sendAll(t, open(t, setup), []logsink.Record{{At: at, Stream: stdio.Stdout}, {At: at, Stream: stdio.Stderr}})
	if out, err := r.await(6)[4].fields["source"], r.await(6)[5].fields["source"]; out != "stdout" || err != "stderr" {
		t.Errorf("sources are %q and %q", out, err)
	}
}

func TestSubSecondPrecision(t *testing.T) {
	l, address := listen(t)
	r := serve(t, l, nil)
	at := time.Date(2026, 11, 23, 1, 2, 3, 456789012, time.UTC)
	sendAll(t, open(t, newSetup(address, "fluentd-sub-second-precision", "true")), []logsink.Record{{At: at}})
	if got := r.await(1)[0]; !got.exact || !got.at.Equal(at) {
		t.Errorf("time is %s, exact %v, want %s", got.at, got.exact, at)
	}
}

func TestAddresses(t *testing.T) {
	tcp, address := listen(t)
	path := filepath.Join(t.TempDir(), "socket")
	unix, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	secure, err := tls.Listen("tcp", "127.0.0.1:0", trusted.TLS)
	if err != nil {
		t.Fatal(err)
	}
	receivers := map[string]*receiver{
		address: serve(t, tcp, nil), "unix://" + path: serve(t, unix, nil), "tls://" + secure.Addr().String(): serve(t, secure, nil),
	}
	receivers["tcp://"+address] = receivers[address]
	for _, ack := range []string{"false", "true"} {
		for at, r := range receivers {
			before, _ := r.counts()
			s := open(t, newSetup(at, "fluentd-request-ack", ack))
			for i := range 3 {
				if n, err := s.Send(t.Context(), lines(i, 1), false); n != 1 || err != nil {
					t.Errorf("%s: Send = %d, %v", at, n, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Errorf("%s: Close = %v", at, err)
			}
			expectLines(t, r.await(before + 3)[before:])
		}
	}
	_, conns := receivers["unix://"+path].counts()
	if conns != 2 {
		t.Errorf("%d connections for two senders", conns)
	}
}

func TestManyRecords(t *testing.T) {
	for _, ack := range []string{"false", "true"} {
		l, address := listen(t)
		r := serve(t, l, nil)
		records := lines(0, 20000)
		records[7].Text = append(records[7].Text[:0:0], make([]byte, 2*messageBytes)...)
		sendAll(t, open(t, newSetup(address, "fluentd-request-ack", ack)), records)
		entries := r.await(len(records))
		if len(entries[7].fields["log"]) != 2*messageBytes {
			t.Errorf("a large record has %d bytes", len(entries[7].fields["log"]))
		}
		entries[7].fields["log"] = "line 7"
		expectLines(t, entries)
		if n, conns := r.counts(); n < 5 || n > 20 || conns != 1 {
			t.Errorf("%d messages in %d connections", n, conns)
		}
	}
}

func TestBounds(t *testing.T) {
	s := open(t, newSetup("127.0.0.1:1", "fluentd-async", "true"))
	if b := s.Batch(); b.Records != batchRecords || b.Bytes != batchBytes || b.Linger != 0 {
		t.Errorf("Batch = %+v", b)
	}
}

func TestRetry(t *testing.T) {
	for _, tc := range []struct {
		options []string
		want    logsink.RetryPolicy
	}{
		{nil, logsink.RetryPolicy{First: time.Second, Longest: time.Minute}},
		{
			[]string{"fluentd-retry-wait", "90s", "fluentd-max-retries", "0"},
			logsink.RetryPolicy{First: 90 * time.Second, Longest: 90 * time.Second, Tries: 1},
		},
		{
			[]string{"fluentd-retry-wait", "50ms", "fluentd-max-retries", "7", "fluentd-buffer-limit", "1m"},
			logsink.RetryPolicy{First: 50 * time.Millisecond, Longest: time.Minute, Tries: 8},
		},
	} {
		setup := newSetup("127.0.0.1:1", tc.options...)
		setup.Resume = true
		if got := open(t, setup).(logsink.Retrier).Retry(); got != tc.want {
			t.Errorf("%v: Retry = %+v, want %+v", tc.options, got, tc.want)
		}
	}
}

// TestAway opens senders for a receiver that is not there, and brings it up later.
func TestAway(t *testing.T) {
	l, address := listen(t)
	_ = l.Close()
	if s, err := Open(t.Context(), newSetup(address)); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), address) {
		t.Errorf("Open = %v, %v, want fault.Unavailable of %s", s, err, address)
	}
	if s, err := Open(t.Context(), newSetup(address, "fluentd-async", "maybe")); !fault.Is(err, fault.Invalid) {
		t.Errorf("Open = %v, %v, want fault.Invalid", s, err)
	}
	resumed := newSetup(address)
	resumed.Resume = true
	senders := make([]logsink.Sender, 0, 3)
	for _, setup := range []logsink.Setup{
		resumed, newSetup(address, "fluentd-async", "true"), newSetup(address, "fluentd-async-connect", "true"),
	} {
		s := open(t, setup)
		if n, err := s.Send(t.Context(), lines(0, 1), true); n != 0 || !fault.Is(err, fault.Unavailable) ||
			!strings.Contains(err.Error(), address) {
			t.Errorf("Send = %d, %v, want fault.Unavailable of %s", n, err, address)
		}
		senders = append(senders, s)
	}
	l, _ = listenAt(t, address)
	r := serve(t, l, nil)
	for i, s := range senders {
		sendAll(t, s, lines(i, 1))
		r.await(i + 1) // the receiver reads its connections side by side
	}
	expectLines(t, r.await(len(senders)))
}

// TestComesBack takes the receiver away between two calls of Send: nothing is lost, with and without acknowledgement.
func TestComesBack(t *testing.T) {
	for _, ack := range []string{"false", "true"} {
		l, address := listen(t)
		r := serve(t, l, nil)
		s := open(t, newSetup(address, "fluentd-request-ack", ack))
		sendAll(t, s, lines(0, 10))
		expectLines(t, r.await(10))
		r.close()
		if n, err := s.Send(t.Context(), lines(10, 1), true); n != 0 || !fault.Is(err, fault.Unavailable) {
			t.Errorf("Send = %d, %v, want fault.Unavailable", n, err)
		}
		l, _ = listenAt(t, address)
		back := serve(t, l, nil)
		back.entries = r.entries
		sendAll(t, s, lines(10, 10))
		expectLines(t, back.await(20))
	}
}

// TestClosesAfterEach has a receiver that ends the connection after each message: it gets all of them, once each.
func TestClosesAfterEach(t *testing.T) {
	for _, ack := range []string{"false", "true"} {
		l, address := listen(t)
		r := serve(t, l, func(_ int, c net.Conn, chunk string) error {
			return errors.Join(acknowledge(c, chunk), errEnough)
		})
		s := open(t, newSetup(address, "fluentd-request-ack", ack))
		for i := range 20 {
			sendAll(t, s, lines(i, 1))
			r.await(i + 1)
			awaitEnd(t, s)
		}
		expectLines(t, r.await(20))
	}
}

// awaitEnd waits until the kernel knows that the receiver closed the connection.
func awaitEnd(t *testing.T, s logsink.Sender) {
	t.Helper()
	for s.(*sender).conn.Probe() == nil {
		if t.Context().Err() != nil {
			t.Fatal("the receiver did not close")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestUnacknowledged has receivers that take the first message and do not acknowledge it: it comes again, and the error tells
// what they did instead.
func TestUnacknowledged(t *testing.T) {
	var nothing []byte
	for name, tc := range map[string]struct {
		answer []byte
		want   string
		stays  bool // the connection
	}{
		"closes":         {nothing, "has closed the connection without an acknowledgement", false},
		"garbage":        {[]byte("HTTP/1.1 400 Bad Request\r\n"), "is no acknowledgement", true},
		"another chunk":  {[]byte("\x81\xa3ack\xa3abc"), `acknowledges "abc" instead of`, true},
		"no chunk":       {[]byte("\x81\xa4nack\xc3"), `acknowledges "" instead of`, true},
		"more":           {[]byte("\x81\xa3ack\xa3abcx"), "bytes follow it", false},
		"half":           {[]byte("\x81\xa3ack\xa3a"), "without an acknowledgement", false},
		"without an end": {append([]byte("\x81\xa3ack\xdb\x00\xff\xff\xff"), make([]byte, 1<<20)...), "more than 4096 bytes", false},
	} {
		t.Run(name, func(t *testing.T) {
			l, address := listen(t)
			r := serve(t, l, func(number int, c net.Conn, chunk string) error {
				if number > 1 {
					return acknowledge(c, chunk)
				}
				if _, err := c.Write(tc.answer); err == nil && tc.stays {
					return errSkip
				}
				return net.ErrClosed
			})
			s := open(t, newSetup(address, "fluentd-request-ack", "true"))
			n, err := s.Send(t.Context(), lines(0, 3), true)
			if n != 0 || !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), address) {
				t.Errorf("Send = %d, %v, want %q of %s", n, err, tc.want, address)
			}
			sendAll(t, s, lines(0, 3))
			expectLines(t, r.await(3))
			if _, conns := r.counts(); conns != 2 {
				t.Errorf("%d connections, want a new one after the error", conns)
			}
		})
	}
}

// TestStalls has receivers that do not read, or do not answer.
func TestStalls(t *testing.T) {
	l, address := listen(t) // which nobody serves
	big := []logsink.Record{{Text: make([]byte, 64<<20)}}
	for name, tc := range map[string]struct {
		options []string
		records []logsink.Record
	}{
		"write": {[]string{"fluentd-write-timeout", "30ms"}, big},
		"read":  {[]string{"fluentd-read-timeout", "30ms", "fluentd-request-ack", "true"}, lines(0, 1)},
	} {
		s := open(t, newSetup(address, tc.options...))
		if n, err := s.Send(t.Context(), tc.records, true); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) ||
			!strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: Send = %d, %v, want a timeout", name, n, err)
		}
	}
	for _, records := range [][]logsink.Record{big, lines(0, 1)} {
		s := open(t, newSetup(address, "fluentd-request-ack", "true"))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		if n, err := s.Send(ctx, records, true); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Send = %d, %v, want the end of the context", n, err)
		}
		cancel()
	}
	_ = l
}

// TestTrickle has a receiver whose answer comes byte by byte, and never ends: the bound is that of the whole answer.
func TestTrickle(t *testing.T) {
	l, address := listen(t)
	serve(t, l, func(_ int, c net.Conn, _ string) error {
		_, err := c.Write([]byte("\x81\xa3ack\xda\x0f\x00"))
		for err == nil {
			_, err = c.Write([]byte("x"))
			time.Sleep(time.Millisecond)
		}
		return err
	})
	s := open(t, newSetup(address, "fluentd-request-ack", "true", "fluentd-read-timeout", "50ms"))
	if n, err := s.Send(t.Context(), lines(0, 1), true); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Send = %d, %v, want a timeout", n, err)
	}
}

// TestSpeaksFirst has a receiver that wants a shared key.
func TestSpeaksFirst(t *testing.T) {
	l, address := listen(t)
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte("\x92\xa4HELO\x80"))
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	s := open(t, newSetup(address))
	awaitEnd(t, s)
	if n, err := s.Send(t.Context(), lines(0, 1), true); n != 0 || err == nil || !strings.Contains(err.Error(), "shared key") {
		t.Errorf("Send = %d, %v, want a word about the shared key", n, err)
	}
}

func TestStrangersCertificate(t *testing.T) {
	strange, err := streamtest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", strange.TLS)
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t, l, nil)
	setup := newSetup("tls://" + l.Addr().String())
	if s, err := Open(t.Context(), setup); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Open = %v, %v, want fault.Unavailable about the certificate", s, err)
	}
	setup.Resume = true
	if n, err := open(t, setup).Send(t.Context(), lines(0, 1), true); n != 0 || err == nil {
		t.Errorf("Send = %d, %v", n, err)
	}
	if n, _ := r.counts(); n != 0 {
		t.Errorf("%d messages went to a stranger", n)
	}
}

// TestReconnectInterval shows when the option makes a new connection.
func TestReconnectInterval(t *testing.T) {
	const interval = 100 * time.Millisecond
	for _, async := range []bool{false, true} {
		l, address := listen(t)
		r := serve(t, l, nil)
		setup := newSetup(address, "fluentd-async", strconv.FormatBool(async), "fluentd-async-reconnect-interval", interval.String())
		s := open(t, setup)
		sendAll(t, s, lines(0, 1))
		<-time.After(interval)
		sendAll(t, s, lines(1, 1))
		expectLines(t, r.await(2))
		want := 1
		if async {
			want = 2
		}
		if _, conns := r.counts(); conns != want {
			t.Errorf("async %v: %d connections, want %d", async, conns, want)
		}
	}
}

// TestGoesAndComes breaks connections at any place while records flow: with acknowledgement all arrive, in order, and what
// comes twice is what was on its way.
func TestGoesAndComes(t *testing.T) {
	l, address := listen(t)
	r := serve(t, l, func(number int, c net.Conn, chunk string) error {
		switch number % 4 {
		case 1:
			return net.ErrClosed // taken, neither acknowledged nor kept
		case 2:
			return errEnough // kept, not acknowledged
		default:
			return acknowledge(c, chunk)
		}
	})
	s := open(t, newSetup(address, "fluentd-request-ack", "true"))
	var once sync.Once
	records := lines(0, 200)
	for i := 0; i < len(records); {
		n, err := s.Send(t.Context(), records[i:min(i+10, len(records))], true)
		if err != nil {
			once.Do(func() { t.Logf("the first error: %v", err) })
		}
		i += n
	}
	r.close() // it keeps what it has acknowledged a moment later
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, next := 0, 0
	for _, e := range r.entries {
		var i int
		if _, err := fmt.Sscanf(e.fields["log"], "line %d", &i); err != nil {
			t.Fatal(err)
		}
		if i > next {
			t.Fatalf("line %d comes after %d", i, next-1)
		}
		next = max(next, i+1)
		seen++
	}
	if next != len(records) || seen == next {
		t.Errorf("%d lines of %d arrived, %d with those that came twice", next, len(records), seen)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x81\xa3ack\xa3abc"))
	f.Add([]byte("\x82\xa1x\x92\x01\xc0\xa3ack\xa0"))
	f.Fuzz(func(t *testing.T, p []byte) {
		if ack, complete, err := parseAnswer(p); (err != nil && complete) || len(ack) > len(p) {
			t.Errorf("parseAnswer(%q) = %q, %v, %v", p, ack, complete, err)
		}
	})
}
