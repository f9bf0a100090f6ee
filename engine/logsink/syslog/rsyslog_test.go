package syslog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"moss/engine/logsink"
	"moss/engine/stdio"
)

// patience is how long the tests wait for anything that comes.
const patience = 30 * time.Second

// message is what rsyslogd understood of a message.
type message struct {
	Pri, Time, Host, Program, Tag, PID, MsgID, Data, Text, Raw string
}

// daemon is an rsyslogd that listens in all ways, and writes what it understood into a file.
type daemon struct {
	t    *testing.T
	dir  string
	host string // an address of this machine that nobody else uses
	pki  *authority
	conf string
	cmd  *exec.Cmd
	done chan struct{}
	said bytes.Buffer
}

const (
	plainPort  = "10514"
	tlsPort    = "16514" // any client
	mutualPort = "16515" // clients with a certificate
)

const daemonConf = `
global(workDirectory="DIR" net.enableDNS="off" DefaultNetstreamDriverCAFile="DIR/ca.pem"
  DefaultNetstreamDriverCertFile="DIR/server.pem" DefaultNetstreamDriverKeyFile="DIR/server-key.pem")
module(load="imudp")
module(load="imtcp")
module(load="imptcp")
module(load="imuxsock" SysSock.Use="off")
template(name="json" type="list" option.jsonf="on") {
  property(outname="pri" name="pri" format="jsonf")
  property(outname="time" name="timereported" dateFormat="rfc3339" format="jsonf")
  property(outname="host" name="hostname" format="jsonf")
  property(outname="program" name="app-name" format="jsonf")
  property(outname="tag" name="syslogtag" format="jsonf")
  property(outname="pid" name="procid" format="jsonf")
  property(outname="msgid" name="msgid" format="jsonf")
  property(outname="data" name="structured-data" format="jsonf")
  property(outname="text" name="msg" format="jsonf")
  property(outname="raw" name="rawmsg" format="jsonf")
}
ruleset(name="out") { action(type="omfile" file="DIR/out" template="json") }
input(type="imudp" address="HOST" port="10514" ruleset="out")
input(type="imtcp" address="HOST" port="10514" ruleset="out")
input(type="imtcp" address="HOST" port="16514" ruleset="out" StreamDriver.Name="DRIVER" StreamDriver.Mode="1"
  StreamDriver.AuthMode="anon")
input(type="imtcp" address="HOST" port="16515" ruleset="out" StreamDriver.Name="DRIVER" StreamDriver.Mode="1"
  StreamDriver.AuthMode="x509/certvalid")
input(type="imptcp" path="DIR/stream" unlink="on" ruleset="out")
input(type="imuxsock" Socket="DIR/datagram" ruleset="out" RateLimit.Interval="0" UseSysTimeStamp="off" IgnoreTimestamp="off"
  UseSpecialParser="off" ParseHostname="on")
input(type="imuxsock" Socket="DIR/local" ruleset="out" RateLimit.Interval="0")
`

// startDaemon starts rsyslogd with one of its drivers of TLS, and waits until it listens.
func startDaemon(t *testing.T, driver string) *daemon {
	t.Helper()
	d := &daemon{t: t, dir: shortDir(t), host: loopback(), pki: newAuthority(t)}
	d.pki.writeFiles(t, d.dir, d.host)
	d.conf = strings.NewReplacer("DIR", d.dir, "HOST", d.host, "DRIVER", driver).Replace(daemonConf)
	if err := os.WriteFile(filepath.Join(d.dir, "conf"), []byte(d.conf), 0o600); err != nil {
		t.Fatal(err)
	}
	d.start()
	t.Cleanup(d.stop)
	return d
}

// start starts rsyslogd and waits until it listens in all ways.
func (d *daemon) start() {
	d.t.Helper()
	path, err := exec.LookPath("rsyslogd")
	if err != nil {
		path = "/usr/sbin/rsyslogd" // which is not in the PATH of every user
	}
	d.cmd = exec.Command(path, "-n", "-f", filepath.Join(d.dir, "conf"), "-i", filepath.Join(d.dir, "pid"))
	d.cmd.Stderr = &d.said
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatalf("rsyslogd: %v: install it (hack/install-deps.sh --for test)", err)
	}
	d.done = make(chan struct{})
	go func() {
		_ = d.cmd.Wait()
		close(d.done)
	}()
	for _, port := range []string{plainPort, tlsPort, mutualPort} {
		d.await("port "+port+" to listen", func() bool { return listensTCP(d.t, d.host, port) })
	}
	for _, address := range []string{"unix " + d.dir + "/stream", "unixgram " + d.dir + "/datagram", "unixgram " + d.dir + "/local"} {
		network, address, _ := strings.Cut(address, " ")
		d.await(address+" to listen", func() bool {
			conn, err := net.Dial(network, address)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		})
	}
	d.await("the UDP port to listen", func() bool { return listensUDP(d.t, d.host+":"+plainPort) })
}

