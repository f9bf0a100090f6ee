package syslog

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/logsink"
)

// listenAt returns a stream's listener, and the option for it.
func listenAt(t *testing.T, way string) (net.Listener, map[string]string) {
	t.Helper()
	network, address := way, loopback()+":0"
	if way == "unix" {
		address = shortDir(t) + "/socket"
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener, map[string]string{"syslog-address": way + "://" + listener.Addr().String()}
}

// acceptFrom takes a connection, which ends with the test.
func acceptFrom(t *testing.T, listener net.Listener) net.Conn {
	t.Helper()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// readText returns the text of the next message in lines.
func readText(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
	return text
}

func TestAbsentReceiver(t *testing.T) {
	t.Parallel()
	host := loopback() + ":1"
	for _, address := range []string{"tcp://" + host, "tcp+tls://" + host, "unix:///nowhere/socket", "unixgram:///nowhere/socket"} {
		set := describeContainer("tag", map[string]string{"syslog-address": address})
		if s, err := Open(t.Context(), set); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), address) {
			t.Errorf("Open(%s) = %v, %v, want fault.Unavailable with the address", address, s, err)
		}
		set.Resume = true
		sendInVain(t, openSenderAt(t, set), []string{"x"}, address)
	}
}

// TestClosingReceiver has a receiver that closes after each message.
func TestClosingReceiver(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"tcp", "unix"} {
		listener, options := listenAt(t, way)
		s := openSenderAt(t, describeContainer("tag", options))
		for i := range 5 {
			sendAll(t, s, makeRecords(strconv.Itoa(i)))
			conn := acceptFrom(t, listener)
			if got := readText(t, bufio.NewReader(conn)); got != strconv.Itoa(i) {
				t.Errorf("%s: got %q, want %d", way, got, i)
			}
			_ = conn.Close()
			<-s.conn.ended // that this is noticed is what makes the next message safe
		}
	}
}

// TestResettingReceiver has a receiver that ends a connection with an error: the sender says so once, and connects again.
func TestResettingReceiver(t *testing.T) {
	t.Parallel()
	listener, options := listenAt(t, "tcp")
	s := openSenderAt(t, describeContainer("tag", options))
	conn := acceptFrom(t, listener).(*net.TCPConn)
	if err := conn.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	<-s.conn.ended
	sendInVain(t, s, []string{"x"}, options["syslog-address"], syscall.ECONNRESET.Error())
	sendAll(t, s, makeRecords("x"))
	if got := readText(t, bufio.NewReader(acceptFrom(t, listener))); got != "x" {
		t.Errorf("got %q, want x", got)
	}
}

// TestTalkingReceiver has one that says a word, which is nothing to the sender, and then more than it may.
func TestTalkingReceiver(t *testing.T) {
	t.Parallel()
	listener, options := listenAt(t, "tcp")
	s := openSenderAt(t, describeContainer("tag", options))
	conn := acceptFrom(t, listener)
	if _, err := conn.Write(make([]byte, mostAnswer)); err != nil {
		t.Fatal(err)
	}
	sendAll(t, s, makeRecords("one"))
	if got := readText(t, bufio.NewReader(conn)); got != "one" {
		t.Errorf("got %q, want one", got)
	}
	if _, err := conn.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	<-s.conn.ended
	sendInVain(t, s, []string{"two"}, options["syslog-address"], "sent more than")
	sendAll(t, s, makeRecords("two"))
	if got := readText(t, bufio.NewReader(acceptFrom(t, listener))); got != "two" {
		t.Errorf("got %q, want two", got)
	}
}

