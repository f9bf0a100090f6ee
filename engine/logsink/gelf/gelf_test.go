package gelf

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/logsink"
	"moss/engine/stdio"
)

const containerID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

var at = time.Date(2026, 11, 23, 1, 2, 3, 45678901, time.UTC)

// newSetup returns a setup with an address and pairs of further options.
func newSetup(address string, options ...string) logsink.Setup {
	s := logsink.Setup{
		Container: logsink.Container{
			ID: containerID, Name: "web", ImageID: "sha256:abc", ImageName: "busybox:latest", Command: `sh -c "echo"`,
			Created: at.In(time.FixedZone("", 3600)), Host: "machine", Tag: "app.web",
		},
		Options: map[string]string{"gelf-address": address},
	}
	for i := 0; i < len(options); i += 2 {
		s.Options[options[i]] = options[i+1]
	}
	return s
}

// open opens a sender, which is closed at the end of the test.
func open(t testing.TB, setup logsink.Setup) logsink.Sender {
	t.Helper()
	s, err := Open(t.Context(), setup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func listenTCP(t testing.TB, at string) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, l.Addr().String()
}

func listenUDP(t testing.TB, at string) (net.PacketConn, string) {
	t.Helper()
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, c.LocalAddr().String()
}

// serve returns a receiver of a network, and its address as the option has it.
func serve(t *testing.T, network string) (*receiver, string) {
	t.Helper()
	r := newReceiver(t)
	if network == "tcp" {
		l, address := listenTCP(t, "127.0.0.1:0")
		r.serveStreams(l)
		return r, "tcp://" + address
	}
	c, address := listenUDP(t, "127.0.0.1:0")
	r.serveDatagrams(c)
	return r, "udp://" + address
}

// openLocal returns a sender by udp whose datagrams go to r by a socket that loses none.
func openLocal(t *testing.T, r *receiver, setup logsink.Setup) logsink.Sender {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	r.serveDatagrams(l)
	setup.Resume = true
	s := open(t, setup)
	if s.(*udpSender).conn, err = net.Dial("unixgram", path); err != nil {
		t.Fatal(err)
	}
	return s
}

// send sends records, all of which must be taken.
func send(t *testing.T, s logsink.Sender, records ...logsink.Record) {
	t.Helper()
	if n, err := s.Send(t.Context(), records, true); n != len(records) || err != nil {
		t.Fatalf("Send of %d = %d, %v", len(records), n, err)
	}
}

// lines returns records with the texts from "line from" on.
func lines(from, n int) []logsink.Record {
	records := make([]logsink.Record, n)
	for i := range records {
		records[i] = logsink.Record{At: at, Stream: stdio.Stdout, Text: fmt.Appendf(nil, "line %d", from+i)}
	}
	return records
}

// expectLines judges that the messages are those of lines, in order.
func expectLines(t *testing.T, messages []message) {
	t.Helper()
	for i, m := range messages {
		if want := fmt.Sprintf("line %d", i); m["short_message"] != want {
			t.Fatalf("message %d has %q, want %q", i, m["short_message"], want)
		}
	}
}

func TestMessage(t *testing.T) {
	for _, network := range []string{"udp", "tcp"} {
		r, address := serve(t, network)
		setup := newSetup(address)
		setup.Container.Attrs = map[string]string{
			"team": "blue", "_owner": "me", "tag": "mine", "id": "x", "": "y", "partial_id": "z",
			"q.u-o": "\"\\\b\x00\r\n\té\u2028😀\xff",
		}
		send(
			t, open(t, setup),
			logsink.Record{At: at, Stream: stdio.Stdout, Text: []byte("out \"\\\v\n\x1f\x7f é😀 \xc3")},
			logsink.Record{At: at, Stream: stdio.Stdout, Text: nil},
			logsink.Record{At: at.Add(-45678901), Stream: stdio.Stderr, Text: []byte("\xff\xfe")},
			logsink.Record{At: at, Stream: stdio.Stderr, Text: []byte("one"), LineID: 0xab, Ordinal: 1},
			logsink.Record{At: at, Stream: stdio.Stderr, Text: []byte("two"), LineID: 0xab, Ordinal: 2, Last: true},
		)
		base := message{
			"version": "1.1", "host": "machine", "level": json.Number("3"), "_container_id": containerID, "_container_name": "web",
			"_image_id": "sha256:abc", "_image_name": "busybox:latest", "_command": `sh -c "echo"`, "_tag": "mine",
			"_created": "2026-11-23T01:02:03.045678901Z", "_team": "blue", "_owner": "me", "_q.u-o": "\"\\\b\x00\r\n\té\u2028😀\uFFFD",
			"timestamp": json.Number("1795395723.045678"),
		}
		pieces := message{"_partial_message": "true", "_partial_id": containerID[:48] + "00000000000000ab"}
		for i, want := range []message{
			{"short_message": "out \"\\\v\n\x1f\x7f é😀 \uFFFD", "level": json.Number("6")},
			{"short_message": "\uFFFD\uFFFD", "timestamp": json.Number("1795395723.000000")},
			{"short_message": "one", "_partial_ordinal": json.Number("1"), "_partial_last": "false"},
			{"short_message": "two", "_partial_ordinal": json.Number("2"), "_partial_last": "true"},
		} {
			all := maps.Clone(base)
			if i >= 2 {
				maps.Copy(all, pieces)
			}
			maps.Copy(all, want)
			if got := r.await(4)[i]; !maps.Equal(got, all) {
				t.Errorf("%s: message %d is %q, want %q", network, i, got, all)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	for _, address := range []string{"udp://127.0.0.1:1", "tcp://127.0.0.1:1"} {
		setup := newSetup(address)
		setup.Resume = true
		if b := open(t, setup).Batch(); b.Records != batchRecords || b.Bytes != batchBytes || b.Linger != 0 {
			t.Errorf("%s: Batch = %+v", address, b)
		}
	}
}

func TestRetry(t *testing.T) {
	for _, tc := range []struct {
		options []string
		want    logsink.RetryPolicy
	}{
		{nil, logsink.RetryPolicy{}},
		{[]string{"gelf-tcp-max-reconnect", "3"}, logsink.RetryPolicy{First: time.Second, Longest: time.Second, Tries: 4}},
		{[]string{"gelf-tcp-reconnect-delay", "7"}, logsink.RetryPolicy{First: 7 * time.Second, Longest: 7 * time.Second}},
	} {
		setup := newSetup("tcp://127.0.0.1:1", tc.options...)
		setup.Resume = true
		if got := open(t, setup).(logsink.Retrier).Retry(); got != tc.want {
			t.Errorf("%v: Retry = %+v, want %+v", tc.options, got, tc.want)
		}
	}
}

func TestCompression(t *testing.T) {
	text := []byte(strings.Repeat("the quick brown fox ", 20))
	sizes := map[string]int{}
	for _, tc := range [][]string{
		{"gzip"},
		{"gzip", "gelf-compression-level", "0"},
		{"gzip", "gelf-compression-level", "1"},
		{"gzip", "gelf-compression-type", "gzip", "gelf-compression-level", "9"},
		{"zlib", "gelf-compression-type", "zlib"},
		{"zlib", "gelf-compression-type", "zlib", "gelf-compression-level", "0"},
		{"none", "gelf-compression-type", "none"},
	} {
		r, address := serve(t, "udp")
		s := open(t, newSetup(address, tc[1:]...))
		for range 2 {
			send(t, s, logsink.Record{At: at, Text: text})
		}
		if got := r.await(2)[1]["short_message"]; got != string(text) {
			t.Errorf("%v: the message says %q", tc, got)
		}
		if r.kinds[1] != tc[0] {
			t.Errorf("%v: it is packed with %s", tc, r.kinds[1])
		}
		sizes[strings.Join(tc, " ")] = r.sizes[1]
	}
	none, stored := sizes["none gelf-compression-type none"], sizes["gzip gelf-compression-level 0"]
	if least := sizes["zlib gelf-compression-type zlib gelf-compression-level 0"]; stored <= none || least <= none {
		t.Errorf("level 0 makes it smaller: %v", sizes)
	}
	if best := sizes["gzip gelf-compression-type gzip gelf-compression-level 9"]; best > sizes["gzip gelf-compression-level 1"] ||
		best >= none || sizes["gzip"] >= none {
		t.Errorf("higher levels do not make it smaller: %v", sizes)
	}
}

// randomText returns n bytes that compress badly.
func randomText(n int) string {
	p := make([]byte, n)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(p)
	return base64.StdEncoding.EncodeToString(p)[:n]
}

// TestChunks sends messages of all sizes around the bounds of datagrams.
func TestChunks(t *testing.T) {
	r := newReceiver(t)
	s := openLocal(t, r, newSetup("udp://127.0.0.1:1", "gelf-compression-type", "none"))
	empty, err := s.(*udpSender).encodePart(&logsink.Record{At: at}, cut{})
	if err != nil {
		t.Fatal(err)
	}
	head := len(empty)
	want := make([]int, 0, 6)
	for size, chunks := range map[int]int{
		1420: 1, 1421: 2, 2 * 1408: 2, 2*1408 + 1: 3, 127*1408 + 1: 128, 128 * 1408: 128,
	} {
		text := randomText(size - head)
		send(t, s, logsink.Record{At: at, Text: []byte(text)})
		want = append(want, chunks)
		if got := r.await(len(want))[len(want)-1]; got["short_message"] != text || got["_partial_message"] != nil {
			t.Errorf("a message of %d bytes arrives as one of %d, %v", size, len(got["short_message"].(string)), got["_partial_message"])
		}
	}
	if !slices.Equal(r.chunks, want) {
		t.Errorf("the messages had %v datagrams, want %v", r.chunks, want)
	}
	send(t, s, logsink.Record{At: at, Text: []byte(randomText(128*1408 + 1 - head))})
	if got := r.await(len(want) + 2)[len(want)]; got["_partial_part"] != json.Number("1") {
		t.Errorf("one byte more than fits is not cut: %v", got)
	}
}

// TestChunksOverNetwork sends a message in several datagrams by a real socket.
func TestChunksOverNetwork(t *testing.T) {
	r, address := serve(t, "udp")
	text := randomText(20000)
	send(t, open(t, newSetup(address)), logsink.Record{At: at, Text: []byte(text)})
	if got := r.await(1)[0]["short_message"]; got != text || r.chunks[0] < 10 {
		t.Errorf("the text arrives wrong, in %d datagrams", r.chunks[0])
	}
}

// TestCut sends records that no message holds: all of their text arrives, in order and marked.
func TestCut(t *testing.T) {
	text := strings.ReplaceAll(randomText(500000), "A", "é😀")
	for _, compression := range []string{"none", "gzip"} {
		r := newReceiver(t)
		s := openLocal(t, r, newSetup("udp://127.0.0.1:1", "gelf-compression-type", compression))
		for i, record := range []logsink.Record{
			{At: at, Text: []byte(text)},
			{At: at, Text: []byte(text), LineID: 7, Ordinal: 3},
			{At: at, Text: []byte(text), LineID: 7, Ordinal: 4, Last: true},
		} {
			before := len(r.messages)
			send(t, s, record)
			send(t, s, logsink.Record{At: at, Text: []byte("end")})
			r.awaitText("end", i+1)
			parts := r.messages[before : len(r.messages)-1]
			var whole strings.Builder
			ordinal := []string{"1", "3", "4"}[i]
			for j, m := range parts {
				whole.WriteString(m["short_message"].(string))
				last := strconv.FormatBool(j == len(parts)-1 && i != 1)
				if m["_partial_last"] != last || m["_partial_message"] != "true" || m["_partial_ordinal"] != json.Number(ordinal) ||
					m["_partial_part"] != json.Number(strconv.Itoa(j+1)) || m["_partial_id"] != parts[0]["_partial_id"] {
					delete(m, "short_message")
					t.Errorf("%s: part %d of %d: %v", compression, j+1, len(parts), m)
				}
			}
			if whole.String() != text || len(parts) < 3 {
				t.Errorf("%s: record %d: %d bytes in %d parts, want %d", compression, i, whole.Len(), len(parts), len(text))
			}
		}
	}
}

// awaitText waits for n messages with a text.
func (r *receiver) awaitText(text string, n int) {
	r.t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		r.mu.Lock()
		messages, changed := r.messages, r.changed
		r.mu.Unlock()
		found := 0
		for _, m := range messages {
			if m["short_message"] == text {
				found++
			}
		}
		if found == n {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			r.t.Fatalf("%d messages say %q, want %d", found, text, n)
		}
	}
}

// TestLargeHead has more labels than datagrams hold; and just as many, with a text that JSON makes six times as long.
func TestLargeHead(t *testing.T) {
	r, address := serve(t, "tcp")
	for size, fits := range map[int]bool{maxHead: false, maxHead - 1000: true} {
		udp, tcp := newSetup("udp://127.0.0.1:1", "gelf-compression-type", "none"), newSetup(address)
		udp.Container.Attrs = map[string]string{"big": strings.Repeat("x", size)}
		tcp.Container.Attrs = udp.Container.Attrs
		text := bytes.Repeat([]byte{1}, 100000)
		send(t, open(t, tcp), logsink.Record{At: at, Text: text})
		if fits {
			local := newReceiver(t)
			send(t, openLocal(t, local, udp), logsink.Record{At: at, Text: text}, logsink.Record{At: at, Text: []byte("end")})
			local.awaitText("end", 1)
			continue
		}
		if s, err := Open(t.Context(), udp); !fault.Is(err, fault.Invalid) {
			t.Errorf("Open = %v, %v, want fault.Invalid", s, err)
		}
	}
	r.await(2)
}

// TestDatagramsAway sends to a closed port: nothing stops, and when the receiver is back it gets what comes then.
func TestDatagramsAway(t *testing.T) {
	c, address := listenUDP(t, "127.0.0.1:0")
	_ = c.Close()
	s := open(t, newSetup("udp://"+address))
	for range 5 {
		send(t, s, lines(1000, 11)...) // an odd number: the kernel tells of every other datagram, if it is not asked again
	}
	c, _ = listenUDP(t, address)
	r := newReceiver(t)
	r.serveDatagrams(c)
	for i := range 10 {
		send(t, s, lines(i, 1)...)
		r.await(i + 1)
	}
	expectLines(t, r.await(10))
}

func TestDatagramErrors(t *testing.T) {
	setup := newSetup("udp://a..b:1")
	if s, err := Open(t.Context(), setup); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "udp://a..b:1") {
		t.Errorf("Open = %v, %v, want fault.Unavailable of the address", s, err)
	}
	setup.Resume = true
	if n, err := open(t, setup).Send(t.Context(), lines(0, 1), true); n != 0 || !fault.Is(err, fault.Unavailable) {
		t.Errorf("Send = %d, %v, want fault.Unavailable", n, err)
	}
	c, address := listenUDP(t, "127.0.0.1:0")
	r := newReceiver(t)
	r.serveDatagrams(c)
	s := open(t, newSetup("udp://"+address))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := s.Send(ctx, lines(0, 1), true); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Send = %d, %v, want the end of the context", n, err)
	}
	send(t, s, lines(0, 1)...)
	_ = s.(*udpSender).conn.Close() // any error of the socket
	n, err := s.Send(t.Context(), lines(1, 1), true)
	if n != 0 || !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), address) {
		t.Errorf("Send = %d, %v, want fault.Unavailable of the address", n, err)
	}
	send(t, s, lines(1, 1)...)
	expectLines(t, r.await(2))
	if s, err := Open(t.Context(), newSetup("udp://h")); !fault.Is(err, fault.Invalid) {
		t.Errorf("Open = %v, %v, want fault.Invalid", s, err)
	}
}