// stop ends rsyslogd at once.
func (d *daemon) stop() {
	_ = d.cmd.Process.Kill()
	<-d.done
	_ = os.Remove(filepath.Join(d.dir, "pid")) // else the next one does not start
}

// awaitCondition waits for a condition.
func (d *daemon) await(what string, holds func() bool) {
	d.t.Helper()
	awaitCondition(d.t, what, func() bool {
		select {
		case <-d.done:
			d.t.Fatalf("rsyslogd ended while %s was awaited: %s", what, &d.said)
		default:
		}
		return holds()
	})
}

// read waits for a number of messages of a program and returns them.
func (d *daemon) read(program string, number int) (messages []message) {
	d.t.Helper()
	d.await(fmt.Sprintf("%d messages of %s", number, program), func() bool {
		messages = d.readAll(program)
		return len(messages) >= number
	})
	if len(messages) > number {
		d.t.Fatalf("%d messages of %s, want %d: %+v", len(messages), program, number, messages)
	}
	return messages
}

// readAll returns the messages of a program that are there.
func (d *daemon) readAll(program string) (messages []message) {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, "out"))
	if err != nil && !os.IsNotExist(err) {
		d.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var m message
		if !strings.HasSuffix(line, "\n") {
			break // not yet written to its end
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			d.t.Fatalf("%v in %q", err, line)
		}
		if m.Program == program {
			messages = append(messages, m)
		}
	}
	return messages
}

// address returns the address of one of the daemon's inputs.
func (d *daemon) address(way string) string {
	switch way {
	case "unix":
		return "unix://" + d.dir + "/stream"
	case "unixgram":
		return "unixgram://" + d.dir + "/datagram"
	case "tcp+tls":
		return "tcp+tls://" + d.host + ":" + tlsPort
	default:
		return way + "://" + d.host + ":" + plainPort
	}
}

// describeContainer returns what a container with options is opened with. The tag is its program.
func describeContainer(tag string, options map[string]string) logsink.Setup {
	return logsink.Setup{Container: logsink.Container{Tag: tag, Host: "machine.example"}, Options: options}
}

// openSenderAt opens a sender and closes it at the test's end.
func openSenderAt(t *testing.T, s logsink.Setup) *sender {
	t.Helper()
	opened, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened.(*sender)
}

// makeRecords returns records of standard output.
func makeRecords(texts ...string) (all []logsink.Record) {
	for _, text := range texts {
		all = append(all, logsink.Record{At: time.Now(), Stream: stdio.Stdout, Text: []byte(text)})
	}
	return all
}

// sendAll sends all records at once.
func sendAll(t *testing.T, s logsink.Sender, all []logsink.Record) {
	t.Helper()
	if n, err := s.Send(t.Context(), all, true); n != len(all) || err != nil {
		t.Fatalf("Send = %d, %v, want %d, nil", n, err, len(all))
	}
}

// sendInVain sends what nobody takes, and looks for words in the error.
func sendInVain(t *testing.T, s logsink.Sender, texts []string, words ...string) {
	t.Helper()
	n, err := s.Send(t.Context(), makeRecords(texts...), true)
	if n != 0 || err == nil {
		t.Fatalf("Send of %v = %d, %v, want 0 and an error", texts, n, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("Send of %v: %v, want %s in it", texts, err, word)
		}
	}
}

// sendUntil sends records again until all are taken, as moss-log does.
func sendUntil(t *testing.T, s logsink.Sender, all []logsink.Record) {
	t.Helper()
	awaitCondition(t, "the records to be taken", func() bool {
		n, err := s.Send(t.Context(), all, true)
		if all = all[n:]; err == nil && len(all) > 0 {
			t.Fatalf("Send left %d records without an error", len(all))
		}
		return err == nil
	})
}

// awaitCondition waits for a condition.
func awaitCondition(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !holds() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// shortDir returns a folder whose name leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "syslog") //nolint:usetesting // the name of the test would make it too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// loopback returns an address of this machine that the kernel gives to no socket by itself.
func loopback() string {
	return net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254))).String()
}

// listensTCP tells whether an IPv4 address takes connections. It makes none: of one that ends at once a daemon that just starts
// may lose the next.
func listensTCP(t *testing.T, host, port string) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	ip := net.ParseIP(host).To4()
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	const listening = " 00000000:0000 0A "
	return strings.Contains(string(table), fmt.Sprintf(" %02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], number)+listening)
}

// listensUDP tells whether a socket of this machine is bound to an address: an empty datagram, which no daemon takes for a
// message, is not refused.
func listensUDP(t *testing.T, address string) bool {
	t.Helper()
	conn, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	if _, err := conn.Write(nil); err != nil {
		t.Fatal(err)
	}
	return pendingError(conn.(*net.UDPConn)) == nil
}