// TestStalledReceiver has receivers that read nothing, until the sender gives up: what it counts has arrived, and nothing else
// is whole.
func TestStalledReceiver(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"tcp", "unix"} {
		for _, ends := range []string{"by its own bound", "with its context"} {
			t.Run(way+" "+ends, func(t *testing.T) {
				t.Parallel()
				listener, options := listenAt(t, way)
				s := openSenderAt(t, describeContainer("tag", options))
				conn := acceptFrom(t, listener)
				sendAll(t, s, makeRecords(".")) // before the time begins, which a busy machine may spend elsewhere
				ctx, cancel := context.WithCancelCause(t.Context())
				gone := errors.New("the caller has gone")
				want := os.ErrDeadlineExceeded
				if ends == "with its context" {
					want = gone
					s.conn.write = time.Hour
					time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
				} else {
					s.conn.write = 100 * time.Millisecond
				}
				defer cancel(nil)
				begun := time.Now()
				taken, err := 1, error(nil)
				for err == nil {
					var n int
					text := strings.Repeat("x", mostMessage) + "." // two messages
					n, err = s.Send(ctx, makeRecords(slices.Repeat([]string{text}, 100)...), true)
					taken += n
				}
				if took := time.Since(begun); took > time.Minute {
					t.Errorf("Send gave up after %s", took)
				}
				if !errors.Is(err, want) || !strings.Contains(err.Error(), options["syslog-address"]) {
					t.Errorf("Send = %v, want %v with the address", err, want)
				}
				data, err := io.ReadAll(conn)
				if got := strings.Count(string(data), ".\n"); err != nil || got != taken || got == 0 {
					t.Errorf("%d whole records arrived, %v; %d were counted", got, err, taken)
				}
			})
		}
	}
}

// TestSilentMachine asks the kernel how long it waits for a machine that confirms nothing.
func TestSilentMachine(t *testing.T) {
	t.Parallel()
	_, options := listenAt(t, "tcp")
	rc, err := openSenderAt(t, describeContainer("tag", options)).conn.raw.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	failed := rc.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
	if failed != nil || err != nil || time.Duration(got)*time.Millisecond != silentTime {
		t.Errorf("the kernel waits %d ms, %v, %v, want %s", got, failed, err, silentTime)
	}
}

// TestCleanText looks at what is sent, since rsyslogd writes control characters in the same way.
func TestCleanText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "\x00": "#000", "a\n": "a#012", "\nb\x00\x01\r\t\x1b\x7f\xff": "#012b#000\x01\r\t\x1b\x7f\xff",
	} {
		if got := string(new(sender).cleanText([]byte(text))); got != want {
			t.Errorf("cleanText(%q) = %q, want %q", text, got, want)
		}
	}
}

// brokenConn takes some bytes.
type brokenConn struct {
	net.Conn
	takes int
}

func (c brokenConn) Write([]byte) (int, error) { return c.takes, io.ErrClosedPipe }

// TestWriteStream counts the messages that a broken stream took to their last byte.
func TestWriteStream(t *testing.T) {
	frames := []frame{{end: 10}, {end: 20}, {end: 30}}
	for takes, want := range map[int]int{0: 0, 9: 0, 10: 1, 11: 1, 20: 2, 29: 2} {
		c := connection{conn: brokenConn{takes: takes}}
		if taken, err := c.writeStream(make([]byte, 30), frames); taken != want || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("writeStream of %d bytes = %d, %v, want %d and an error", takes, taken, err, want)
		}
	}
}

// TestSendAfterContext: the end of a context that ended with a Send does not reach the next one.
func TestSendAfterContext(t *testing.T) {
	t.Parallel()
	listener, options := listenAt(t, "unix")
	s := openSenderAt(t, describeContainer("tag", options))
	first := acceptFrom(t, listener)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, _ := s.Send(ctx, makeRecords("one"), true)
	sendAll(t, s, makeRecords([]string{"one"}[n:]...))
	sendAll(t, s, makeRecords("two"))
	second := bufio.NewReader(acceptFrom(t, listener))
	data, err := io.ReadAll(first)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{}
	if n == 0 {
		texts = append(texts, readText(t, second))
	} else if !strings.HasSuffix(string(data), ": one\n") {
		t.Errorf("got %q, want one", data)
	}
	texts = append(texts, readText(t, second))
	if texts[len(texts)-1] != "two" {
		t.Errorf("got %q, want two at the end", texts)
	}
}

