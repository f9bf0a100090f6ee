package tunnel

import (
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"moss/engine/swarm/swarmtest"
	"moss/slirp/slirptest"
)

// route is a way between two machines.
type route struct {
	name           string
	client, server string // namespaces
	addr           string
}

func routesOf(b *testing.B) []route {
	all := newMachines(b, 2)
	meet(b, all)
	conn, _, err := swarmtest.Dial(all[0].container, all[1].addr.String(), swarmtest.Listen(b, all[1].container))
	check(b, err)
	echo(b, conn)
	check(b, conn.Close())
	return []route{
		{"wire", all[0].host, all[1].host, "192.0.2.2"},
		{"tunnel", all[0].container, all[1].container, all[1].addr.String()},
	}
}

// BenchmarkOneStream sends one stream of TCP.
func BenchmarkOneStream(b *testing.B) {
	for _, r := range routesOf(b) {
		b.Run(r.name, func(b *testing.B) {
			var l net.Listener
			slirptest.In(b, r.server, func() (err error) {
				l, err = net.Listen("tcp4", ":0")
				return err
			})
			defer func() { _ = l.Close() }()
			done := make(chan error, 1)
			go func() {
				conn, err := l.Accept()
				if err == nil {
					_, err = io.Copy(io.Discard, conn)
				}
				done <- err
			}()
			var conn net.Conn
			slirptest.In(b, r.client, func() (err error) {
				_, port, _ := net.SplitHostPort(l.Addr().String())
				conn, err = net.Dial("tcp4", net.JoinHostPort(r.addr, port))
				return err
			})
			block := make([]byte, 1<<20)
			b.SetBytes(int64(len(block)))
			for b.Loop() {
				_, err := conn.Write(block)
				check(b, err)
			}
			check(b, conn.Close())
			check(b, <-done)
			b.ReportMetric(float64(residentKiB(b)), "KiB-PSS")
		})
	}
}

// BenchmarkRoundTrip sends one byte and waits for it to come back.
func BenchmarkRoundTrip(b *testing.B) {
	for _, r := range routesOf(b) {
		b.Run(r.name, func(b *testing.B) {
			conn, _, err := swarmtest.Dial(r.client, r.addr, swarmtest.Listen(b, r.server))
			check(b, err)
			defer func() { _ = conn.Close() }()
			var one [1]byte
			for b.Loop() {
				_, err := conn.Write(one[:])
				check(b, err)
				_, err = io.ReadFull(conn, one[:])
				check(b, err)
			}
		})
	}
}

// BenchmarkMemory tells what the process holds without a tunnel, and with one that has been idle from the start.
func BenchmarkMemory(b *testing.B) {
	before := residentKiB(b)
	m := newMachines(b, 1)[0]
	for b.Loop() {
		runtime.GC()
	}
	b.ReportMetric(float64(before), "KiB-before")
	b.ReportMetric(float64(residentKiB(b)-before), "KiB-idle")
	b.ReportMetric(0, "ns/op")
	_ = m
}

// residentKiB returns the proportional set size of this process.
func residentKiB(b *testing.B) int {
	data, err := os.ReadFile("/proc/self/smaps_rollup")
	check(b, err)
	_, rest, _ := strings.Cut(string(data), "\nPss:")
	line, _, _ := strings.Cut(rest, "kB")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	check(b, err)
	return n
}