// TestAway opens senders for a tcp receiver that is not there, and brings it up later.
func TestAway(t *testing.T) {
	l, address := listenTCP(t, "127.0.0.1:0")
	_ = l.Close()
	setup := newSetup("tcp://" + address)
	if s, err := Open(t.Context(), setup); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), address) {
		t.Errorf("Open = %v, %v, want fault.Unavailable of %s", s, err, address)
	}
	setup.Resume = true
	s := open(t, setup)
	if n, err := s.Send(t.Context(), lines(0, 1), true); n != 0 || !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), address) {
		t.Errorf("Send = %d, %v, want fault.Unavailable of %s", n, err, address)
	}
	l, _ = listenTCP(t, address)
	r := newReceiver(t)
	r.serveStreams(l)
	send(t, s, lines(0, 10)...)
	expectLines(t, r.await(10))
}

// awaitEnd waits until the kernel knows that the receiver closed the connection.
func awaitEnd(t *testing.T, s logsink.Sender) {
	t.Helper()
	for s.(*tcpSender).conn.Probe() == nil {
		if t.Context().Err() != nil {
			t.Fatal("the receiver did not close")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestClosesAfterEach has a receiver that ends the connection after each message: it gets all of them, once each.
func TestClosesAfterEach(t *testing.T) {
	r, address := serve(t, "tcp")
	r.after = func(int) error { return net.ErrClosed }
	s := open(t, newSetup(address))
	for i := range 20 {
		send(t, s, lines(i, 1)...)
		r.await(i + 1)
		awaitEnd(t, s)
	}
	expectLines(t, r.await(20))
	if r.conns != 20 {
		t.Errorf("%d connections for 20 messages", r.conns)
	}
}

// TestSpeaks has a receiver that says what nobody asked for: the next messages go by another connection.
func TestSpeaks(t *testing.T) {
	l, address := listenTCP(t, "127.0.0.1:0")
	s := open(t, newSetup("tcp://"+address))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, s)
	r := newReceiver(t)
	r.serveStreams(l)
	send(t, s, lines(0, 3)...)
	expectLines(t, r.await(3))
}

// TestStalls has a receiver that takes only what the kernels hold: just those messages count, and the rest comes later.
func TestStalls(t *testing.T) {
	l, address := listenTCP(t, "127.0.0.1:0")
	s := open(t, newSetup("tcp://"+address))
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = far.Close() }()
	records := lines(0, 1000) // 16 MB, more than the kernels hold
	for i := range records {
		if i%2 == 1 {
			records[i].Text = bytes.Repeat([]byte("x"), 32<<10)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	arriving := bufio.NewReader(far)
	go func() { // takes the first message, and no more
		_, _ = arriving.ReadBytes(0)
		cancel()
	}()
	n, err := s.Send(ctx, records, true)
	if n == 0 || n == len(records) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), address) {
		t.Fatalf("Send = %d, %v, want the end of the context after some", n, err)
	}
	all, err := io.ReadAll(arriving)
	if err != nil {
		t.Fatal(err)
	}
	if whole := 1 + bytes.Count(all, []byte{0}); whole != n {
		t.Errorf("%d messages arrived, %d count", whole, n)
	}
	r := newReceiver(t)
	r.serveStreams(l)
	send(t, s, records[n:]...)
	if first := r.await(len(records) - n)[n%2]; n%2 == 0 && first["short_message"] != fmt.Sprintf("line %d", n) {
		t.Errorf("the first message then is %q, want line %d", first["short_message"], n)
	}
}

// TestManyByStream sends more than one write has.
func TestManyByStream(t *testing.T) {
	r, address := serve(t, "tcp")
	records := lines(0, 10000)
	for i := 100; i < 200; i++ {
		records = append(records, logsink.Record{At: at}) // blank: taken, and not sent
	}
	s := open(t, newSetup(address))
	send(t, s, records...)
	expectLines(t, r.await(10000))
	if size := cap(s.(*tcpSender).buf); size > 2*writeBytes {
		t.Errorf("the buffer has %d bytes", size)
	}
	if r.conns != 1 {
		t.Errorf("%d connections", r.conns)
	}
}

func FuzzText(f *testing.F) {
	f.Add("text", []byte("é\xff\x00\"\\"))
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		c := newSetup("udp://h:1").Container
		c.Attrs = map[string]string{name: string(text)}
		b := newEncoder(c).appendMessage(nil, &logsink.Record{At: at, Text: text}, cut{text: text})
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		other, err := json.Marshal(string(text))
		var want string
		if err = errors.Join(err, json.Unmarshal(other, &want)); err != nil || m["short_message"] != want {
			t.Errorf("%q became %q, want %q, %v", text, m["short_message"], want, err)
		}
	})
}