// TestAbsentUDP sends to a port of this machine where nobody listens: nothing counts as sent. Then somebody does.
func TestAbsentUDP(t *testing.T) {
	t.Parallel()
	probe, err := net.ListenPacket("udp", loopback()+":0")
	if err != nil {
		t.Fatal(err)
	}
	address := probe.LocalAddr().String()
	s := openSenderAt(t, describeContainer("tag", map[string]string{"syslog-address": "udp://" + address}))
	sendAll(t, s, makeRecords("0"))
	readPackets(t, probe, "0")
	_ = probe.Close()
	for _, texts := range [][]string{{"1"}, {"1", "2", "3"}} {
		sendInVain(t, s, texts, address, syscall.ECONNREFUSED.Error())
	}
	back, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close() //nolint:errcheck // only read
	sendAll(t, s, makeRecords("1", "2", "3"))
	readPackets(t, back, "1", "2", "3")
}

// readPackets reads datagrams with these texts.
func readPackets(t *testing.T, conn net.PacketConn, texts ...string) {
	t.Helper()
	var buf [1 << 16]byte
	for _, want := range texts {
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, _, err := conn.ReadFrom(buf[:])
		if err != nil || !strings.HasSuffix(string(buf[:n]), "]: "+want) {
			t.Fatalf("got %q, %v, want a datagram of %s", buf[:n], err, want)
		}
	}
}

// TestSmallDatagrams has a socket that takes less than a message: pieces that fit are sent.
func TestSmallDatagrams(t *testing.T) {
	t.Parallel()
	path := shortDir(t) + "/socket"
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // only read
	s := openSenderAt(t, describeContainer("tag", map[string]string{"syslog-address": "unixgram://" + path}))
	if err := s.conn.raw.(*net.UnixConn).SetWriteBuffer(1); err != nil { // the kernel has its own minimum
		t.Fatal(err)
	}
	long := strings.Repeat("0123456789", 1000)
	go func() {
		if n, err := s.Send(t.Context(), makeRecords("first", long, "last"), true); n != 3 || err != nil {
			t.Errorf("Send = %d, %v, want 3, nil", n, err)
		}
	}()
	var buf [1 << 16]byte
	var texts []string
	for len(texts) == 0 || texts[len(texts)-1] != "last" {
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf[:])
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(buf[:n]), ": ")
		texts = append(texts, text)
	}
	if joined := strings.Join(texts[1:len(texts)-1], ""); texts[0] != "first" || joined != long {
		t.Errorf("got %.20q, %d bytes in %d pieces, want first, %d bytes", texts[0], len(joined), len(texts)-2, len(long))
	}
}

// TestCounted reads what is sent with TLS by its lengths.
func TestCounted(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"rfc5424", "rfc5424micro"} {
		testCounted(t, format)
	}
}

func testCounted(t *testing.T, format string) {
	t.Helper()
	listener, options := listenAt(t, "tcp")
	dir, pki := shortDir(t), newAuthority(t)
	host, _, _ := net.SplitHostPort(listener.Addr().String())
	pki.writeFiles(t, dir, host)
	options = map[string]string{
		"syslog-address": strings.Replace(options["syslog-address"], "tcp", "tcp+tls", 1), "syslog-tls-ca-cert": dir + "/ca.pem",
		"syslog-format": format,
	}
	set := describeContainer("tag", options)
	set.Resume = true
	s := openSenderAt(t, set)
	go func() {
		if n, err := s.Send(t.Context(), makeRecords("one", "", "a third"), true); n != 3 || err != nil {
			t.Errorf("Send = %d, %v, want 3, nil", n, err)
		}
	}()
	r := bufio.NewReader(tls.Server(acceptFrom(t, listener), pki.serverConfig(t, dir, tls.NoClientCert)))
	for _, want := range []string{"one", "", "a third"} {
		var size int
		if _, err := fmt.Fscanf(r, "%d ", &size); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, size)
		if _, err := io.ReadFull(r, buf); err != nil || !strings.HasSuffix(string(buf), " tag - "+want) {
			t.Errorf("got %q, %v, want %q at the end", buf, err, want)
		}
	}
}

// serveTLS takes connections for ever, and reads from them.
func serveTLS(listener net.Listener, config *tls.Config) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close() //nolint:errcheck // nothing is written
			_, _ = io.Copy(io.Discard, tls.Server(conn, config))
		}()
	}
}

// patient is a target with the times for a receiver that says no late, on a busy machine.
var patient = target{wait: 2 * time.Minute, verdict: time.Minute}

// TestCertificates opens senders with right and wrong certificates, with both versions of TLS.
func TestCertificates(t *testing.T) {
	t.Parallel()
	pki, foreign, dir, other := newAuthority(t), newAuthority(t), shortDir(t), shortDir(t)
	host := loopback()
	pki.writeFiles(t, dir, host)
	pki.writePair(t, other, "server", "127.0.0.1")
	foreign.writeFiles(t, other+"/", host)
	pki.writePair(t, other, "elsewhere", "127.0.0.1")
	for _, c := range []struct {
		name, fails string
		options     map[string]string
		auth        tls.ClientAuthType
		server      string
		silent      bool // does not say that it takes a certificate
	}{
		{name: "good"},
		{name: "unknown authority", options: map[string]string{}, fails: "certificate signed by unknown authority"},
		{name: "other authority", options: map[string]string{"syslog-tls-ca-cert": other + "/ca.pem"}, fails: "unknown authority"},
		{name: "not looked at", options: map[string]string{"syslog-tls-skip-verify": "true"}},
		{name: "looked at", options: map[string]string{"syslog-tls-skip-verify": "false"}, fails: "unknown authority"},
		{name: "other name", server: other + "/elsewhere", fails: "not " + host},
		{name: "asked", auth: tls.RequestClientCert},
		{name: "own missing", auth: tls.RequireAndVerifyClientCert, fails: "remote error"},
		{name: "own wrong", options: map[string]string{
			"syslog-tls-ca-cert": dir + "/ca.pem", "syslog-tls-cert": other + "/client.pem", "syslog-tls-key": other + "/client-key.pem",
		}, auth: tls.RequireAndVerifyClientCert, fails: "certificate"},
		{name: "own", options: map[string]string{
			"syslog-tls-ca-cert": dir + "/ca.pem", "syslog-tls-cert": dir + "/client.pem", "syslog-tls-key": dir + "/client-key.pem",
		}, auth: tls.RequireAndVerifyClientCert},
		{name: "own, silent", options: map[string]string{
			"syslog-tls-ca-cert": dir + "/ca.pem", "syslog-tls-cert": dir + "/client.pem", "syslog-tls-key": dir + "/client-key.pem",
		}, auth: tls.RequireAndVerifyClientCert, silent: true},
		{name: "own missing, silent", auth: tls.RequireAnyClientCert, silent: true, fails: "remote error"},
	} {
		if c.options == nil {
			c.options = map[string]string{"syslog-tls-ca-cert": dir + "/ca.pem"}
		}
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			config := pki.serverConfig(t, dir, c.auth)
			config.MaxVersion, config.SessionTicketsDisabled = version, c.silent
			if c.server != "" {
				pair, err := tls.LoadX509KeyPair(c.server+".pem", c.server+"-key.pem")
				if err != nil {
					t.Fatal(err)
				}
				config.Certificates = []tls.Certificate{pair}
			}
			listener, err := net.Listen("tcp", host+":0")
			if err != nil {
				t.Fatal(err)
			}
			go serveTLS(listener, config)
			options := map[string]string{"syslog-address": "tcp+tls://" + listener.Addr().String()}
			maps.Copy(options, c.options)
			way := patient
			if c.silent && c.fails == "" {
				way.verdict = verdictTime // which will be over
			}
			s, err := openSender(t.Context(), describeContainer("tag", options), way)
			if err == nil {
				_ = s.Close()
			}
			told := fault.Is(err, fault.Unavailable) && strings.Contains(err.Error(), options["syslog-address"])
			if c.fails == "" && err != nil || c.fails != "" && (!told || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%s, %s: Open = %v, want %q", c.name, tls.VersionName(version), err, c.fails)
			}
			_ = listener.Close()
		}
	}
}

// TestOldTLS refuses versions that are not safe.
func TestOldTLS(t *testing.T) {
	t.Parallel()
	pki, dir, host := newAuthority(t), shortDir(t), loopback()
	pki.writeFiles(t, dir, host)
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // ends serveTLS
	config := pki.serverConfig(t, dir, tls.NoClientCert)
	config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	go serveTLS(listener, config)
	s, err := Open(t.Context(), describeContainer("tag", map[string]string{
		"syslog-address": "tcp+tls://" + listener.Addr().String(), "syslog-tls-ca-cert": dir + "/ca.pem",
	}))
	if err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("Open = %v, %v, want an error about the version", s, err)
	}
}

// TestStalledHandshake has a receiver that connects and says nothing.
func TestStalledHandshake(t *testing.T) {
	t.Parallel()
	_, options := listenAt(t, "tcp") // the kernel connects
	options["syslog-address"] = strings.Replace(options["syslog-address"], "tcp", "tcp+tls", 1)
	set := describeContainer("tag", options)
	set.Resume = true
	s := openSenderAt(t, set)
	gone := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer time.AfterFunc(50*time.Millisecond, func() { cancel(gone) }).Stop()
	if n, err := s.Send(ctx, makeRecords("x"), true); n != 0 || !errors.Is(err, gone) {
		t.Errorf("Send = %d, %v, want 0 and the end of the context", n, err)
	}
	s.target.wait = 50 * time.Millisecond
	if n, err := s.Send(t.Context(), makeRecords("x"), true); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Send = %d, %v, want 0 and the end of the time to connect", n, err)
	}
}

// TestFiles names files that are not what they should be.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir, pki := shortDir(t), newAuthority(t)
	pki.writeFiles(t, dir, "127.0.0.1")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	writePEM(t, filepath.Join(dir, "large"), "CERTIFICATE", pki.cert.Raw)
	if err := os.Truncate(filepath.Join(dir, "large"), mostFile+1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ option, file string }{
		{"syslog-tls-ca-cert", "absent"},
		{"syslog-tls-ca-cert", "pipe"},
		{"syslog-tls-ca-cert", "empty"},
		{"syslog-tls-ca-cert", "large"},
		{"syslog-tls-ca-cert", "client-key.pem"},
		{"syslog-tls-cert", "absent"},
		{"syslog-tls-cert", "server.pem"}, // of another key
		{"syslog-tls-key", "absent"},
		{"syslog-tls-key", "empty"},
	} {
		options := map[string]string{
			"syslog-address":  "tcp+tls://127.0.0.1:1",
			"syslog-tls-cert": dir + "/client.pem", "syslog-tls-key": dir + "/client-key.pem",
		}
		options[c.option] = filepath.Join(dir, c.file)
		set := describeContainer("tag", options)
		set.Resume = true
		_, err := Open(t.Context(), set)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.option) ||
			!strings.Contains(err.Error(), options[c.option]) {
			t.Errorf("%s %s: Open = %v, want fault.Invalid with both", c.option, c.file, err)
		}
		if strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s %s: Open = %v, which shows the file", c.option, c.file, err)
		}
	}
}

// TestHeaderSize refuses what would leave no room for the text.
func TestHeaderSize(t *testing.T) {
	t.Parallel()
	for size, fits := range map[int]bool{mostHeader - 200: true, mostHeader: false, 1 << 20: false} {
		for _, format := range formats {
			set := describeContainer("tag", map[string]string{"syslog-address": "udp://127.0.0.1", "syslog-format": format})
			set.Container.Attrs = map[string]string{"a": strings.Repeat("v", size)}
			s, err := Open(t.Context(), set)
			if err == nil {
				_ = s.Close()
			}
			if fits != (err == nil) || !fits && !fault.Is(err, fault.Invalid) {
				t.Errorf("Open with %d bytes in format %q = %v, want it fits: %v", size, format, err, fits)
			}
		}
	}
}

// TestClosedSender sends nothing more.
func TestClosedSender(t *testing.T) {
	t.Parallel()
	listener, options := listenAt(t, "tcp")
	s := openSenderAt(t, describeContainer("tag", options))
	conn := acceptFrom(t, listener)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	if n, err := s.Send(t.Context(), makeRecords("x"), true); n != 0 || err == nil {
		t.Errorf("Send after Close = %d, %v, want an error", n, err)
	}
	if data, err := io.ReadAll(conn); len(data) != 0 || err != nil {
		t.Errorf("the receiver got %q, %v, want the end", data, err)
	}
	if got := s.Batch(); got != (logsink.Batch{Records: batchRecords, Bytes: batchBytes}) {
		t.Errorf("Batch = %+v", got)
	}
}
